"""`TableColumns`: which columns, of what kind, found again; and what a file may say of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mercer
from mercer.domains import Table
from mercer.errors import InvalidInput, ModelFileError, speaking_for
from mercer.features.table_columns import TableColumns, read_rows

FRAME = pd.DataFrame(
    {
        "n": [1, 2, 3],
        "f": [1.0, np.nan, 2.0],
        "b": [True, False, True],
        "bn": pd.array([True, None, False], dtype="boolean"),
        "s": ["x", None, "z"],
        "c": pd.Categorical(["u", "v", "u"], ordered=True),
        "d": pd.date_range("2020-01-01", periods=3),
        "v": [np.zeros(2), np.ones(3), np.ones(1)],
        "m": ["x", 1, None],
        "e": [None, None, None],
    }
)
NUMBERS, TRUTHS, TEXTS, OBJECTS = ("n", "f", "e"), ("b", "bn"), ("s", "c"), ("d", "v", "m")


def test_kinds():
    found = TableColumns.of(read_rows(FRAME, None), None)
    kinds = zip(found.columns_, found.kinds_, strict=True)
    groups = {"number": NUMBERS, "truth": TRUTHS, "text": TEXTS, "object": OBJECTS}
    assert set(kinds) == {(name, kind) for kind, names in groups.items() for name in names}
    assert found.named_ and found.n_features_in_ == 10
    assert found.feature_names_in_.tolist() == list(FRAME)


def test_some_columns_in_the_order_of_the_kernel():
    found = TableColumns.of(read_rows(FRAME, ("s", "n")), ("s", "n"))
    assert found.columns_ == ("s", "n") and found.kinds_ == ("text", "number")
    again = found.transform(FRAME[["v", "n", "s"]])
    assert again.names == ("s", "n") and again["n"].tolist() == [1, 2, 3]
    with (
        pytest.raises(InvalidInput, match="T: missing columns 's', 'n'; they were there in fit"),
        speaking_for("T"),
    ):
        found.transform(FRAME[["v"]])
    with pytest.raises(InvalidInput, match="Did you mean 'N'"), speaking_for("T"):
        found.transform(FRAME[["n", "s"]].rename(columns={"n": "N"}))


def test_values_and_orders_stay():
    found = TableColumns.of(read_rows(FRAME, None), None)
    Z = found.transform(FRAME)
    assert Z.orders == {"c": ("u", "v")} and Z["v"][1] is FRAME["v"][1]
    assert Z["b"].dtype == bool and Z["n"].dtype.kind == "i" and Z["m"].tolist() == ["x", 1, None]


def test_arrays():
    A = np.array([[1.0, np.nan], [2.0, 3.0]])
    for X in (A, A.astype(np.float32), A.tolist()):
        found = TableColumns.of(read_rows(X, None), None)
        assert found.kinds_ == ("number", "number") and not found.named_
        assert found.transform(X).shape == (2, 2)
        with pytest.raises(AttributeError):
            _ = found.feature_names_in_
        with (
            pytest.raises(InvalidInput, match="X has 1 features, but T is expecting 2"),
            speaking_for("T"),
        ):
            found.transform(A[:, :1])


@pytest.mark.parametrize(
    "X",
    [
        "abc",
        3,
        None,
        [],
        np.zeros((0, 2)),
        np.zeros((2, 0)),
        {},
        Table({}),
        sp.eye(2),
        sp.dok_array((2, 2)),
    ],
)
def test_what_is_no_table_is_refused_by_name(X):
    with pytest.raises(InvalidInput, match=r"^T: "), speaking_for("T"):
        read_rows(X, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("columns_", ("a", "a")),
        ("columns_", ("a",)),
        ("columns_", ("a", 1)),
        ("columns_", ("a", ["b"])),
        ("columns_", ["a", "b"]),
        ("columns_", "ab"),
        ("kinds_", ("number", "wizardry")),
        ("kinds_", ("number", ["text"])),
        ("kinds_", ("number", "text", "text")),
        ("named_", 1),
        ("named_", None),
        ("known_", ((),)),
        ("known_", [(), ()]),
        ("known_", ((), ["x"])),
        ("known_", ((), (1,))),
    ],
)
def test_files_that_are_malformed_are_refused(name, value):
    parts = {"columns_": ("a", "b"), "kinds_": ("number", "text"), "named_": True}
    parts["known_"] = ((), ("x", "y"))
    assert vars(TableColumns.from_parts(**parts)) == parts
    with pytest.raises(ModelFileError):
        TableColumns.from_parts(**{**parts, name: value})


def test_in_a_file(tmp_path):
    found = TableColumns.of(read_rows(FRAME, None), None)
    mercer.save(found, tmp_path / "c")
    assert vars(mercer.load(tmp_path / "c")) == vars(found)
