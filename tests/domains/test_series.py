"""Series of vectors: every form of input, one packed collection, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mercer.domains import Series, SeriesCollection, Table
from mercer.errors import InvalidInput, ModelFileError

DOMAIN = Series()


def test_forms_of_one_collection_are_equal():
    rows = np.arange(6.0).reshape(2, 3)
    forms = [
        rows,
        rows.astype(np.float32),
        rows.astype(int),
        rows[:, :, None],
        rows.tolist(),
        [tuple(r) for r in rows],
        [rows[0], rows[1][:, None]],
        Table({"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2]}),
        np.array([None, rows[1]], dtype=object),
    ]
    forms[-1][0] = rows[0]
    first = DOMAIN.check(forms[0])
    assert len(first) == 2 and first.width == 1 and first.lengths.tolist() == [3, 3]
    for form in forms[1:]:
        assert DOMAIN.check(form) == first, type(form)
    assert DOMAIN.check(first) is first
    assert pickle.loads(pickle.dumps(first)) == first


def test_frames_of_series_and_of_numbers():
    pandas = pytest.importorskip("pandas")
    series = [np.array([1.0, 2.0]), np.array([3.0])]
    column = pandas.Series(series)
    frame = pandas.DataFrame({"s": series})
    expected = DOMAIN.check(series)
    assert DOMAIN.check(column) == expected
    assert DOMAIN.check(frame) == expected
    numbers = pandas.DataFrame({"t0": [1.0, 2.0], "t1": [3.0, 4.0]})
    assert DOMAIN.check(numbers) == DOMAIN.check([[1.0, 3.0], [2.0, 4.0]])


def test_points_are_hashable_and_come_back():
    series = [np.ones((2, 2)), np.zeros((0, 2)), np.arange(6.0).reshape(3, 2)]
    packed = DOMAIN.check(series)
    assert packed[0] == ((1.0, 1.0), (1.0, 1.0)) and packed[1] == ()
    assert len({*packed}) == 3
    assert DOMAIN.check(list(packed)) == packed
    assert DOMAIN.check([[1.0, 2.0], []])[0] == (1.0, 2.0)


def test_take_and_join():
    rng = np.random.default_rng(0)
    series = [rng.standard_normal((n, 2)) for n in (3, 0, 1, 5)]
    packed = DOMAIN.check(series)
    for index in (slice(1, 3), [3, 0], np.array([True, False, True, False]), []):
        some = packed.take(index)
        chosen = np.arange(4)[index] if len(np.atleast_1d(index)) else []
        assert list(some) == [packed[int(i)] for i in chosen]
    both = packed.take([0, 1]).joined(packed.take([2, 3]))
    assert both == packed
    empty = DOMAIN.check([[], []])
    assert empty.width == 1 and len(empty.joined(packed)) == 6


def test_empty_series_fit_any_width():
    X, Y = DOMAIN.match(DOMAIN.check([[], []]), DOMAIN.check([np.ones((2, 3))]))
    assert X.width == Y.width == 3 and len(X) == 2
    assert DOMAIN.check([]).width == 1
    assert len(DOMAIN.check(np.zeros((3, 0)))) == 3
    assert len(DOMAIN.check(np.zeros((0, 4)))) == 0


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.arange(5.0), "shape (5,)"),
        (np.zeros((1, 1, 1, 1)), "shape (1, 1, 1, 1)"),
        (3.0, "float"),
        ("abc", "str"),
        ([[1.0], ["a"]], "X[1]"),
        ([[1.0], None], "with_missing"),
        ([[1.0], float("nan")], "with_missing"),
        ([[1.0, float("nan")]], "X[0] holds NaN or infinity at step 1"),
        ([[1.0], [0.0, np.inf]], "X[1] holds NaN or infinity at step 1"),
        ([np.ones((2, 2)), [], np.ones((2, 3))], "X[2] 3"),
        ([[[1.0], [1.0, 2.0]]], "X[0]"),
        ([1.0, 2.0], "X[0]"),
        ([np.ones((2, 0))], "no numbers"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "dates"),
    ],
)
def test_what_is_no_series_is_named(X, words):
    with pytest.raises(InvalidInput, match="Series") as error:
        DOMAIN.check(X)
    assert words in str(error.value)


def test_widths_must_agree():
    with pytest.raises(InvalidInput, match="2 numbers and those of Y 1"):
        DOMAIN.match(DOMAIN.check([np.ones((1, 2))]), DOMAIN.check([[1.0]]))


@pytest.mark.parametrize(
    ("values", "offsets"),
    [
        (np.ones(3), np.array([0, 3])),
        (np.ones((3, 0)), np.array([0, 3])),
        (np.array([[np.nan]]), np.array([0, 1])),
        (np.ones((3, 1), dtype=np.float32), np.array([0, 3])),
        (np.ones((3, 1)), np.array([0, 2])),
        (np.ones((3, 1)), np.array([0, 4, 3])),
        (None, None),
    ],
)
def test_malformed_files_are_refused(values, offsets):
    with pytest.raises(ModelFileError):
        SeriesCollection.from_arrays(values, offsets)


def test_the_users_array_stays_as_it_was():
    X = np.zeros((2, 3))
    packed = DOMAIN.check(X)
    X[:] = 1.0
    assert (packed.values == 0).all() and X.flags.writeable
    one = np.zeros(4)
    DOMAIN.check([one])
    assert one.flags.writeable
