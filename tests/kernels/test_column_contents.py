"""What columns hold: numbers, categories, text, sequences, graphs; what is left out, and why."""

import uuid
from decimal import Decimal

import numpy as np
import pytest

import mercer
from mercer import kernels as mk
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.kernels import Categorical, auto_kernel, column_kinds
from tests.kernels.mixed_columns import frames


def test_kinds_of_columns():
    data, several = frames()
    expected = {
        "age": "number",
        "dose": "number",
        "site": "category",
        "smoker": "category",
        "sequence": "sequence",
        "note": "text",
        "patient": "left out",
        "unit": "left out",
        "id": "left out",
    }
    for frame in [data, *several]:
        kinds = column_kinds(frame)
        assert {name: found.kind for name, found in kinds.items()} == expected
        assert all(found.reason for found in kinds.values())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.0, 2.0, np.nan], "number"),
        ([np.nan, np.nan], "left out"),
        ([None, None], "left out"),
        ([5, 5, 5], "left out"),
        ([5, None, 5], "category"),
        ([1.0, np.inf], "left out"),
        ([True, False, None], "category"),
        ([True, True], "left out"),
        (["yes", "no", "yes", None], "category"),
        (["yes", None], "left out"),
        (["MKVLA" * 3, "MKVIAW" * 2, "GGSTP" * 4], "sequence"),
        (["acgtacgt", "acgtaact", "aaaacccc"], "sequence"),
        (["Amsterdam", "Rotterdam", "Maastricht"], "left out"),
        (["a 1", "b 2", "a 1", "b 2"], "category"),
        (np.array(["2020", "2021"], dtype="M8[Y]"), "left out"),
        ([np.zeros(2), np.zeros(3)], "left out"),
        ([[1, 2], [3]], "left out"),
        ([1, "a", 1, "a", None], "category"),
        ([1, "a"], "left out"),
        ([{"a": 1}, {"b": 2}], "left out"),
        ([b"x", b"x", b"y", b"y"], "category"),
        ([], "left out"),
        ([3.5], "left out"),
        (["boston", "london", "boston"], "category"),
        (["MUNICH", "BERLIN", "HAMBURG", "DRESDEN", "MUNICH"], "category"),
        (["MUNICH", "BERLIN", "HAMBURG", "DRESDEN"], "left out"),
        (["ACGTNacgtn", "acgtnnAA", "ACGTTTTT"], "sequence"),
        ([Decimal("1.5"), Decimal("2"), None], "number"),
        ([(1, "a"), (2, "b")] * 2, "category"),
        ([(1.0, 2.0), (3.0, 4.0)], "left out"),
        ([2**53 + 1, 2, None], "number"),
    ],
)
def test_kind_of_one_column(values, kind):
    assert column_kinds({"c": values})["c"].kind == kind


def test_short_strings_of_capitals():
    rng = np.random.default_rng(0)
    goods = ["".join(rng.choice(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 8)) for _ in range(60)]
    peptides = ["".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 9)) for _ in range(60)]
    kinds = column_kinds({"sku": goods, "peptide": peptides, "again": [*goods[:-1], goods[0]]})
    assert [k.kind for k in kinds.values()] == ["left out", "sequence", "category"]


def strings(letters, n=100, shortest=150, longest=250, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), rng.integers(shortest, longest))) for _ in range(n)]


SOFT = [s[:50] + s[50:90].lower() + s[90:] for s in strings("ACGT")]
PEPTIDES = strings("ACDEFGHIKLMNPQRSTVWY", shortest=30, longest=50)


@pytest.mark.parametrize(
    "values",
    [
        ["N" + SOFT[0], *SOFT[1:]],
        ["Nn" + s for s in SOFT],
        ["Nn" + s if i % 17 else "" for i, s in enumerate(SOFT)],
        ["Nn" + s if i % 17 else None for i, s in enumerate(SOFT)],
        [*strings("ACGT")[:-1], "not available"],
        [*strings("ACGT")[:-1], "see lab book, page 12"],
        [s.lower() for s in PEPTIDES],
        [*PEPTIDES[:-1], "?"],
        strings("CNO=()1c[]@H#23", shortest=15, longest=40),
        strings("海は広い青空山川風雨日本語文字列", shortest=15, longest=40),
    ],
)
def test_strings_are_no_identifiers(values):
    kind, reason = column_kinds({"c": values})["c"]
    assert kind == "sequence" and reason.startswith("strings of")
    assert "Spectrum(length=3" in repr(auto_kernel({"c": values}))


def test_few_odd_rows_are_few():
    DNA = strings("ACGT", shortest=10, longest=15)
    words = ["none", "unknown", "see below", "lost", "to do", "x y", "?", "later", "no", "yes"]
    assert column_kinds({"c": DNA[:-5] + words[:5]})["c"].kind == "sequence"
    assert column_kinds({"c": DNA[:-10] + words})["c"].kind == "left out"


def test_the_case_of_letters_is_told():
    told = "lower and upper case letters differ"
    assert told in column_kinds({"c": SOFT})["c"].reason
    assert told not in column_kinds({"c": [*strings("ACGT")[:-1], "not available"]})["c"].reason
    assert told not in column_kinds({"c": [s.lower() for s in SOFT]})["c"].reason


def test_empty_text_is_judged_as_missing():
    for values in (
        ["a", "b", "a", ""],
        ["P1", "", "P2"],
        ["yes", ""],
        ["", "x"],
        ["ab cd ef gh", ""],
    ):
        holed = [v or None for v in values]
        assert column_kinds({"c": values})["c"] == column_kinds({"c": holed})["c"]
    assert column_kinds({"c": ["", ""]})["c"].kind == "left out"


def test_keys_are_no_sequences():
    rng = np.random.default_rng(0)
    keys = [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(50)]
    times = [f"2020-01-01T00:00:00.{i:06d}" for i in range(50)]
    kinds = column_kinds({"uuid": keys, "time": times, "n": [str(i) for i in range(50)]})
    assert [k.kind for k in kinds.values()] == ["left out"] * 3
    assert kinds["n"].reason == "numbers written as text; convert them to numbers"


def test_kinds_that_the_user_says():
    frame = {"a": ["GAT", "TAC", "CAT"], "b": [1, 2, 3], "c": ["one", "two", "three"]}
    kinds = column_kinds(frame, kinds={"a": "sequence", 1: "category", "c": "text"})
    assert [k.kind for k in kinds.values()] == ["sequence", "category", "text"]
    assert {k.reason for k in kinds.values()} == {"as asked"}
    k = auto_kernel(frame, kinds={"a": "sequence", "b": "left out", "c": "text"})
    assert "Spectrum" in repr(k) and "BagOfWords" in repr(k) and "'b'" not in repr(k)
    with pytest.raises(InvalidInput, match=r"kinds=.*Spectrum\(3\)\.on"):
        auto_kernel({"a": frame["a"]})
    for wrong, words in (
        ({"z": "text"}, "kinds names the column 'z'"),
        ({"a": "dna"}, "kinds says 'dna' of the column 'a'"),
        ({"a": "number"}, "'a' holds numbers, and it holds others"),
        ({"b": "sequence"}, "'b' holds sequence, and it holds values that are no strings"),
        ({True: "text"}, "names the column True"),
    ):
        with pytest.raises(InvalidInput, match=words):
            auto_kernel(frame, kinds=wrong)
    with pytest.raises(InvalidInput, match="'category' and 'text'"):
        auto_kernel(frame, categorical=["a"], kinds={0: "text"})
    assert column_kinds({"a": [None, None]}, kinds={"a": "text"})["a"].kind == "left out"
    assert column_kinds({"a": ["x", "x"]}, kinds={"a": "text"})["a"].kind == "left out"


def test_reasons():
    pandas = pytest.importorskip("pandas")
    days = pandas.Series(pandas.date_range("2020", periods=3))
    for values in (days, days.dt.tz_localize("UTC"), days.dt.date, days.dt.to_period("D")):
        kind = column_kinds(pandas.DataFrame({"day": values}))["day"]
        assert kind == ("left out", "dates; turn them into numbers, such as days")
    for values, words in (
        ([b"a", b"b"], "values of the kind bytes that hardly repeat"),
        ([b"a", "b"] * 2, "2 different values of the kinds bytes, str"),
        ([[1], (2,)], "arrays; choose SetKernel"),
        ([{1}, {2}], "values of the kind set"),
    ):
        assert column_kinds({"c": values})["c"].reason.startswith(words)


def test_categories_that_the_frame_declares():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    arrow = pytest.importorskip("pyarrow")
    levels, codes = ["lo", "hi"], np.arange(30) % 2
    words = np.array(levels)[codes]
    ordered = arrow.DictionaryArray.from_arrays(codes, levels, ordered=True)
    cases = [
        (pandas.Series(codes).astype("category"), "category"),
        (pandas.Series([f"x{i}" for i in range(30)], dtype="category"), "category"),
        (pandas.Series(pandas.Categorical(words, levels, ordered=True)), "ordinal"),
        (pandas.Series(pandas.cut(np.arange(30), 3)), "ordinal"),
        (pandas.Series(["a"] * 30, dtype="category"), "left out"),
        (polars.Series([f"x{i}" for i in range(30)], dtype=polars.Categorical), "category"),
        (polars.Series(words, dtype=polars.Enum(levels)), "ordinal"),
        (arrow.array(codes).dictionary_encode(), "category"),
        (ordered, "ordinal"),
    ]
    for values, kind in cases:
        frame = arrow.table({"c": values}) if "pyarrow" in str(type(values)) else {"c": values}
        assert column_kinds(frame)["c"].kind == kind
        assert column_kinds(Table(Table(frame)))["c"].kind == kind
        if kind != "left out":
            k = auto_kernel(frame)
            assert np.linalg.eigvalsh(k(frame))[0] > -1e-12
    assert auto_kernel(arrow.table({"c": ordered})).kernel.order == tuple(levels)
    bins = pandas.DataFrame({"c": pandas.cut([0.0, 5.0, 10.0], [-1, 2, 6, 11])})
    assert auto_kernel(bins) == mk.Ordinal(("(-1, 2]", "(2, 6]", "(6, 11]")).on("c")
    np.testing.assert_array_equal(Categorical().on("c")(bins), np.eye(3))
    with pytest.raises(InvalidInput, match="'graph'"):
        auto_kernel({"graph": [mercer.Graph(edges=[(0, 1)])] * 2}, categorical=["graph"])


def test_kinds_of_graphs_and_levels():
    networkx, pandas = pytest.importorskip("networkx"), pytest.importorskip("pandas")
    graphs = [networkx.path_graph(3), None, mercer.Graph(edges=[(0, 1)])]
    levels = pandas.Categorical(["lo", "hi", None], ["lo", "hi"], ordered=True)
    kinds = column_kinds(pandas.DataFrame({"graph": graphs, "level": levels}))
    assert [k.kind for k in kinds.values()] == ["graph", "ordinal"]
    k = auto_kernel(pandas.DataFrame({"graph": graphs, "level": levels}))
    assert np.linalg.eigvalsh(k(pandas.DataFrame({"graph": graphs, "level": levels})))[0] > -1e-12


def test_identifiers_are_known_by_name_and_values():
    rows = np.arange(20)
    for name in ("id", "ID", "patient_id", "Unnamed: 0", "index", "row", "PatientID", "rowIndex"):
        assert column_kinds({name: rows})[name].kind == "left out"
        assert column_kinds({name: rows % 7})[name].kind == "number"
        assert column_kinds({name: rows + 0.5})[name].kind == "number"
    keys = 10**17 + rows  # floats would make them equal
    assert column_kinds({"customer key": keys})["customer key"].kind == "left out"
    for name in ("t", "humid", "identity", "growth", "body mass index", "turkey", "COVID"):
        assert column_kinds({name: 3 * rows})[name].kind == "number"
        assert column_kinds({name: rows[:9]})[name].kind == "number"


def test_identifiers_have_one_rule_by_values_or_name():
    rows = np.random.default_rng(0).permutation(160) + 1000
    for name in ("id", "record", "uid", "mrn", "t", "Unnamed: 0"):
        kind = column_kinds({name: rows})[name]
        assert kind.kind == "left out"
        assert "counts from 1000 to 1159, another number in every row" in kind.reason
        assert column_kinds({name: np.append(rows[1:], rows[1])})[name].kind == "number"
        assert column_kinds({name: rows.astype(object)})[name].kind == "left out"
        assert column_kinds({name: rows}, kinds={name: "number"})[name].kind == "number"
    assert "is called an id" in column_kinds({"patient_id": 3 * rows})["patient_id"].reason
    assert column_kinds({"record": 3 * rows})["record"].kind == "number"
    gaps = rows.astype(float)
    gaps[0] = np.nan
    assert column_kinds({"record": gaps})["record"].kind == "number"
    frame = {"record": rows, "age": np.random.default_rng(1).normal(60, 9, 160)}
    assert "record" not in repr(auto_kernel(frame))


def test_columns_that_are_asked_to_be_categories():
    data = {"code": [1, 2, 1, 3], "x": [1.0, 2.0, 3.0, 5.0]}
    assert column_kinds(data, categorical=["code"])["code"].kind == "category"
    assert column_kinds(data, categorical=[-1])["x"].kind == "category"
    assert "Categorical" in repr(auto_kernel(data, categorical="code"))
    with pytest.raises(InvalidInput, match="categorical names the column 'cod'"):
        auto_kernel(data, categorical=["cod"])
