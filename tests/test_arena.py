"""The arena on toy tables: sums, duplicates, what a run leaves behind, and its summary by hand."""

import json
import re
from collections import Counter

import numpy as np
import pandas
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

from benchmarks.arena import __main__ as command, methods, run as protocol, summary, tables
from benchmarks.arena.run import calibration_error, measure, read_results, run, split
from benchmarks.arena.tables import Entry, Table, duplicates, load, read_catalogue

CATALOGUE = read_catalogue()


@pytest.fixture
def toys(tmp_path):
    """Write two tables of 60 rows, with numbers, categories and gaps; return their entries."""
    rng = np.random.default_rng(0)
    lines, halves = ["name,size,colour,price"], ["A 1.5 yes"] * 2
    for i in range(60):
        size, colour = rng.standard_normal(), "rgb"[i % 3]
        told = "?" if i == 7 else f"{size:.6f}"
        lines.append(f"r{i},{told},{colour if i != 9 else ''},{2 * size + (colour == 'r'):.6f}")
        halves.append(f"{colour} {size:.6f} {'high' if size > 0 else 'low'}")
    (tmp_path / "price.csv").write_text("\n".join(lines))
    (tmp_path / "halves.txt").write_text("\n".join(halves))
    told = {
        "price": {"task": "regression", "file": "price.csv", "header": True, "drop": ["name"]},
        "halves": {"task": "classes", "file": "halves.txt", "separator": " "},
    }
    entries = {}
    for name, options in told.items():
        entry = Entry(name, sha256="", package="", folder=tmp_path, **options)
        with pytest.raises(ValueError, match="write this sum into the catalogue") as error:
            load(entry)
        options |= {"package": "", "sha256": re.search(r"[0-9a-f]{64}", str(error.value))[0]}
        entries[name] = options
    text = "\n".join(
        f"[{name}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in options.items())
        for name, options in entries.items()
    )
    (tmp_path / "catalogue.toml").write_text(text)
    return read_catalogue(tmp_path / "catalogue.toml")


# ---- tables ----


def test_a_table_is_read_as_it_is(toys):
    table = load(toys["price"])
    assert (table.numbers, table.categories) == (["size"], ["colour"])
    assert table.kinds() == "1 numbers, 1 categories, 2 gaps"
    assert table.X["size"].isna().tolist() == [i == 7 for i in range(60)]
    assert table.X["colour"].isna().tolist() == [i == 9 for i in range(60)]
    assert table.X["colour"].cat.categories.tolist() == ["b", "g", "r"]
    there = np.arange(60) != 7
    want = 2 * table.X["size"] + (table.X["colour"] == "r")
    assert np.abs(want - table.y)[there & (np.arange(60) != 9)].max() < 1e-5


def test_a_class_that_no_split_could_hold_is_left_out(toys):
    table = load(toys["halves"])
    assert len(table.y) == 60  # the class "yes" has two rows
    assert (table.y == (table.X["c1"] < 0)).all()  # "high" is 0, "low" is 1


@pytest.mark.parametrize(
    ("old", "new"),
    [(",r,", ",g,"), ("colour", "color"), (",?,", ",0,"), ("price\n", "price\nr,1.5,r,4\n")],
)
def test_a_table_with_another_sum_is_refused(toys, old, new):
    path = toys["price"].folder / "price.csv"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=r"price: the sum of what its file holds is [0-9a-f]{64}"):
        load(toys["price"])


def test_the_package_is_named_where_it_is_missing():
    with pytest.raises(ModuleNotFoundError, match=r"x: no-such-package is not installed; `pip"):
        load(Entry("x", "regression", "", package="no-such-package", file="a"))


@pytest.mark.parametrize("loader", ["load_iris", "load_diabetes", "load_wine", "load_digits"])
def test_tables_of_scikit_learn_have_their_sums(loader):
    (entry,) = [e for e in CATALOGUE.values() if e.loader == loader]
    if loader == "load_diabetes" and load_diabetes(scaled=False).data[146, 8] != 4.804:
        # other last digits in the file of older releases (scikit-learn, issue 31940)
        with pytest.raises(ValueError, match="diabetes: the sum of what scikit-learn holds"):
            load(entry)
        return
    table = load(entry)
    assert (len(table.y), table.kinds()) == (entry.rows, entry.kinds)


def test_one_table_under_two_names_is_refused(toys):
    path = toys["price"].folder / "catalogue.toml"
    text = path.read_text()
    path.write_text(text + "\n" + text.split("[halves]")[0].replace("[price]", "[cost]"))
    with pytest.raises(ValueError, match=r"price and cost are one table \(sha256"):
        read_catalogue(path)
    (path.parent / "price.csv").write_text("a b,a-b,c\n1,2,3\n")
    with pytest.raises(ValueError, match="price: two columns have one name"):
        load(toys["price"])
    path.write_text(text.replace("regression", "ranking"))
    with pytest.raises(ValueError, match=r"task='ranking' of price; give 'regression' or"):
        read_catalogue(path)


def test_one_data_set_with_another_target_is_found():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((50, 5))

    def table(name, Z, target):
        X = pandas.DataFrame(np.delete(Z, target, axis=1)).rename(columns=str)
        return Table(Entry(name, "regression", ""), X, Z[:, target])

    first, again = table("a", Z, 4), table("b", Z[rng.permutation(50)], 0)
    other = table("c", np.column_stack([rng.standard_normal((50, 4)), Z[:, 0]]), 4)
    assert list(duplicates([first, again, other])) == [("a", "b")]


def test_the_catalogue_is_large_and_mixed_and_a_third_is_held_back():
    rows = np.array([entry.rows for entry in CATALOGUE.values()])
    assert (rows <= 10_000).sum() >= 30 and (rows > 10_000).sum() >= 5 and rows.min() >= 100
    for task in ("regression", "classes"):
        kinds = " ".join(e.kinds for e in CATALOGUE.values() if e.task == task)
        assert all(kind in kinds for kind in ("numbers", "categories", "gaps"))
    held_back = {name for name, entry in CATALOGUE.items() if entry.held_back}
    assert 0.25 < len(held_back) / len(CATALOGUE) < 0.45
    assert not held_back & set(command.SMALL["tables"])
    assert set(command.SMALL["tables"]) < set(CATALOGUE)


# ---- runs ----


def test_splits_are_seeded_and_keep_the_shares_of_classes(toys):
    table = load(toys["halves"])
    for number in range(5):
        train, test = split(table, number)
        assert sorted([*train, *test]) == list(range(60)) and len(test) == 18
        assert abs(table.y[test].mean() - table.y.mean()) < 1 / 18
        assert split(table, number)[0].tolist() == train.tolist()
    assert split(table, 0)[1].tolist() != split(table, 1)[1].tolist()


def test_a_second_run_does_what_is_missing(toys, tmp_path, monkeypatch):
    path, said = tmp_path / "results" / "r.jsonl", []
    none = methods.Method("no_such_package", None, None)
    monkeypatch.setitem(methods.METHODS, "absent", none)
    run(toys.values(), ["linear", "absent"], path, splits=1, limit=0, say=said.append)
    assert said[0] == "absent is left out: no_such_package is not installed"
    first = path.read_text()
    assert len(first.splitlines()) == 2 and len(said) == 3
    path.write_text(first + '{"table": "price", "split": 1, "meth')  # a run that was killed
    done = []
    monkeypatch.setattr(
        protocol, "measure", lambda t, m, s: done.append((s, m)) or measure(t, m, s)
    )
    run(toys.values(), ["linear", "mercer"], path, splits=2, limit=0, say=said.append)
    assert Counter(done) == {(1, "linear"): 2, (0, "mercer"): 2, (1, "mercer"): 2}
    assert path.read_text().startswith(first)
    results = read_results(path)
    assert len(results) == 8
    run(toys.values(), ["linear", "mercer"], path, splits=2, limit=0)
    assert len(done) == 6 and read_results(path) == results
    run([toys["price"]], ["linear"], path, splits=1, limit=0, again=True)
    assert len(done) == 7 and len(read_results(path)) == 8

    ours = [r for r in results if r["method"] == "mercer"]
    assert all({"rmse", "coverage", "width"} <= set(r) for r in ours if r["table"] == "price")
    assert all(
        {"error", "log_loss", "calibration"} <= set(r) for r in ours if r["table"] == "halves"
    )
    assert all(0 <= r.get("coverage", 0) <= 1 and r["fit_s"] > 0 for r in ours)


def test_scores_are_those_of_the_test_rows(toys):
    table = load(toys["halves"])
    model = methods.METHODS["linear"].classes(table, 0)
    train, test = split(table, 0)
    P = model.fit(table.X.iloc[train], table.y[train]).predict_proba(table.X.iloc[test])
    found, y = measure(table, "linear", 0), table.y[test]
    assert found["error"] == pytest.approx(np.mean(P.argmax(axis=1) != y))
    assert found["log_loss"] == pytest.approx(-np.log(P[np.arange(len(y)), y]).mean())
    assert found["calibration"] == calibration_error(P, y)
    assert found["test_rows"] == 18


def test_coverage_and_width_by_hand():
    class Model:
        def predict_interval(self, X, coverage):
            return np.array([0.0, 0.0, 0.0, 2.0]), np.array([1.0, 1.0, 1.0, 5.0])

    found = protocol._interval(Model(), None, np.array([0.5, 1.0, 2.0, 1.0]), 2.0)
    assert found == {"coverage": 0.5, "width": 0.75}


def test_calibration_by_hand():
    P = np.array([[0.8, 0.2], [0.8, 0.2], [0.4, 0.6], [0.0, 1.0]])
    # bins hold rows (0, 1), (2) and (3): |0.8 − 1/2|·2, |0.6 − 0| and |1 − 1| of four rows
    assert calibration_error(P, np.array([0, 1, 0, 1])) == pytest.approx((0.6 + 0.6) / 4)
    assert calibration_error(np.eye(3), np.arange(3)) == 0


def test_a_failure_is_a_line_with_its_message(toys, tmp_path, monkeypatch):
    class Broken(Ridge):
        def fit(self, X, y):
            raise MemoryError("no room")

    failing = methods.Method("sklearn", lambda t, s: Broken(), lambda t, s: Broken())
    small = methods.Method("sklearn", lambda t, s: Ridge(), lambda t, s: Ridge(), most_rows=59)
    monkeypatch.setitem(methods.METHODS, "failing", failing)
    monkeypatch.setitem(methods.METHODS, "small", small)
    path = tmp_path / "r.jsonl"
    run([toys["price"]], ["failing", "small", "linear"], path, splits=2, limit=0)
    told = {(r["method"], r["split"]): r.get("failed") for r in read_results(path)}
    assert told["failing", 0] == told["failing", 1] == "MemoryError: no room"
    assert told["small", 1] == "not tried beyond 59 rows"
    assert told["linear", 1] is None
    done = path.read_text()
    run([toys["price"]], ["failing"], path, splits=2, limit=0)
    assert path.read_text() == done


def test_a_process_gives_the_same_scores_and_is_ended_at_its_limit(toys, tmp_path, monkeypatch):
    alone, child = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    run([toys["price"]], ["linear"], alone, splits=2, limit=0)
    run([toys["price"]], ["linear"], child, splits=2, limit=300)
    assert [r["rmse"] for r in read_results(child)] == [r["rmse"] for r in read_results(alone)]
    run([toys["price"]], ["rbf"], child, splits=2, limit=1e-6)
    told = [r["failed"] for r in read_results(child) if r["method"] == "rbf"]
    assert told == ["split 0 took longer than 1e-06 s"] * 2
    monkeypatch.setitem(methods.METHODS, "ours", methods.METHODS["linear"])  # here, and not there
    run([toys["price"]], ["ours"], child, splits=2, limit=300)
    told = [r["failed"] for r in read_results(child) if r["method"] == "ours"]
    assert told == ["its process ended with code 1"] * 2


# ---- the command ----


def test_tables_that_are_held_back_are_asked_for_by_name_of_the_option(capsys):
    names = [name for name, entry in CATALOGUE.items() if entry.held_back]
    with pytest.raises(SystemExit):
        command.main(["--tables", names[0]])
    assert f"--tables {names[0]} is held back" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--tables", "abalon"])
    assert "--tables abalon: there is no such table" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--small", "--held-back"])
    assert "no table is left" in capsys.readouterr().err
    command.main(["--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "held back" in line] == sorted(
        names, key=lambda name: CATALOGUE[name].rows
    )
    assert len(lines) == len(CATALOGUE)


def test_the_command_runs_what_its_options_choose(toys, tmp_path, capsys):
    where = [
        "--catalogue",
        str(tmp_path / "catalogue.toml"),
        "--results",
        str(tmp_path / "r.jsonl"),
    ]
    assert [toys[name].held_back for name in ("price", "halves")] == [False, True]
    words = ["--methods", "linear", "forest", "--splits", "1", "--limit", "0"]
    command.main([*where, *words])
    assert {r["table"] for r in read_results(tmp_path / "r.jsonl")} == {"price"}
    command.main([*where, *words, "--held-back"])
    assert {r["table"] for r in read_results(tmp_path / "r.jsonl")} == {"price", "halves"}
    capsys.readouterr()
    command.main([*where, "--summary", str(tmp_path / "out" / "page"), "--against", "linear"])
    page = (tmp_path / "out" / "page.md").read_text()
    assert "## Regression: RMSE" in page and "Classes" not in page
    assert (tmp_path / "out" / "page-rmse.svg").read_text().count("critical difference") == 1
    with pytest.raises(SystemExit) as done:
        command.main([*where, "--check"])  # the toys' catalogue says neither rows nor kinds
    assert done.value.code and "price: 60 rows, 1 numbers" in capsys.readouterr().out


# ---- the summary ----


def line(table, method, split=0, task="regression", **scores):
    told = {"table": table, "task": task, "method": method, "split": split, "test_rows": 10}
    return told | {"version": f"{method} 1", "fit_s": 2.0, "predict_s": 0.5} | scores


def test_a_summary_by_hand():
    scores = {"catboost": (2.0, 4.0, 1.0), "ours": (1.0, 8.0, 0.5), "rbf": (4.0, 2.0, 1.0)}
    lines = [
        line(f"t{i}", method, split, rmse=value + (0.25 if split else -0.25))
        for method, values in scores.items()
        for i, value in enumerate(values)
        for split in (0, 1)
    ]
    found = summary.compare([*lines, line("t9", "ours", rmse=1.0)], "rmse")
    assert (found.tables, found.unfinished) == (["t0", "t1", "t2"], ["t9"])
    assert [s.method for s in found.standings] == ["ours", "catboost", "rbf"]
    ours, theirs, rbf = found.standings
    assert ours.ratio == pytest.approx((1 / 2 * 2 * 1 / 2) ** (1 / 3))
    assert (ours.wins, ours.pairs, ours.failed) == (2, 3, 0)
    assert ours.rank == pytest.approx((1 + 3 + 1) / 3)
    assert rbf.rank == pytest.approx((3 + 1 + 2.5) / 3)
    assert (ours.worst, ours.worst_table) == (pytest.approx(4.0), "t1")
    assert (theirs.worst, theirs.worst_table) == (pytest.approx(2.0), "t1")
    assert (theirs.ratio, theirs.wins, theirs.p) == (1.0, 0, 1.0)
    assert ours.p == pytest.approx(stats.wilcoxon(np.log([1 / 2, 2, 1 / 2])).pvalue)
    # Demšar (2006): q of three methods at 5 % is 2.343
    assert found.critical_difference == pytest.approx(2.343 * np.sqrt(3 * 4 / 18), rel=1e-3)


def test_a_failure_has_the_last_rank_and_no_ratio():
    lines = [line("t0", "catboost", rmse=1.0), line("t1", "catboost", rmse=1.0)]
    lines += [line("t0", "ours", rmse=3.0), line("t1", "ours", failed="too long")]
    ours = summary.compare(lines, "rmse").standings[1]
    assert (ours.method, ours.pairs, ours.failed, ours.rank) == ("ours", 1, 1, 2.0)
    assert ours.ratio == pytest.approx(3.0)

    with pytest.raises(ValueError, match=r"against='nobody' has no RMSE in the results; give one"):
        summary.compare(lines, "rmse", "nobody")


def test_tables_that_not_every_method_was_tried_on_are_left_out():
    one, other = line("t0", "catboost", rmse=1.0), line("t1", "ours", rmse=2.0)
    found = summary.compare([one, other], "rmse")
    assert (found.tables, found.unfinished) == ([], ["t0", "t1"])
    found = summary.compare([one, line("t1", "ours", failed="too long")], "rmse")
    assert (found.tables, found.unfinished) == (["t0"], ["t1"])


def test_an_error_rate_of_zero_has_a_ratio():
    lines = [
        line("t", method, split, "classes", error=error)
        for method, error in (("catboost", 0.1), ("ours", 0.0))
        for split in (0, 1)
    ]
    ours = summary.compare(lines, "error").standings[0]
    assert ours.ratio == pytest.approx(0.5 / 2.5)  # half a row against two and a half, of twenty


def test_methods_without_a_measure_are_left_out_of_it(tmp_path):
    lines = [line("t", m, 0, "classes", error=0.1, log_loss=0.3) for m in ("catboost", "ours")]
    lines.append(line("t", "rbf", 0, "classes", error=0.2))
    assert len(summary.compare(lines, "error").standings) == 3
    found = summary.compare(lines, "log_loss")
    assert [s.method for s in found.standings] == ["catboost", "ours"]
    files = summary.write(lines, tmp_path / "page")
    assert [f.name for f in files] == ["page.md", "page-error.svg", "page-log-loss.svg"]
    assert "| rbf | 1.667 | 0 of 1 | 3.00 | 1 | 1.67 t |  | 2 | 0.5 |" in files[0].read_text()


def test_bars_join_ranks_that_are_close():
    assert summary._joined([1.0, 1.5, 2.6, 4.0, 4.2], 1.2) == [(0, 1), (1, 2), (3, 4)]
    assert summary._joined([1.0, 2.0, 3.0], 5.0) == [(0, 2)]
    assert summary._joined([1.0, 2.0], 0.5) == []


def test_categories_are_text_for_those_that_want_text():
    X = pandas.DataFrame({"a": pandas.Categorical(["x", None]), "b": [1.0, np.nan]})
    found = methods._as_text(X)
    assert found["a"].tolist() == ["x", "gap"] and found["b"].isna().tolist() == [False, True]
    assert X["a"].isna().tolist() == [False, True]
    assert tables.CATALOGUE.exists()


def test_both_kinds_are_ranked_together_and_those_held_back_alone(tmp_path):
    a = {"table": "a", "task": "regression", "rows": 9, "split": 0}
    b = {"table": "b", "task": "classes", "rows": 8, "split": 0, "test_rows": 10}
    lines = [a | {"method": "mercer", "rmse": 1.0}, a | {"method": "catboost", "rmse": 2.0}]
    lines += [b | {"method": "mercer", "error": 0.2}, b | {"method": "catboost", "error": 0.1}]
    lines[0]["coverage"] = 0.9
    found = summary.compare_both(lines)
    assert found.tables == ["a", "b"]
    assert {s.method: s.rank for s in found.standings} == {"mercer": 1.5, "catboost": 1.5}
    ratio = next(s.ratio for s in found.standings if s.method == "mercer")
    assert ratio == pytest.approx(np.sqrt(0.5 * 0.25 / 0.15))  # half a row is added to an error
    page = summary.write(lines, tmp_path / "page", held_back={"b"})[0].read_text()
    assert "Tables held back, 1 of these" in page and "| b * | 8 | 1 | error rate | 0.25 |" in page
    assert "on 1 of 1 tables" in page and "| a | 9 | 1 | RMSE | **1** | 2 |" in page


def test_a_line_of_mercer_has_the_commit_and_the_page_tells_it(toys, tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "commit", lambda: "abc1234")
    found = [measure(load(toys["price"]), method, 0) for method in ("mercer", "linear")]
    assert [each.get("commit") for each in found] == ["abc1234", None]
    lines = [line("t0", "mercer", rmse=1.0) | {"commit": "abc1234"}, line("t0", "linear", rmse=1.0)]
    summary.write(lines, tmp_path / "page", against="linear")
    assert "Versions: linear 1, mercer 1 (abc1234)." in (tmp_path / "page.md").read_text()


def test_the_commit_is_that_of_the_package():
    assert re.fullmatch(r"([0-9a-f]{8,}(-dirty)?)?", protocol.commit())
