"""`compare`: what it says of columns is true of them, and chance is not called a difference."""

import datetime
from itertools import combinations

import numpy as np
import pytest

import mercer
from mercer.errors import InvalidInput
from mercer.statistics import TableComparison, compare, table_vectors
from mercer.statistics.tables import _apart


def month(seed, shift=0.0, n=80):
    rng = np.random.default_rng(seed)
    town = np.where(rng.random(n) < 0.5 + shift / 4, "north", "south")
    return {"amount": rng.normal(20 + shift, 2, n), "town": town, "age": rng.normal(45, 9, n)}


def change(found, name):
    return next(c for c in found.columns if c.name == name)


def test_how_columns_changed():
    a, b = month(1), month(2, 2.0)
    found = mercer.compare(a, b, rng=0)
    assert isinstance(found, TableComparison) and found.differ and found.pvalue == 0.001
    amount, town = change(found, "amount"), change(found, "town")
    for table, told in ((a, amount.a), (b, amount.b)):
        assert told["mean"] == pytest.approx(table["amount"].mean())
        assert told["quartiles"] == pytest.approx(np.quantile(table["amount"], [0.25, 0.5, 0.75]))
    for table, told in ((a, town.a), (b, town.b)):
        assert told["shares"]["north"] == pytest.approx(np.mean(table["town"] == "north"))
    assert "'amount'" in found.verdict and "'age'" not in found.verdict
    assert f"mean {a['amount'].mean():.4g} → {b['amount'].mean():.4g}" in repr(found)
    lines = repr(found).splitlines()
    assert lines[0] == found.verdict and len(lines) == len(set(lines)) == 2 + len(found.columns)
    assert [c.pvalue for c in found.columns] == sorted(c.pvalue for c in found.columns)
    # rows of A lie where A is denser
    assert found.witness.shape == (160,)
    assert found.witness[:80].mean() > found.witness[80:].mean()


def test_chance_is_rarely_a_difference():
    pairs = [(month(2 * s, n=40), month(2 * s + 1, n=40)) for s in range(20)]
    differ = [compare(*pair, None, 99, s).differ for s, pair in enumerate(pairs)]
    assert sum(differ) <= 4  # 1 is to be expected; 5 or more of 20 have a probability of 0.003
    text = compare(month(0), month(1), rng=0).verdict
    assert text.startswith("No difference was found") and "no proof" in text


def test_columns_that_go_together_in_another_way():
    rng = np.random.default_rng(0)
    x = rng.normal(size=150)
    found = compare({"x": x, "y": x}, {"x": x, "y": -x}, rng=0)
    assert found.differ and all(c.adjusted > 0.05 for c in found.columns)
    assert "No single column shows it" in found.verdict


def test_missing_cells_and_categories():
    a, b = month(1), month(2)
    b["amount"][::4] = np.nan
    b["town"] = np.array([None if i % 2 else t for i, t in enumerate(b["town"])], dtype=object)
    found = compare(a, b, rng=0)
    assert str(change(found, "amount missing")) == "0 % → 25 % of the cells are missing"
    assert change(found, "town").b["missing"] == 0.5
    assert "(missing) 0 % → 50 %" in str(change(found, "town"))
    b["amount"][:] = np.nan
    assert "all cells of B are missing" in str(change(compare(a, b, rng=0), "amount"))


def test_what_is_left_out_and_why():
    a, b = month(1), month(2)
    a |= {"name": [f"n{i}" for i in range(80)], "unit": ["mg"] * 80, "mine": [1] * 80}
    b |= {"name": [f"m{i}" for i in range(80)], "unit": ["mg"] * 80, "gap": [None] * 80}
    a["gap"] = [None] * 80
    found = compare(a, b, rng=0, drop="age")
    assert found.left_out == {
        "mine": "only A has it",
        "age": "as asked",
        "name": "160 different texts, as names have (categorical keeps it)",
        "unit": "it has the same value everywhere",
        "gap": "it is empty",
    }
    assert {c.name for c in found.columns} == {"amount", "town"}
    kept = compare(a, b, rng=0, drop=["age"], categorical="name")
    assert change(kept, "name").pvalue == 0.001


def test_frames_arrays_and_kinds():
    pandas = pytest.importorskip("pandas")
    a, b = month(1), month(2, 2.0)
    expected = repr(compare(a, b, rng=0))
    assert repr(compare(pandas.DataFrame(a), pandas.DataFrame(b), rng=0)) == expected
    assert repr(compare(a, b, rng=np.random.default_rng(1))).startswith("The tables differ")
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert {c.name for c in compare(X, X + 3, rng=0).columns} == {"x0", "x1"}
    # numbers in one table and text in the other are compared as text
    with pytest.warns(UserWarning, match="'v' holds numbers in one table and text in the other"):
        found = compare({"v": [1, 2] * 9}, {"v": ["1", "x"] * 9}, rng=0)
    assert change(found, "v").kind == "category" and not found.apart
    assert compare(a, b, "auto", 199, 0).pvalue == 0.005


def test_rows_that_belong_together():
    rng = np.random.default_rng(0)
    tables = []
    for i in range(2):
        patient = np.repeat(np.arange(8) + 8 * i, 10)
        values = rng.normal(size=16)[patient] + 0.1 * rng.normal(size=80)
        tables.append({"patient": patient.astype(str), "value": values})
    naive, fair = (
        compare(*tables, rng=0, **o) for o in ({"drop": "patient"}, {"blocks": "patient"})
    )
    assert naive.pvalue < 0.01 < fair.pvalue
    assert [c.name for c in fair.columns] == ["value"]
    found = compare(month(1), month(2, 2.0), rng=0, strata="town")
    assert {c.name for c in found.columns} == {"amount", "age"}


def test_few_rows():
    found = compare({"v": [1.0, 2.0, 3.0]}, {"v": [9.0, 8.0]}, rng=0)
    assert not found.differ
    assert found.verdict.startswith("3 and 2 rows are too few to tell")
    assert compare({"v": [1.0]}, {"v": [2.0]}, rng=0).pvalue == 1.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": 1.5}, "level=1.5"),
        ({"drop": "nope"}, "drop names 'nope'"),
        ({"strata": "nope"}, "strata names 'nope'"),
        ({"drop": ["amount", "town", "age"]}, "no column that can be compared; 'amount': as asked"),
        ({"n_permutations": 0}, "n_permutations=0"),
        ({"level": 0.0005}, "999 permutations is 0.001; give n_permutations=2000 or more"),
        ({"max_categories": 0}, "max_categories=0"),
        ({"kernel": "rbff"}, "kernel='rbff' is not a known name"),
        ({"kernel": "precomputed"}, "kernel='precomputed' needs a Gram matrix"),
        ({"rng": "x"}, "rng='x'"),
    ],
)
def test_refused(options, words):
    with pytest.raises(InvalidInput, match=r"^compare: ") as refused:
        compare(month(1), month(2), **options)
    assert words in str(refused.value)


def test_no_shared_column():
    with pytest.raises(InvalidInput, match="no column that can be compared; 'a': only A has it"):
        compare({"a": [1, 2]}, {"b": [1, 2]})


def test_a_level_that_the_permutations_reach():
    assert compare(month(1), month(2, 4.0), None, 2000, 0, level=0.0005).differ


def test_a_column_without_a_common_value_is_a_difference():
    a, b = month(1), month(2)
    area = np.random.default_rng(0).normal(80, 9, 160)
    a["area"], b["area"] = area[:80], [f"{v} m2" for v in area[80:]]
    with pytest.warns(UserWarning, match="'area' holds numbers in one table and text"):
        found = compare(a, b, rng=0)
    assert found.differ and found.pvalue > 0.05 and list(found.apart) == ["area"]
    assert found.apart["area"] == (str(area[0]), f"{area[80]} m2")
    assert found.verdict.startswith("The tables differ: no value of 'area' is in both, such as ")
    assert "not below 0.05" in found.verdict
    # names that all differ have none either, and say nothing
    a["area"], b["area"] = [f"a{i}" for i in range(80)], [f"b{i}" for i in range(80)]
    assert not compare(a, b, rng=0, categorical="area").apart
    # rows that go together are fewer than they seem
    ward = np.repeat(["1", "2", "3", "4"], 20)
    a |= {"area": ward, "ward": np.char.add("a", ward)}
    b |= {"area": np.char.add(ward, "x"), "ward": np.char.add("b", ward)}
    assert list(compare(a, b, rng=0, categorical="area").apart) == ["area", "ward"]
    assert list(compare(a, b, rng=0, categorical="area", blocks="ward").apart) == ["area"]


@pytest.mark.parametrize("pool", ["aaaabbbb", "aabbccdd", "abcdefgh", "aaaaaaab", "1122xxyy"])
@pytest.mark.parametrize("n", [2, 4])
def test_chance_seldom_leaves_no_common_value(pool, n):
    """Of all ways to draw A of the pooled rows, fewer than the level are called apart."""
    cells, drawn = np.array(list(pool), dtype=object), []
    for rows in map(list, combinations(range(8), n)):
        vectors = table_vectors({"v": np.concatenate([cells[rows], np.delete(cells, rows)])})
        drawn.append([bool(_apart(vectors, n, level, False)) for level in (0.02, 0.1, 0.3)])
    assert (np.mean(drawn, axis=0) < (0.02, 0.1, 0.3)).all()
    if n == 4:
        assert np.any(drawn) == (pool not in ("abcdefgh", "aaaaaaab"))


def test_numbers_that_are_written_as_text():
    a, b = month(1), month(2, 2.0)
    texts = [{**t, "amount": [str(v) for v in t["amount"]]} for t in (a, b)]
    expected = repr(compare(a, b, rng=0))
    assert repr(compare(*texts, rng=0)) == repr(compare(a, texts[1], rng=0)) == expected
    kept = compare(*texts, rng=0, categorical="amount")
    assert change(kept, "amount").kind == "category"
    raw = [{**t, "amount": np.array(t["amount"], dtype="S")} for t in texts]
    assert repr(compare(*raw, rng=0)) == expected
    blank = compare(a, {**b, "amount": [""] * 80}, rng=0)
    assert "all cells of B are missing" in str(change(blank, "amount"))
    # an empty text is missing; other text among numbers is told
    texts[0]["amount"][3] = " "
    assert change(compare(*texts, rng=0), "amount").a["missing"] == pytest.approx(1 / 80)
    texts[0]["amount"][3] = texts[1]["amount"][5] = "1_000"
    with pytest.warns(UserWarning, match="'amount' holds text such as '1_000' among numbers"):
        found = compare(*texts, rng=0)
    assert found.left_out == {"amount": "numbers, but for cells such as '1_000'"}
    pandas = pytest.importorskip("pandas")
    codes = [pandas.DataFrame({"v": pandas.Categorical(["1", "2", "4"] * 9)}) for _ in range(2)]
    assert compare(*codes, rng=0).columns[0].kind == "category"


@pytest.mark.parametrize("written", [int, str])
def test_numbers_beyond_the_digits_of_floats(written):
    key = [written(2**60 + i) for i in range(10)] * 8
    a, b = ({**month(s), "key": key} for s in (1, 2))
    assert "less than float64 tells apart" in compare(a, b, rng=0).left_out["key"]
    assert change(compare(a, b, rng=0, categorical="key"), "key").a["shares"][str(2**60)] == 0.1


def test_names_that_both_tables_have():
    names = [f"P{i:04}" for i in range(80)]
    a, b = {**month(1), "id": names}, {**month(2), "id": names[::-1]}
    assert compare(a, b, rng=0).left_out == {
        "id": "80 different texts, as names have (categorical keeps it)"
    }
    b["id"] = [names[0], *names[:-1]]  # one of them twice: no names
    assert "id" in {c.name for c in compare(a, b, rng=0).columns}


def test_dates_and_free_text_are_left_out():
    days = [datetime.datetime(2026, 1, 1) + datetime.timedelta(i) for i in range(80)]
    extra = {
        "when": days,
        "stamp": np.array(days, dtype="datetime64[s]"),
        "day": [str(d) for d in days],
        "note": [f"the patient was seen again, visit {i}" for i in range(80)],
    }
    a, b = month(1) | extra, month(2) | extra
    dates = "dates; turn them into numbers, such as days"
    assert compare(a, b, rng=0).left_out == {
        "stamp": dates,
        "when": dates,
        "day": "80 different dates; turn them into numbers, such as days",
        "note": "80 different texts of several words (categorical compares whole cells)",
    }
    with pytest.raises(InvalidInput, match="no column that can be compared; 'when': dates"):
        compare({"when": days}, {"when": days})
    with pytest.raises(InvalidInput, match="blocks='when' holds dates; write them as text"):
        compare(a, b, blocks="when")
