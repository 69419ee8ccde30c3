"""`mercer fit` on tables with text and sequences: a kernel put together from the columns."""

import numpy as np
import pytest

import mercer as library
from mercer.datasets import make_clinic, make_splice
from tests.cli.houses import line, write


@pytest.fixture
def clinic(tmp_path):
    table, recovery = make_clinic(60, random_state=0)
    columns = {n: ["" if v is None or v != v else v for v in table[n]] for n in table.names}
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
    # the same file, its columns in another order and the target gone
    said = mercer("predict", model, clinic)
    assert said.code == 0, said
    first = [float(cell) for cell in said.out.splitlines()[1:]]
    lines = [row.split(",") for row in clinic.read_text().splitlines()]
    assert len(first) == len(lines) - 1


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
    columns = {n: ["" if v is None or v != v else v for v in table[n]] for n in table.names}
    new = write(tmp_path / "new.csv", columns | {"notes": [""] * 5})
    said = mercer("predict", model, new)
    assert "column 'notes' is empty in all rows; its cells count as missing" in said.err, said
    assert said.code == 0 and len(said.out.splitlines()) == 6
