"""``mercer compare``: the test, where tables differ, exit codes, every table it refuses."""

import csv
import io
import json
import re

import numpy as np
import pytest

from mercer.features import TableEncoder
from mercer.statistics import compare, mmd, mmd_test
from tests.cli.houses import write


def month(seed, shift=0.0, n=80):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.normal(45, 12, n).round(1).tolist(),
        "amount": (rng.normal(3, 1, n) + shift).round(3).tolist(),
        "town": rng.choice(["north", "south", "west"], n).tolist(),
    }


@pytest.fixture
def tables(tmp_path):
    """A table, another of the same distribution, and one with larger amounts."""
    names = (("a", 1, 0.0), ("same", 2, 0.0), ("other", 3, 2.0))
    return [write(tmp_path / f"{name}.csv", month(seed, s)) for name, seed, s in names]


def value(out, label):
    return [m[1] for m in re.finditer(rf"^{label} +(.*)$", out, re.M)]


def test_same_and_other(mercer, tables):
    a, same, other = tables
    outcome = mercer("compare", a, same, "--fail-under", "0.01")
    assert (outcome.code, outcome.err) == (0, "")
    assert "not below 0.01: exit 0" in outcome.out
    outcome = mercer("compare", a, other, "--fail-under", "0.01")
    assert (outcome.code, outcome.err) == (3, "")
    assert value(outcome.out, "p-value")[0].startswith("0.001, ")
    assert value(outcome.out, "column")[0].startswith("amount: mean 2.")
    assert "(p-value 0.001, 0.003 adjusted" in value(outcome.out, "column")[0]
    assert value(outcome.out, "verdict") == [
        "The tables differ (p-value 0.001, below 0.01). A difference shows in 'amount'."
    ]
    assert "below 0.01: exit 3" in outcome.out
    assert mercer("compare", a, other).code == 0  # without a limit it only reports


def test_the_numbers_are_those_of_the_library(mercer, tables):
    a, _, other = tables
    told = json.loads(mercer("compare", a, other, "--json", "--seed", "5").out)
    one, two = month(1), month(3, 2.0)
    both = {name: one[name] + two[name] for name in one}
    X = TableEncoder().fit_transform(both)
    for j, name in enumerate(("age", "amount")):  # by quartiles, not by deviation
        v = np.array(both[name])
        low, middle, high = np.quantile(v, [0.25, 0.5, 0.75])
        X[:, j] = (v - middle) / ((high - low) / 1.349)
    result = mmd_test(X[:80], X[80:], None, 999, 5)
    assert told["statistic"] == pytest.approx(mmd(X[:80], X[80:]), rel=1e-12)
    assert told["pvalue"] == result.pvalue and told["permutations"] == 999
    assert told["a"] == {"path": str(a), "rows": 80} and told["below"] is False
    amounts = next(c for c in told["columns"] if c["column"] == "amount")
    alone = mmd_test(X[:80, 1:2], X[80:, 1:2], None, 999, 5)
    assert amounts["pvalue"] == alone.pvalue
    assert amounts["adjusted"] == pytest.approx(min(1.0, 3 * alone.pvalue))


def test_tables_that_do_not_differ_have_no_example_rows(mercer, tables):
    a, same, other = tables
    outcome = mercer("compare", a, same)
    assert "more in" not in outcome.out and "No difference was found" in outcome.out
    told = json.loads(mercer("compare", a, same, "--json").out)
    assert told["rows"] == {"a": [], "b": []} and told["verdict"].startswith("No difference")
    assert "more in A" in mercer("compare", a, other).out


def test_numbers_of_the_report_have_four_digits(mercer, tmp_path):
    rng = np.random.default_rng(0)
    paths = [
        write(tmp_path / f"{i}.csv", {"pay": (rng.lognormal(10, 1, 60) + 1e5 * i).tolist()})
        for i in range(2)
    ]
    out = mercer("compare", *paths).out
    numbers = re.findall(r"(?<![\w/.])\d+\.\d+", out)
    assert numbers and all(len(n.replace(".", "").strip("0")) <= 4 for n in numbers), out
    assert re.search(r"pay: mean \d{5} → \d{6}; quartiles \d+, \d+, \d+ → ", out)
    share = 100 * float(re.search(r"p-value +([\d.e-]+)", out)[1])
    assert re.search(rf"p would be as small in {share:.4g} % of cases", out)


def test_the_function_says_what_the_command_says(mercer, tables):
    a, _, other = tables
    told = json.loads(mercer("compare", a, other, "--json", "--seed", "5").out)
    found = compare(month(1), month(3, 2.0), rng=5)
    assert (told["pvalue"], told["verdict"]) == (found.pvalue, found.verdict)
    for mine, change in zip(told["columns"], found.columns, strict=True):
        assert mine == {"column": change.name, **{k: mine[k] for k in mine if k != "column"}}
        assert {k: getattr(change, k) for k in mine if k != "column"} == {
            k: v for k, v in mine.items() if k != "column"
        }


def test_rows_are_named_where_the_witness_is_largest(mercer, tables):
    a, _, other = tables
    told = json.loads(mercer("compare", a, other, "--json", "--top", "2").out)
    for key, columns, sign in (("a", month(1), 1), ("b", month(3, 2.0), -1)):
        rows = told["rows"][key]
        assert len(rows) == 2
        for row in rows:
            assert sign * row["witness"] > 0
            cells = row["cells"]
            assert cells["amount"] == columns["amount"][row["line"] - 2]
    low, high = (np.mean([r["cells"]["amount"] for r in told["rows"][k]]) for k in "ab")
    assert low < high


def test_witness_of_every_row(mercer, tables, tmp_path):
    a, _, other = tables
    outcome = mercer("compare", a, other, "-o", tmp_path / "rows.csv")
    assert outcome.code == 0 and "p-value" in outcome.out
    rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert len(rows) == 160 and {r["table"] for r in rows} == {"A", "B"}
    assert [int(r["line"]) for r in rows[:3]] == [2, 3, 4]
    heights = np.array([float(r["witness"]) for r in rows])
    assert heights[:80].mean() > heights[80:].mean()
    outcome = mercer("compare", a, other, "-o", "-", "--fail-under", "0.01")
    assert outcome.code == 3
    assert outcome.out == (tmp_path / "rows.csv").read_text()


def test_aggregated(mercer, tables):
    a, same, other = tables
    outcome = mercer("compare", a, other, "--kernel", "auto", "--permutations", "199")
    assert outcome.code == 0, outcome
    assert value(outcome.out, "p-value")[0].startswith("0.005, ")
    assert mercer("compare", a, same, "--kernel", "auto", "--fail-under", "0.01").code == 0


def test_missing_cells_are_a_difference(mercer, tmp_path):
    one, two = month(1), month(2)
    two["age"] = ["" if i % 3 == 0 else v for i, v in enumerate(two["age"])]
    paths = [write(tmp_path / f"{i}.csv", t) for i, t in enumerate((one, two))]
    outcome = mercer("compare", *paths, "--fail-under", "0.01")
    assert outcome.code == 3, outcome
    columns = value(outcome.out, "column")
    assert columns[0].startswith("age missing")
    # The values that are there are those of one distribution.
    age = next(c for c in columns if c.startswith("age:"))
    assert float(re.search(r"p-value (\S+),", age)[1]) > 0.05


def test_columns_of_one_table_only(mercer, tmp_path):
    one, two = month(1), month(2)
    two["extra"] = two.pop("town")
    paths = [write(tmp_path / f"{i}.csv", t) for i, t in enumerate((one, two))]
    outcome = mercer("compare", *paths)
    assert outcome.code == 0
    assert "only" in outcome.err and "'town'" in outcome.err and "'extra'" in outcome.err
    assert "town" not in outcome.out


def test_blocks_and_strata(mercer, tmp_path):
    # Patients differ, their visits hardly: eight visits are no eight patients.
    rng = np.random.default_rng(0)
    tables = []
    for i in range(2):
        patient = np.repeat(np.arange(8) + 8 * i, 10)
        height = rng.normal(size=16)[patient] + 0.1 * rng.normal(size=80)
        columns = {"patient": [f"p{p}" for p in patient], "value": height.tolist()}
        tables.append(write(tmp_path / f"{i}.csv", columns))
    naive = json.loads(mercer("compare", *tables, "--drop", "patient", "--json").out)
    fair = json.loads(mercer("compare", *tables, "--blocks", "patient", "--json").out)
    assert naive["pvalue"] < 0.01 < fair["pvalue"]
    assert [c["column"] for c in fair["columns"]] == ["value"]
    assert mercer("compare", *tables, "--blocks", "10").code == 0
    months = [write(tmp_path / f"m{i}.csv", month(i)) for i in (1, 2)]
    told = json.loads(mercer("compare", *months, "--strata", "town", "--json").out)
    assert {c["column"] for c in told["columns"]} == {"age", "amount"}


def test_random_rows(mercer, tables):
    a, same, _ = tables
    told = json.loads(mercer("compare", a, same, "--max-rows", "30", "--json").out)
    assert told["a"]["rows"] == told["b"]["rows"] == 30
    again = json.loads(mercer("compare", a, same, "--max-rows", "30", "--json").out)
    assert again == told


def test_standard_input(mercer, tables, monkeypatch):
    a, same, _ = tables

    class Stream:
        buffer = io.BytesIO(same.read_bytes())

    monkeypatch.setattr("sys.stdin", Stream())
    assert mercer("compare", a, "-").code == 0


def test_one_row_each(mercer, tmp_path):
    paths = [write(tmp_path / f"{i}.csv", {"v": [float(i)], "w": [2.0 * i]}) for i in range(2)]
    outcome = mercer("compare", *paths)
    assert outcome.code == 0
    assert value(outcome.out, "p-value")[0].startswith("1, ")


def test_short_names_of_kernels(mercer, misused, tables):
    a, same, _ = tables
    long, short = (
        mercer("compare", a, same, "--kernel", name, "--permutations", "19")
        for name in ("polynomial", "poly")
    )
    assert long.code == short.code == 0 and long.out == short.out
    assert "did you mean rational_quadratic?" in misused("compare", a, same, "--kernel", "rational")


def test_refused(fails, misused, tables, tmp_path):
    a, same, _ = tables
    other = write(tmp_path / "z.csv", {"q": [1, 2]})
    assert "no column in common" in fails("compare", a, other)
    assert "not both" in misused("compare", "-", "-")
    assert "give -o a file" in misused("compare", a, same, "-o", "-", "--json")
    assert "1000 or more" in misused("compare", a, same, "--fail-under", "0.001")
    assert "--permutations 20 or" in misused(
        "compare", a, same, "--fail-under", "0.05", "--permutations", "19"
    )
    assert "has none" in misused("compare", a, same, "--kernel", "linear", "--length-scale", "2")
    assert "No such file" in fails("compare", a, tmp_path / "nowhere.csv")
    assert "no column 'nope'" in fails("compare", a, same, "--drop", "nope")
    assert "neither a column" in misused("compare", a, same, "--blocks", "nope")
    assert "no column of --strata 'nope'" in fails("compare", a, same, "--strata", "nope")
    gap = month(2)
    gap["town"][4] = ""
    gap = write(tmp_path / "gap.csv", gap)
    assert "needs a label" in fails("compare", a, gap, "--strata", "town")
    flat = [write(tmp_path / f"f{i}.csv", {"v": [1, 1, 1]}) for i in range(2)]
    assert "no column is left" in fails("compare", *flat)
    out = tmp_path / "there.csv"
    out.write_text("x")
    assert "--force" in fails("compare", a, same, "-o", out)


@pytest.mark.parametrize("words", [("--fail-under", "0"), ("--fail-under", "2"), ("--top", "-1")])
def test_usage(mercer, tables, words):
    assert mercer("compare", *tables[:2], *words).code == 2


def test_a_wild_cell_does_not_hide_the_others(mercer, tmp_path):
    one, two = month(1), month(3, 2.0)
    two["amount"][7] = 999999999
    paths = [write(tmp_path / f"{i}.csv", t) for i, t in enumerate((one, two))]
    assert mercer("compare", *paths, "--fail-under", "0.01").code == 3


def test_numbers_that_became_text_are_a_difference(mercer, tmp_path):
    one, two = month(1), month(2)
    two["amount"] = [f"k{i % 3}" for i in range(80)]
    paths = [write(tmp_path / f"{i}.csv", t) for i, t in enumerate((one, two))]
    outcome = mercer("compare", *paths, "--fail-under", "0.01", "--json")
    assert outcome.code == 3
    assert "numbers in one table and text in the other" in outcome.err
    told = json.loads(outcome.out)
    assert told["mixed"] == ["amount"] and told["columns"][0]["column"] == "amount"


def test_json_says_what_the_report_says(mercer, tmp_path):
    one, two = month(1), month(2)
    one["id"], two["id"] = list(range(80)), list(range(1000, 1080))
    one["flag"] = ["x"] * 80
    two["note"], two["flag"] = ["y"] * 80, ["x"] * 80
    one["when"] = [f"2026-01-{1 + i % 9:02d}" for i in range(80)]
    two["when"] = [f"2026-02-{1 + i % 9:02d}" for i in range(80)]
    paths = [write(tmp_path / f"{i}.csv", t) for i, t in enumerate((one, two))]
    told = json.loads(mercer("compare", *paths, "--json").out)
    assert told["only_in_a"] == [] and told["only_in_b"] == ["note"]
    assert told["numbers"] == ["age", "amount", "id"] and "town" in told["categories"]
    assert "flag" in told["left_out"]
    remarks = " ".join(told["remarks"])
    assert "'id'" in remarks and "'when' looks like dates" in remarks


def test_no_rows_of_people_in_a_log(mercer, tables):
    outcome = mercer("compare", *tables[:2], "--top", "0")
    assert outcome.code == 0 and "more in" not in outcome.out and "column " not in outcome.out


def test_many_rows_are_all_looked_at(mercer, tmp_path):
    one, two = month(1, n=2500), month(2, 0.15, n=2500)
    paths = [write(tmp_path / f"{i}.csv", t) for i, t in enumerate((one, two))]
    words = ("--permutations", "199", "--json", "--drop", "town", "age")
    told = json.loads(mercer("compare", *paths, *words).out)
    assert told["columns"][0]["pvalue"] == 0.005


def test_a_given_length_scale(mercer, tables):
    told = json.loads(mercer("compare", *tables[:2], "--length-scale", "0.7", "--json").out)
    assert told["kernel"] == "RBF(length_scale=0.7)"


def test_a_unit_that_was_added_is_a_difference(mercer, tmp_path):
    one, two = month(1), month(2)
    one["area"], two["area"] = one["age"], [f"{v} m2" for v in two["age"]]
    paths = [write(tmp_path / f"{i}.csv", t) for i, t in enumerate((one, two))]
    outcome = mercer("compare", *paths, "--fail-under", "0.01")
    assert outcome.code == 3, outcome
    assert value(outcome.out, "verdict")[0].startswith("The tables differ: no value of 'area' is")
    assert value(outcome.out, "limit") == ["p-value not below 0.01, but no value in both: exit 3"]
    assert "more in" not in outcome.out  # the p-value shows no rows
    told = json.loads(mercer("compare", *paths, "--json").out)
    assert told["apart"] == ["area"] and told["pvalue"] > 0.05 and told["below"] is False


def test_ids_that_both_tables_have(mercer, tmp_path):
    one, two = month(1), month(2)
    for table in (one, two):
        table["name"], table["row"] = [f"P{i:04}" for i in range(80)], list(range(80))
        table["key"] = [2**60 + i % 10 for i in range(80)]
        table["note"] = [f"the patient was seen again, visit {i}" for i in range(80)]
    paths = [write(tmp_path / f"{i}.csv", t) for i, t in enumerate((one, two))]
    told = json.loads(mercer("compare", *paths, "--json").out)
    assert told["left_out"] == {
        "name": "80 different texts, as names or identifiers have (--categorical keeps it)",
        "key": "its values differ by less than float64 tells apart; subtract a common number "
        "first (--categorical compares them as categories)",
        "note": "80 different texts of several words, which only mercer fit reads "
        "(--categorical compares whole cells)",
    }
    assert told["remarks"] == [
        "column 'row' counts from 0 to 79, another number in every row, in each table, so it may "
        "be an id; it is used, --drop row leaves it out"
    ]


def test_help_speaks_of_its_own_options(mercer):
    text = " ".join(mercer("compare", "--help").out.split())
    assert "spectral" not in text and "(default: the median distance)" in text
    assert "spectral that to the seventh" in " ".join(mercer("cluster", "--help").out.split())
    text = " ".join(mercer("fit", "--help").out.split())
    assert "look like identifiers, whatever" not in text


def tied(seed, sign, n=150):
    """Ages and amounts that are tied, by another sign in another table; columns are as before."""
    rng = np.random.default_rng(seed)
    age, noise = rng.normal(size=(2, n))
    amount = 10 + sign * age + 0.6 * noise
    town = rng.choice(["north", "south", "west"], n)
    return {"age": (45 + 12 * age).round(1).tolist(), "amount": amount.tolist(), "town": town}


def test_drift_that_no_column_shows_is_explained(mercer, tmp_path):
    one = write(tmp_path / "one.csv", tied(1, 1))
    other = write(tmp_path / "two.csv", tied(2, -1))
    same = write(tmp_path / "same.csv", tied(3, 1))
    words = ("--permutations", "199", "--fail-under", "0.05")
    told = mercer("compare", one, other, "--explain", *words)
    assert told.code == mercer("compare", one, other, *words).code == 3
    assert "No single column shows it clearly" in value(told.out, "verdict")[0]
    assert value(told.out, "explained")[0].endswith("by 3 columns and 3 pairs")
    first = value(told.out, "share")[0]
    assert first.startswith("age and amount together: 0.")
    assert first.endswith("; chance gives any of them as much in 0.5 % of cases")
    assert not any("town" in line for line in value(told.out, "share"))
    calm = mercer("compare", one, same, "--explain", *words)
    assert calm.code == 0
    assert value(calm.out, "share")[0].startswith("none is more than chance gives (p-value 0.")
    assert len(value(told.out, "share")) == 3
    short = mercer("compare", one, other, "--explain", "--top", "1", *words)
    assert value(short.out, "share") == [first, "and 2 more"]


@pytest.mark.parametrize("kernel", ["rbf", "matern", "linear"])
def test_shares_in_json_sum_to_the_statistic(mercer, tables, kernel):
    a, _, other = tables
    words = ("--kernel", kernel, "--permutations", "99", "--json")
    told = json.loads(mercer("compare", a, other, "--explain", *words).out)
    assert "shares" not in json.loads(mercer("compare", a, other, *words).out)
    shares = told["shares"]
    assert shares["statistic"] == told["statistic"] and shares["kernel"].lower().startswith(kernel)
    columns = [s["value"] for s in shares["of"] if len(s["columns"]) == 1]
    assert len(columns) == 3 and len(shares["of"]) == 6
    assert sum(columns) == pytest.approx(told["statistic"], rel=1e-4)
    assert shares["of"][0]["columns"] == ["amount"] and shares["of"][0]["adjusted"] == 0.01
