"""`mercer fit` on tables with text and sequences: a kernel put together from the columns."""

import numpy as np
import pytest

import mercer as library
from mercer.datasets import make_clinic, make_splice
from tests.cli.houses import line, write


def cells(column):
    return ["" if v is None or v != v else v for v in column]


@pytest.fixture
def clinic(tmp_path):
    table, recovery = make_clinic(60, random_state=0)
    columns = {n: cells(table[n]) for n in table.names}
    return write(tmp_path / "clinic.csv", columns | {"recovery": recovery.round(3).tolist()})


def test_text_and_sequences_are_read_as_such(mercer, clinic, tmp_path):
    model = tmp_path / "m"
    outcome = mercer("fit", clinic, "--target", "recovery", "--no-tune", "-o", model)
    assert outcome.code == 0, outcome
    assert line(outcome, "text").startswith("1: notes (")
    assert line(outcome, "sequences").startswith("1: sequence (")
    assert line(outcome, "categories").startswith("2: site (3, ")
    assert "BagOfWords" in line(outcome, "kernel") and "Spectrum" in line(outcome, "kernel")
    about = mercer("info", model)
    for label in ("numbers", "categories", "text", "sequences"):
        assert line(about, label) == line(outcome, label)
    fitted = library.load(model)
    assert fitted.encoder_.kinds_ == ("number", "number", *["text"] * 4)
    # its columns in another order, one more, and the target gone
    first = mercer("predict", model, clinic)
    table, _ = make_clinic(60, random_state=0)
    turned = {"more": ["new"] * 60} | {n: cells(table[n]) for n in table.names[::-1]}
    other = mercer("predict", model, write(tmp_path / "other.csv", turned))
    assert first.code == other.code == 0, other
    assert first.out == other.out and len(first.out.splitlines()) == 61


def test_predictions_are_those_of_the_model(mercer, clinic, tmp_path):
    model = tmp_path / "m"
    mercer("fit", clinic, "--target", "recovery", "--no-tune", "-o", model)
    table, _ = make_clinic(60, random_state=0)
    said = mercer("predict", model, clinic)
    answers = np.array([float(cell) for cell in said.out.splitlines()[1:]])
    np.testing.assert_allclose(answers, library.load(model).predict(table), rtol=1e-12)


def test_a_named_kernel_leaves_them_out_and_says_so(mercer, clinic, tmp_path):
    fit = ("fit", clinic, "--target", "recovery", "--no-tune", "-o", tmp_path / "m")
    said = line(mercer(*fit, "--kernel", "rbf"), "left out")
    assert "'sequence': sequence; --kernel columns reads it" in said
    assert "'notes': text; --kernel columns reads it" in said


def test_auto_compares_the_columns_with_the_numbers(mercer, clinic, tmp_path):
    fit = ("fit", clinic, "--target", "recovery", "--no-tune", "-o", tmp_path / "m")
    assert "Spectrum" in line(mercer(*fit, "--kernel", "auto"), "kernel")


def test_columns_may_be_asked_for_without_any_text(mercer, houses, tmp_path):
    fit = ("fit", houses, "--target", "price", "--no-tune", "-o", tmp_path / "m")
    outcome = mercer(*fit, "--kernel", "columns")
    assert ".with_missing(" in line(outcome, "kernel"), outcome


def test_strings_alone_are_classified(mercer, fails, tmp_path):
    X, y = make_splice(60, length=30, random_state=0)
    table = write(tmp_path / "dna.csv", {"dna": X, "kind": y.tolist()})
    fit = ("fit", table, "--target", "kind", "--no-tune", "-o", tmp_path / "m")
    outcome = mercer(*fit)
    assert line(outcome, "model") == "SVC" and line(outcome, "sequences") == "1: dna", outcome
    said = mercer("predict", tmp_path / "m", table, "--probabilities")
    assert said.out.splitlines()[0] == "predicted_kind,probability_decoy,probability_site"
    other = ("fit", table, "--target", "kind", "-o", tmp_path / "n", "--kernel", "rbf")
    assert "--kernel columns reads them" in fails(*other)


def test_an_empty_column_counts_as_missing(mercer, clinic, tmp_path):
    model = tmp_path / "m"
    mercer("fit", clinic, "--target", "recovery", "--no-tune", "-o", model)
    table, _ = make_clinic(5, random_state=1)
    columns = {n: cells(table[n]) for n in table.names}
    new = write(tmp_path / "new.csv", columns | {"notes": [""] * 5})
    said = mercer("predict", model, new)
    assert "column 'notes' is empty in all rows; its cells count as missing" in said.err, said
    assert said.code == 0 and len(said.out.splitlines()) == 6


N = 40


@pytest.fixture
def mixed():
    """Columns of every kind that a file may have: an id, gaps, a flag, a category, DNA, text."""
    rng = np.random.default_rng(0)
    words = ["the", "a", "pain", "fever", "cough", "arm", "leg", "night", "left", "right"]
    site = rng.choice(["A", "B", "C"], N)
    dose = rng.normal(size=N).round(3)
    return {
        "id": list(range(1, N + 1)),
        "dose 0.123456": ["" if i % 9 == 0 else v for i, v in enumerate(dose)],
        "flag": ["1" if i % 3 else "" for i in range(N)],
        "site": site.tolist(),
        "name": [f"p{i}x{i * i}" for i in range(N)],
        "unit": ["mg"] * N,
        "dna": ["".join(rng.choice(list("ACGT"), 15)) for _ in range(N)],
        "note": [" ".join(rng.choice(words, 7)) for _ in range(N)],
        "y": (dose + 2 * (site == "A") + rng.normal(0, 0.1, N)).round(3).tolist(),
    }


def without(columns, *names):
    return {n: c for n, c in columns.items() if n not in names}


def test_the_report_names_as_used_what_the_kernel_looks_at(mercer, fails, mixed, tmp_path):
    model = tmp_path / "m"
    table = write(tmp_path / "mixed.csv", mixed)
    outcome = mercer("fit", table, "--target", "y", "--no-tune", "-o", model)
    assert outcome.code == 0 and "remark" not in outcome.out, outcome
    assert line(outcome, "numbers") == "1: dose 0.123456 (5 missing)"
    assert line(outcome, "categories") == "2: flag (1, 14 missing), site (3)"
    assert line(outcome, "text") == "1: note" and line(outcome, "sequences") == "1: dna"
    left = line(outcome, "left out")
    assert "'id': an identifier" in left and "'name': 40 different" in left and "'unit'" in left
    fitted = library.load(model)
    assert fitted.encoder_.columns_ == fitted.kernel_.domain.columns
    assert set(fitted.encoder_.columns_) == {"dose 0.123456", "flag", "site", "dna", "note"}
    about = mercer("info", model)
    for label in ("numbers", "categories", "text", "sequences"):
        assert line(about, label) == line(outcome, label)
    assert "'id'" not in about.out and "id" not in line(about, "numbers")
    # the model asks for the columns it looks at, and for no other
    some = write(tmp_path / "some.csv", without(mixed, "id", "name", "unit", "y"))
    said = mercer("predict", model, some)
    assert said.code == 0 and said.out == mercer("predict", model, table).out
    fewer = write(tmp_path / "fewer.csv", without(mixed, "site"))
    assert "missing column 'site'" in fails("predict", model, fewer)


def test_names_are_printed_as_they_are(mercer, mixed, tmp_path):
    columns = {n: mixed[n] for n in ("dose 0.123456", "flag", "y")}
    columns["other"] = (np.arange(N) * 1.23456789).tolist()
    table = write(tmp_path / "t.csv", columns)
    fit = ("fit", table, "--target", "y", "--no-tune", "-o", tmp_path / "m")
    outcome = mercer(*fit, "--kernel", "columns")
    kernel = line(outcome, "kernel")
    assert ".on(['dose 0.123456', 'other'])" in kernel and "1.23456789" not in kernel
    assert " ]" not in kernel and "[ " not in kernel and "  " not in kernel
    assert line(outcome, "numbers") == "2: dose 0.123456 (5 missing), other"


def test_categorical_is_honoured(mercer, mixed, tmp_path):
    table = write(tmp_path / "mixed.csv", mixed)
    fit = ("fit", table, "--target", "y", "--no-tune", "-o", tmp_path / "m")
    outcome = mercer(*fit, "--categorical", "id", "name", "dna")
    assert line(outcome, "categories").startswith("5: id (40), flag (1, 14 missing), site (3)")
    assert "sequences" not in outcome.out and "remark" not in outcome.out
    assert "Spectrum" not in line(outcome, "kernel")
    fitted = library.load(tmp_path / "m")
    kinds = dict(zip(fitted.encoder_.columns_, fitted.encoder_.kinds_, strict=True))
    assert kinds["id"] == kinds["name"] == kinds["dna"] == "text" and kinds["flag"] == "number"
    assert mercer("predict", tmp_path / "m", table).code == 0


def test_columns_that_say_nothing(mercer, fails, mixed, tmp_path):
    table = write(tmp_path / "ids.csv", {n: mixed[n] for n in ("id", "y")})
    fit = ("fit", table, "--target", "y", "--no-tune", "-o", tmp_path / "m", "--kernel")
    for kernel in ("columns", "rbf"):  # what else could be predicted from
        outcome = mercer(*fit, kernel, "--force")
        assert line(outcome, "numbers") == "1: id" and "it is used" in line(outcome, "remark")
    said = fails(*fit, "columns", "--force", "--drop", "id")
    assert "ids.csv: no column is left" in said and "'id': as asked" in said


def test_a_number_beyond_comparison_is_named(fails, mixed, tmp_path):
    table = write(tmp_path / "t.csv", mixed | {"big one": [1e308] + [1.5, 2.5, 3.5] * 13})
    said = fails("fit", table, "--target", "y", "--no-tune", "-o", tmp_path / "m")
    assert "t.csv: column 'big one' holds 1e+308, too large" in said
    assert "--drop 'big one'" in said


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_columns_are_tuned(mercer, mixed, tmp_path, monkeypatch, task):
    monkeypatch.setattr("mercer.models.tables.proposal.COLUMNS_TRIED", 2)
    target = (
        mixed["y"] if task == "regression" else [("hi" if v > 0.7 else "lo") for v in mixed["y"]]
    )
    table = write(tmp_path / "mixed.csv", mixed | {"y": target})
    model = tmp_path / "m"
    outcome = mercer("fit", table, "--target", "y", "-o", model, "--kernel", "columns")
    assert outcome.code == 0 and "tuned by" in line(outcome, "kernel"), outcome
    assert "'dna' alone" in line(outcome, "compared")
    assert "tuned and fitted" in line(outcome, "wrote")
    assert library.load(model).encoder_.columns_ == library.load(model).kernel_.domain.columns
    auto = mercer("fit", table, "--target", "y", "--kernel", "auto", "-o", model, "--force")
    assert auto.code == 0 and mercer("predict", model, table).code == 0


def test_parquet(mercer, mixed, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = mixed | {"dose 0.123456": [v if v != "" else None for v in mixed["dose 0.123456"]]}
    columns["yes"] = [i % 4 == 1 for i in range(N)]
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    model = tmp_path / "m"
    fit = ("fit", tmp_path / "t.parquet", "--target", "y", "--no-tune", "-o", model)
    outcome = mercer(*fit)
    assert outcome.code == 0 and "yes (2)" in line(outcome, "categories"), outcome
    said = mercer("predict", model, tmp_path / "t.parquet")
    csv = write(tmp_path / "t.csv", mixed | {"yes": columns["yes"]})
    assert said.code == 0 and said.out == mercer("predict", model, csv).out


def test_models_of_python_take_files(mercer, fails, mixed, tmp_path):
    truths = [i % 4 == 1 for i in range(N)]
    table = {"yes": truths, "code": [i % 3 for i in range(N)], "site": mixed["site"]}
    kernel = library.Categorical(0.1).on(["yes", "code"]) + library.Categorical().on("site")
    fitted = library.TableRegressor(kernel).fit(table, mixed["y"])
    library.save(fitted, tmp_path / "m")
    said = mercer("predict", tmp_path / "m", write(tmp_path / "t.csv", table))
    answers = [float(cell) for cell in said.out.splitlines()[1:]]
    np.testing.assert_allclose(answers, fitted.predict(table), rtol=1e-12)
    odd = write(tmp_path / "odd.csv", table | {"yes": ["perhaps"] * N})
    assert "line 2, column 'yes': 'perhaps' is no truth value" in fails(
        "predict", tmp_path / "m", odd
    )
    graphs = {"g": [library.Graph(edges=[(0, 1)], n_nodes=2 + i % 2) for i in range(N)]}
    kernel = library.WeisfeilerLehman(1).on("g")
    fitted = library.TableRegressor(kernel).fit(graphs, mixed["y"])
    library.save(fitted, tmp_path / "g")
    other = write(tmp_path / "g.csv", {"g": ["x"] * 3})
    assert "column 'g' holds what no such file does" in fails("predict", tmp_path / "g", other)
    assert mercer("info", tmp_path / "g").code == 0


def test_unknown_categories_are_told(mercer, mixed, tmp_path):
    columns = mixed | {"yes": [str(i % 4 == 1) for i in range(N)]}
    table = write(tmp_path / "t.csv", columns)
    model = tmp_path / "m"
    fit = mercer("fit", table, "--target", "y", "--no-tune", "-o", model)
    assert fit.code == 0 and "unknown" not in mercer("predict", model, table).err
    shout = write(tmp_path / "u.csv", columns | {"yes": [v.upper() for v in columns["yes"]]})
    said = mercer("predict", model, shout)
    assert f"column 'yes': {N} of {N} values are unknown to the model, such as 'FALSE'" in said.err
    assert "it knows 'False', 'True'" in said.err and said.code == 0
    assert "'site'" not in said.err and "'dna'" not in said.err and "'note'" not in said.err


def soft_masked(columns):
    """DNA with letters of both cases, a letter N, an odd cell and empty ones."""
    dna = [("N" + s[:7] + s[7:].lower()) * 3 for s in columns["dna"]]
    return columns | {"dna": ["" if i % 13 == 0 else s for i, s in enumerate(dna)]}


def test_sequences_in_both_cases_are_read(mercer, mixed, tmp_path):
    table = write(tmp_path / "t.csv", soft_masked(mixed))
    outcome = mercer("fit", table, "--target", "y", "--no-tune", "-o", tmp_path / "m")
    assert line(outcome, "sequences") == "1: dna (4 missing)", outcome
    said = mercer("depend", table, "--x", "dna", "--y", "y")
    assert said.code == 1 and "sequences of letters, which only mercer fit reads" in said.err, said


def test_what_columns_hold_may_be_said(mercer, fails, mixed, tmp_path):
    table = write(tmp_path / "t.csv", mixed)
    fit = ("fit", table, "--target", "y", "--no-tune", "-o", tmp_path / "m", "--force")
    outcome = mercer(*fit, "--sequence", "name", "--text", "site", "--number", "id")
    assert line(outcome, "sequences") == "2: name, dna" and line(outcome, "text") == "2: site, note"
    assert line(outcome, "numbers") == "2: id, dose 0.123456 (5 missing)"
    assert mercer("predict", tmp_path / "m", table).code == 0
    assert "'name' is said to hold both category and text" in fails(
        *fit, "--text", "name", "--categorical", "name"
    )
    assert "column 'site'" in fails(*fit, "--number", "site")
    assert "'y' is the target" in fails(*fit, "--text", "y")
    assert "no column 'nam'" in fails(*fit, "--text", "nam")


def test_identifiers_are_those_of_the_file(mercer, mixed, tmp_path):
    columns = mixed | {"record": list(range(1000, 1000 + N)), "y": ["", *mixed["y"][1:]]}
    table = write(tmp_path / "t.csv", columns)
    fit = ("fit", table, "--target", "y", "--no-tune", "-o", tmp_path / "m", "--force")
    left = line(mercer(*fit), "left out")  # a row without a target and rows held out are gone
    assert f"'record': an identifier: it counts from 1000 to {999 + N}" in left
    assert "record" not in library.load(tmp_path / "m").encoder_.columns_
    left = line(mercer(*fit, "--kernel", "rbf"), "left out")
    assert f"'record': an identifier: it counts from 1000 to {999 + N}" in left
    bad = write(tmp_path / "b.csv", columns | {"bad": [*range(N - 1), "x"]})
    assert mercer(*(bad if v == table else v for v in fit), "--drop", "bad").code == 0


def test_aligned_strings_are_compared_place_by_place(mercer, tmp_path):
    X, y = make_splice(150, length=40, random_state=0)
    table = write(tmp_path / "dna.csv", {"dna": X, "kind": y.tolist()})
    fit = ("fit", table, "--target", "kind", "-o", tmp_path / "m", "--test-fraction", "0")
    outcome = mercer(*fit, "--model", "svc")
    assert "WeightedDegree" in line(outcome, "kernel"), outcome
    told = line(outcome, "compared")
    assert told.startswith("'dna' alone, left-out error over spread: WeightedDegree(length=")
    for kernel in ("Spectrum(length=3)", "Spectrum(length=5)", "Mismatch(length=5, ", "LocalAl"):
        assert kernel in told
    # Python does the same
    model = library.TableClassifier(model="svc", probability=True).fit({"dna": X}, y)
    saved = library.load(tmp_path / "m")
    assert model.kernel_ == saved.kernel_ and model.model_.C == saved.model_.C
    assert model.notes_["compared"] == saved.notes_["compared"]
    np.testing.assert_array_equal(model.predict_proba({"dna": X}), saved.predict_proba({"dna": X}))


def test_an_identifier_is_left_out_unless_it_is_said_to_be_a_number(mercer, mixed, tmp_path):
    columns = {"customer": list(range(1000, 1000 + N)), "dose": mixed["dose 0.123456"]}
    table = write(tmp_path / "t.csv", columns | {"y": mixed["y"]})
    fit = ("fit", table, "--target", "y", "-o", tmp_path / "m", "--force")
    for options in ((), ("--model", "ridge", "--kernel", "rbf"), ("--model", "ridge")):
        left = line(mercer(*fit, *options), "left out")
        assert f"'customer': an identifier: it counts from 1000 to {999 + N}" in left
        assert library.load(tmp_path / "m").encoder_.columns_ == ("dose",)
        kept = mercer(*fit, *options, "--number", "customer")
        assert "customer" in line(kept, "numbers") and "left out" not in kept.out
        assert library.load(tmp_path / "m").encoder_.kinds_ == ("number", "number")
    del columns["dose"]
    other = write(tmp_path / "a.csv", columns | {"y": mixed["y"]})
    alone = mercer(*(other if v == table else v for v in fit))
    assert "so it may be an id; it is used" in line(alone, "remark")


def test_rows_that_occur_twice_are_told_of(mercer, mixed, tmp_path):
    x = np.random.default_rng(0).normal(size=30).round(6).tolist()
    for again in (0, 10):
        columns = {"x": [*x, *x[:again]], "y": [*range(30), *range(again)]}
        table = write(tmp_path / f"{again}.csv", columns)
        outcome = mercer("fit", table, "--target", "y", "-o", tmp_path / "m", "--force")
        said = f"{2 * again} of {30 + again} rows have the same inputs as another row"
        assert (said in outcome.out) == (again > 0)
