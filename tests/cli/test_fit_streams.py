"""``mercer fit`` and ``mercer predict`` on tables that memory does not hold: rows in blocks."""

import csv
import os
import re
import subprocess
import sys
import tracemalloc
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import mercer as library
from mercer.cli import files
from mercer.cli.tables import read_csv, table_batches
from mercer.errors import InvalidInput
from mercer.models.ridge import falkon

N = 1500
MEMORY = "600kB"  # the cells take 0.9 MB or more
BUDGET = 600_000


def columns():
    """A table of numbers with gaps, categories and marks for what is missing."""
    rng = np.random.default_rng(0)
    size, age = rng.uniform(0, 6, N), rng.normal(40, 10, N)
    town = rng.choice(["north", "south", "east"], N)
    y = np.sin(size) + (town == "north") + 0.1 * rng.normal(size=N)
    level = np.where(y > 1, 2, np.where(y > 0, 1, 0))
    return {
        "size": [None if i % 50 == 7 else float(v) for i, v in enumerate(size)],
        "age": age.tolist(),
        "town": [None if i % 70 == 3 else str(t) for i, t in enumerate(town)],
        "y": [None if i % 100 == 5 else float(v) for i, v in enumerate(y)],
        "level": level.tolist(),
        "word": np.array(["low", "middle", "high"])[level].tolist(),
    }


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The table as a CSV file, a Parquet file and a folder."""
    home, table = tmp_path_factory.mktemp("tables"), columns()
    with open(home / "t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        rows = zip(*table.values(), strict=True)
        writer.writerows([["NA" if c is None else c for c in row] for row in rows])
    whole = pa.table(table)
    parquet.write_table(whole, home / "t.parquet", row_group_size=1000)
    (home / "t").mkdir()
    parquet.write_table(whole[:1200], home / "t" / "0.parquet")
    parquet.write_table(whole[1200:], home / "t" / "1.parquet")
    return home


def numbers(text, label):
    """The words of a line of a report."""
    (line,) = (line for line in text.splitlines() if line.startswith(label))
    return line.split()


NUMBERS = ("--target", "y", "--drop", "level", "word")


def test_all_kinds_of_files_give_the_model_of_the_same_rows(mercer, tables, tmp_path):
    found = []
    for name in ("t.csv", "t.parquet", "t"):
        out = tmp_path / f"{name}.mercer"
        options = ("-o", out, "--memory", MEMORY, "--alpha", "5")
        outcome = mercer("fit", tables / name, *NUMBERS, *options)
        assert outcome.code == 0, outcome
        assert "in blocks, because the table does not fit" in outcome.out
        assert f"{N - 15} of " in outcome.out and "15 without a value of 'y'" in outcome.out
        assert "size (30 filled)" in outcome.out and "town (3 + missing)" in outcome.out
        held = int(numbers(outcome.out, "held out")[2])
        model = library.load(out)
        assert held > 250 and model.notes_["rows"] == N - 15 - held
        assert model.notes_["held_out"]["rows"] == held
        some = {n: columns()[n][:40] for n in ("size", "age", "town")}
        found.append(model.predict(library.domains.Table(some)))
        info = mercer("info", out)
        assert info.code == 0 and f"{model.notes_['rows']} rows of {name}" in info.out
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-5)
    assert sorted(os.listdir(tmp_path)) == ["t.csv.mercer", "t.mercer", "t.parquet.mercer"]


def test_parameters_are_tuned_on_random_rows(mercer, tables, tmp_path):
    arguments = ("fit", tables / "t.parquet", *NUMBERS, "age", "-o", tmp_path / "m")
    outcome = mercer(*arguments, "--memory", MEMORY, "--model", "ridge")
    assert outcome.code == 0, outcome
    assert re.search("tuned by leave-one-out error on 10. random rows", outcome.out)
    assert float(numbers(outcome.out, "held out")[5].rstrip(",")) > 0.9, outcome.out


@pytest.mark.parametrize(("target", "kind"), [("word", str), ("level", int)])
def test_classes_are_read_in_blocks(mercer, tables, tmp_path, target, kind):
    others = [n for n in ("word", "level", "y") if n != target]
    arguments = ("fit", tables / "t.csv", "--target", target, "--drop", *others, "--memory", MEMORY)
    outcome = mercer(*arguments, "-o", tmp_path / "m", "--alpha", "2")
    assert outcome.code == 0, outcome
    assert float(numbers(outcome.out, "held out")[4]) > 80, outcome.out
    assert "by class" in outcome.out and "AUC" in outcome.out
    model = library.load(tmp_path / "m")
    assert [kind(c) for c in model.classes_] == sorted({*columns()[target]})
    refused = mercer(*arguments, "-o", tmp_path / "s", "--model", "svc")
    assert refused.code == 1 and "--model svc needs all rows in memory" in refused.err


def test_the_rows_held_out_are_not_learned_from(mercer, tables, tmp_path):
    table = columns()
    table["y"] = np.random.default_rng(1).normal(size=N)  # nothing can be known of it
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    out = ("-o", tmp_path / "m", "--alpha", "2", "--memory", MEMORY)
    outcome = mercer("fit", tmp_path / "t.parquet", *NUMBERS, *out)
    assert outcome.code == 0 and float(numbers(outcome.out, "held out")[5].rstrip(",")) < 0.05
    assert "remark" in outcome.out
    none = mercer("fit", tables / "t.csv", *NUMBERS, *out, "--force", "--test-fraction", "0")
    assert none.code == 0 and "held out" not in none.out and f"on {N - 15} rows" in none.out


def test_a_penalty_that_the_centres_cannot_be_solved_for_grows(
    mercer, tables, tmp_path, monkeypatch
):
    # what 100 iterations do for a smooth target, these do for the one of the table
    monkeypatch.setattr(falkon, "Falkon", partial(falkon.Falkon, max_iter=12))
    words = ("fit", tables / "t.parquet", *NUMBERS, "--no-tune", "--memory", MEMORY, "-o")
    outcome = mercer(*words, tmp_path / "m.mercer")
    assert (outcome.code, outcome.err) == (0, "")
    solution = library.load(tmp_path / "m.mercer").solution_
    assert solution.converged and solution.gap <= 1e-6 * solution.primal
    assert numbers(outcome.out, "solved")[1:3] == ["duality", "gap"]
    (remark,) = re.findall(r"remark +alpha is (\S+): (\S+), of least left-out", outcome.out)
    assert float(remark[0]) == float(numbers(outcome.out, "alpha")[1])
    power = np.log10(float(remark[0]) / float(remark[1]))
    assert power == pytest.approx(round(power), abs=1e-3) and power > 0.5
    # one that is given is kept, and what is said of it names an option
    outcome = mercer(*words, tmp_path / "n.mercer", "--alpha", remark[1])
    assert outcome.code == 0 and numbers(outcome.out, "alpha")[1] == remark[1]
    assert "the fit is not solved (duality gap" in outcome.err
    assert "leave --alpha out" in outcome.err and "max_iter" not in outcome.err
    assert "not solved" in mercer("info", tmp_path / "n.mercer").out


def test_cures_for_classes_in_blocks_can_be_followed(mercer, fails, tables, tmp_path):
    words = ("fit", tables / "t.parquet", "--target", "word", "--drop", "level", "y", "--no-tune")
    words = (*words, "--memory", MEMORY, "--force", "-o", tmp_path / "m.mercer")
    assert mercer(*words).code == 0
    asked = ("predict", tmp_path / "m.mercer", tables / "t.parquet")
    for option in (("--probabilities",), ("--interval", "0.9")):
        said = fails(*asked, *option)
        assert "mercer fit --model svc --max-rows N" in said
    assert mercer(*words, "--model", "svc", "--max-rows", "100").code == 0
    assert "probability_low" in mercer(*asked, "--probabilities").out


def test_free_text_is_compared_in_blocks(mercer, tmp_path):
    table, rng = columns(), np.random.default_rng(2)
    words = np.array(["red", "blue", "deep", "pale", "wide", "cold", "warm", "far"])
    note = [" ".join(rng.choice(words, 6)) for _ in range(300)]
    y = [float(text.count("red")) + 0.1 * rng.normal() for text in note]
    table = {"note": note, "size": table["size"][:300], "y": y}
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    arguments = ("fit", tmp_path / "t.parquet", "--target", "y", "-o", tmp_path / "m")
    outcome = mercer(*arguments, "--alpha", "3", "--memory", "130kB")
    assert outcome.code == 0 and "text          1: note" in outcome.out, outcome
    assert float(numbers(outcome.out, "held out")[5].rstrip(",")) > 0.4, outcome.out
    assert mercer("predict", tmp_path / "m", tmp_path / "t.parquet").code == 0


def test_kernels_on_columns_of_numbers_and_untuned_ones(mercer, tables, tmp_path):
    arguments = ("fit", tables / "t.parquet", *NUMBERS, "town", "-o", tmp_path / "m", "--force")
    for options in (("--kernel", "columns", "--alpha", "1"), ("--no-tune", "--kernel", "linear")):
        outcome = mercer(*arguments, "--memory", "300kB", *options)
        assert outcome.code == 0 and "in blocks" in outcome.out, outcome
        assert mercer("predict", tmp_path / "m", tables / "t.parquet").code == 0


def test_cells_that_some_rows_did_not_announce_are_refused_by_place(fails, tmp_path):
    table = columns()
    table["age"] = [str(v) for v in table["age"]]
    table["age"][-1] = "old"
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    out = ("-o", tmp_path / "m", "--memory", MEMORY)
    said = fails("fit", tmp_path / "t.parquet", *NUMBERS, *out)
    assert f"row {N}, column 'age': 'old' is not a number" in said
    table = columns()
    table["level"] = [float(v) for v in table["level"]]
    table["level"][-1] = 0.5
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    arguments = ("--target", "level", "--drop", "word", "y", *out)
    said = fails("fit", tmp_path / "t.parquet", *arguments)
    assert f"row {N}, column 'level': 0.5 is no class like those of other rows" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.parquet"]


def test_a_csv_file_is_predicted_in_blocks(mercer, fails, tables, tmp_path):
    out = tmp_path / "m"
    fit = ("fit", tables / "t.csv", *NUMBERS, "-o", out, "--memory", MEMORY, "--alpha", "9")
    assert mercer(*fit).code == 0
    header, rows = (tables / "t.csv").read_text().split("\n", 1)
    (tmp_path / "long.csv").write_text(header + "\n" + 5 * rows)
    arguments = ("predict", out, tmp_path / "long.csv", "--keep", "town")
    tracemalloc.start()
    outcome = mercer(*arguments, "-o", tmp_path / "p.csv", "--memory", "400kB")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert outcome.code == 0 and peak < 1e6, (outcome, peak)  # all cells would take 8 MB
    whole = mercer(*arguments)
    assert whole.code == 0 and len(whole.out.splitlines()) == 5 * N + 1
    with open(tmp_path / "p.csv", newline="") as file:
        found = list(csv.reader(file))
    expected = list(csv.reader(whole.out.splitlines()))
    assert [row[0] for row in found] == [row[0] for row in expected]
    np.testing.assert_allclose(
        [float(row[1]) for row in found[1:]], [float(row[1]) for row in expected[1:]], rtol=1e-9
    )
    said = fails("predict", out, tables / "t.csv", "--interval", "0.9")
    assert "by" in said and "centres, and intervals need an exact fit" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\n\na;b\n1;2\n\n3;'4\n", ""),
        (b'a,b\r\n"x\r\ny",2\r\n3,"4"""\r\n', ""),
        (b"a\tb\r1\t2\r3\t4\r", ""),
        ("a,b\n1,ü\n".encode("utf-8-sig"), ""),
        (b"a,b\n", ""),
        (b"a,b\n1,2\n3\n", "line 3 has 1 cells"),
        (b"a,b\n1,2\n3,\xff\n", r"line 3 is not utf-8 \(byte 0xff\)"),
        (b"a,b\n1,2\n3,\0\n", "NUL"),
        (b'a,b\n1,2\n3,"x', "not valid CSV"),
        (b"a,a\n1,2\n", "two columns"),
        (b" \n\n", "empty"),
        (b"a,b\n" + 2000 * b"1", "longer than"),
    ],
)
def test_batches_of_csv_are_the_table_in_parts(tmp_path, monkeypatch, text, said):
    path = str(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes(text)
    monkeypatch.setattr(files, "MOST_ROWS", 1)
    if said:
        with pytest.raises(InvalidInput, match=said):
            list(files.csv_batches(path, "utf-8", 20_000))
        return
    whole = read_csv(text, path)
    parts = list(files.csv_batches(path, "utf-8", 20_000))
    assert [p for _, places in parts for p in places] == list(whole.places)
    for name, cells in whole.columns.items():
        assert [c for found, _ in parts for c in found[name]] == list(cells)


def test_random_rows_of_csv_files_beyond_memory(mercer, tables, tmp_path):
    out = tmp_path / "m"
    arguments = ("fit", tables / "t.csv", *NUMBERS, "-o", out, "--no-tune", "--kernel", "linear")
    outcome = mercer(*arguments, "--max-rows", 100, "--memory", MEMORY)
    assert outcome.code == 0 and f"chosen at random from {N}" in outcome.out, outcome
    whole = list(table_batches(str(tables / "t.csv"), "utf-8", BUDGET))
    assert len(whole) > 1 and sum(map(len, whole)) == N


def test_memory_stays_within_the_budget(tmp_path):
    """A process that fits a larger table grows by no more than the budget and some constant."""
    n, rng = 25_000, np.random.default_rng(0)
    X = rng.uniform(0, 6, (n, 4))
    table = {f"x{j}": X[:, j] for j in range(4)} | {"y": np.sin(X[:, 0]) + X[:, 1]}
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")  # its cells take 12 MB
    code = (
        "import resource, sys\n"
        "from mercer.cli.program import main\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "table, model = sys.argv[1:]\n"
        "fit = ['fit', table, '--target', 'y', '-o', model, '--force', '--alpha', '9', '-q']\n"
        "assert main([*fit, '--max-rows', '500']) == 0\n"
        "before = peak()\n"
        "assert main([*fit, '--memory', '5MB']) == 0\n"
        "print(peak() - before)\n"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "t.parquet"), str(tmp_path / "m")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "held out" in done.stdout
    assert float(done.stdout.splitlines()[-1]) < 8


HURRY = ("--time", "0.001")


def test_a_feature_machine_is_the_default(mercer, tables, tmp_path):
    found, some = [], {n: columns()[n][:40] for n in ("size", "age", "town")}
    for name in ("t.csv", "t"):
        out = tmp_path / f"{name}.mercer"
        words = ("fit", tables / name, *NUMBERS, "-o", out, "--memory", MEMORY, *HURRY)
        outcome = mercer(*words, *(("--model", "features") if name == "t" else ()))
        assert outcome.code == 0, outcome
        assert "feature machine, on rows in blocks, because the table does not" in outcome.out
        told = " ".join(numbers(outcome.out, "held out"))
        assert re.search(r"R² 0\.[89].*mean of the target: .*, linear model: ", told), told
        held = int(told.split()[2])
        assert numbers(outcome.out, "centres")[1:] == ["136", "of", str(N - 15 - held), "rows"]
        assert numbers(outcome.out, "interval")[1:3] == ["90", "%"]
        assert "importance" in outcome.out and "with 0.001 s for the search" in outcome.out
        model = library.load(out)
        assert type(model.model_) is library.FeatureMachineRegressor
        assert model.notes_["rows"] == N - 15 - held
        found.append(model.predict(library.domains.Table(some)))
        info = mercer("info", out).out
        for label in ("members", "centres", "interval"):
            assert numbers(info, label) == numbers(outcome.out, label)
        answer = mercer("predict", out, tables / name, "--interval", "0.9", "--memory", MEMORY)
        assert answer.code == 0 and answer.out.startswith("predicted_y,lower_y,upper_y")
    np.testing.assert_allclose(*found, atol=1e-3)
    assert sorted(os.listdir(tmp_path)) == ["t.csv.mercer", "t.mercer"]


def test_classes_of_a_feature_machine_in_blocks(mercer, tables, tmp_path):
    words = ("fit", tables / "t.parquet", "--target", "word", "--drop", "level", "y", *HURRY)
    outcome = mercer(*words, "-o", tmp_path / "m", "--memory", MEMORY)
    assert outcome.code == 0, outcome
    assert float(numbers(outcome.out, "held out")[4]) > 80, outcome.out
    assert "linear model: " in outcome.out and "certainty" in outcome.out and "AUC" in outcome.out
    answer = mercer("predict", tmp_path / "m", tables / "t.parquet", "--probabilities")
    assert answer.out.startswith("predicted_word,probability_high,probability_low,")


def test_the_linear_model_of_blocks_is_that_of_all_rows(mercer, tmp_path):
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 900))
    y = 2 * x - z + 7.0 + 0.5 * rng.normal(size=900)
    label = np.where(y > 7, "up", "down").tolist()
    table = {"x": x, "z": z, "y": y, "label": label}
    parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    words = ("fit", tmp_path / "t.parquet", "-o", tmp_path / "m", "--memory", "200kB", "--force")
    outcome = mercer(*words, "--target", "y", "--drop", "label", *HURRY)
    assert outcome.code == 0, outcome
    told = re.search(r"linear model: ([0-9.]+)", outcome.out)
    assert float(told[1]) == pytest.approx(0.5, rel=0.2)
    outcome = mercer(*words, "--target", "label", "--drop", "y", *HURRY)
    told = re.search(r"linear model: ([0-9.]+) %", outcome.out)
    assert told and float(told[1]) > 85, outcome


def test_where_a_feature_machine_has_no_memory_a_ridge_is_fitted(
    mercer, fails, tables, tmp_path, monkeypatch
):
    monkeypatch.setattr("mercer.models.metric.learning.MATRICES", 1000)
    words = ("fit", tables / "t.parquet", *NUMBERS, "-o", tmp_path / "m", "--memory", MEMORY)
    outcome = mercer(*words)
    assert outcome.code == 0, outcome
    said = "ridge, on rows in blocks, because a feature machine needs more than the memory budget"
    assert said in outcome.out
    assert "KernelRidge: falkon." in mercer(*words, "--plan").out
    assert "to learn a metric from" in fails(*words, "--force", "--model", "features")
