"""`make check` finds what changed, and the tests of it."""

import subprocess

import numpy as np
import pytest

from tools import check


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A checkout on a branch, with one file committed there, one edited and one new."""

    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    for name in ("old", "edited", "gone"):
        (tmp_path / f"{name}.py").write_text("")
    git("add", ".")
    git("commit", "-m", "first")
    git("checkout", "-b", "branch")
    (tmp_path / "committed.py").write_text("")
    git("add", ".")
    git("commit", "-m", "second")
    (tmp_path / "edited.py").write_text("1")
    (tmp_path / "gone.py").unlink()
    (tmp_path / "new.py").write_text("")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    return git


def test_changed_is_what_differs_from_main_committed_or_not(repository):
    assert check.choose_base() == "main"
    assert check.changed("main") == ["committed.py", "edited.py", "new.py"]
    assert check.changed("HEAD") == ["edited.py", "new.py"]


def test_on_main_itself_the_last_commit_is_looked_at(repository):
    repository("add", ".")
    repository("commit", "-m", "third")
    repository("checkout", "main")
    repository("merge", "branch")
    assert check.choose_base() == "HEAD~1"
    assert check.changed("HEAD~1") == ["edited.py", "new.py"]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small house: a family of two files, with tests of its own folder."""
    files = {
        "src/mercer/__init__.pyi": "from mercer.models import Ridge, Lasso",
        "src/mercer/models/lines/base.py": "class Line: ...",
        "src/mercer/models/lines/ridge.py": "class Ridge(Line): ...\nclass Helper: ...",
        "src/mercer/models/lines/lasso.py": "class Lasso(Line): ...",
        "tests/models/test_other.py": "",
        "tests/models/lines/drawn.py": "",
        "tests/models/lines/test_lasso.py": "from tests.models.lines.drawn import line",
        "tests/models/lines/test_ridge_weights.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(check, "ROOT", tmp_path)


FAMILY = ["tests/models/lines/test_lasso.py", "tests/models/lines/test_ridge_weights.py"]
ALWAYS = ["tests/net/test_public_names.py", "tests/test_laws.py"]


def test_a_file_is_tested_by_its_doctests_its_folder_and_the_laws_of_its_classes(tree):
    source = "src/mercer/models/lines/ridge.py"
    assert check.select([source]) == ([source, *FAMILY[::-1], *ALWAYS], ["Ridge"])


def test_of_a_base_the_laws_of_its_family_run(tree):
    source = "src/mercer/models/lines/base.py"
    assert check.select([source]) == ([source, *FAMILY, *ALWAYS], ["Lasso", "Ridge"])


def test_what_tests_share_is_tested_by_those_that_use_it(tree):
    assert check.select(["tests/models/lines/drawn.py"]) == (FAMILY[:1], [])
    assert check.select(["tests/models/test_other.py"]) == (["tests/models/test_other.py"], [])


def test_every_file_beside_the_source_has_tests_that_exist():
    assert all((check.ROOT / name).exists() for pair in check.ELSEWHERE.items() for name in pair)


def test_of_many_tests_the_nearest_run_and_a_part_of_the_others(monkeypatch):
    monkeypatch.setattr(check, "NEAREST", 3)
    monkeypatch.setattr(check, "SAMPLE", 4)
    assert check.sampled(list(range(7))) == list(range(7))
    assert check.sampled(list(range(8))) == [0, 1, 2, 3, 5, 7]
    for count in range(8, 60):
        kept = check.sampled(list(range(count)))
        steps = np.diff(kept[3:])
        assert kept[:3] == [0, 1, 2] and len(kept) <= 7 and len(set(steps)) <= 1
