"""A table and a runner for the tests of the command line."""

import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from mercer.cli import main
from tests.cli.houses import house_columns, write


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


@pytest.fixture
def mercer(capsys):
    """Run the command line in this process; returns exit code, stdout and stderr."""

    def run(*arguments):
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def fails(mercer):
    """Run the command line and insist on one clear line of error, exit code 1 and no traceback."""

    def run(*arguments):
        outcome = mercer(*arguments)
        assert outcome.code == 1, outcome
        assert outcome.out == "", outcome
        lines = outcome.err.splitlines()
        assert len(lines) == 1, outcome
        assert lines[0].startswith("mercer: error: "), outcome
        assert "unexpected" not in lines[0], outcome
        return lines[0]

    return run


@pytest.fixture
def misused(mercer):
    """Run the command line and insist on one clear line of error and the exit code of usage."""

    def run(*arguments):
        outcome = mercer(*arguments)
        assert (outcome.code, outcome.out) == (2, ""), outcome
        (line,) = outcome.err.splitlines()
        assert line.startswith("mercer: error: "), outcome
        return line

    return run


@pytest.fixture
def houses(tmp_path):
    """A CSV file of house prices."""
    return write(tmp_path / "houses.csv", house_columns())


@pytest.fixture(scope="session")
def fitted_once(tmp_path_factory):
    """A model file fitted on the houses, for all tests."""
    folder = tmp_path_factory.mktemp("fitted")
    table, path = write(folder / "houses.csv", house_columns()), folder / "houses.mercer"
    with redirect_stdout(StringIO()):
        assert main(["fit", str(table), "--target", "price", "-o", str(path)]) == 0
    return path


@pytest.fixture
def house_model(tmp_path, houses, fitted_once):
    """A copy of it beside the table."""
    return Path(shutil.copy(fitted_once, tmp_path))
