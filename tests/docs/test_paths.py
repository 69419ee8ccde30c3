"""Files, folders and targets of make that the pages for contributors name are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["CONTRIBUTING.md", "README.md", "docs/design.md", "docs/how-to-add.md"]
ROOTS = [ROOT, ROOT / "src", ROOT / "src/mercer", ROOT / "tests"]
#: Names that a page gives as those of files that are not there, with the reason why.
ABSENT = {
    "cauchy.py",
    "config.py",
    "ridge_classifier.py",
    "src/mercer/models/ridge/expectile.py",
}

by_page = pytest.mark.parametrize("page", PAGES)


def quoted(page):
    """What stands between backticks in a page, outside of fenced blocks."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.findall(r"`([^`\n]+)`", text)


def is_there(path):
    if path == "__init__.pyi" or path.startswith(("_build/", "demo-output")):
        return True
    return any((root / path).exists() for root in ROOTS)


@by_page
def test_paths_exist(page):
    paths = [t for t in quoted(page) if re.fullmatch(r"[\w./-]+(?:\.(?:py|pyi|md|txt|svg)|/)", t)]
    paths += [t.split()[1] for t in quoted(page) if re.match(r"python \w+/", t)]
    assert [p for p in paths if p not in ABSENT and not is_there(p)] == []


@by_page
def test_targets_of_make_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.M)) <= targets


def test_the_tree_of_contributing_is_the_tree():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = re.search(r"^src/mercer/\n(.*?)^tests/", text, re.M | re.S)[1]
    told = set(re.findall(r"^  (?=[\w.]+/)((?:[\w.]+/ ?)+)", tree, re.M))
    told = {name.strip("/") for line in told for name in line.split()} | {"datasets"}
    there = {p.parent.name for p in (ROOT / "src/mercer").glob("*/__init__.py")}
    assert told == there
