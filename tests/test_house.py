"""The house gets no worse: every measure of tools/house.py has a bound that may only fall."""

from functools import cache

import pytest

from tools.house import MEASURES, House

#: Upper bounds. Whoever makes a number smaller writes it here; nobody makes one larger.
BOUNDS = {
    "crowded": 1,
    "short": 10,
    "paragraphs": 9,
    "one_importer": 56,
    "one_user": 70,
    "gram": 0,
    "owner": 18,
    "windows": 0,
    "private": 362,
    "engines": 0,
    "engines_else": 0,
    "torch": 7,
    "cycles": 4,
    "largest_cycle": 11,
    "class_names": 5,
    "stems": 14,
    "lists": 3,
}

#: What grows with what the house can do: printed by `make house`, bounded no more.
TOTALS = {"files", "code", "docstrings"}

#: The same for what a warm call enters, a first fit loads and an estimator inherits.
WALKS = {
    "walk_ridge": 35,
    "walk_svc": 28,
    "walk_gpr": 33,
    "walk_mmd": 25,
    "walk_cli": 78,
    "walk_falkon": 54,
    "functions": 197,
    "loaded": 128,
    "mro_mean": 3.4,
    "mro_max": 4,
    "private_bases": 12,
}

house = cache(House)


def complaint(key, bound):
    """What to say of a measure beyond its bound; nothing where it keeps it."""
    measure = MEASURES[key]
    now = measure.value(house())
    if now <= bound:
        return ""
    worst = "\n".join(line[:160] for line in measure.places(house())[:8])
    return (
        f"{measure.words}: {now:,}, at most {bound:,} allowed. The largest places are\n{worst}\n"
        f"and python tools/house.py --list {key} gives them all."
    )


@pytest.mark.parametrize("key", BOUNDS)
def test_a_measure_keeps_its_bound(key):
    said = complaint(key, BOUNDS[key])
    assert not said, said


def test_walks_keep_their_bounds():
    # one test: the walks are one process, and workers share nothing
    pytest.importorskip("pyarrow")
    said = "\n".join(filter(None, (complaint(key, bound) for key, bound in WALKS.items())))
    assert not said, said


def test_every_measure_has_a_bound():
    kept = {key for key, measure in MEASURES.items() if measure.kind != "slow"}
    assert kept == set(BOUNDS) | set(WALKS) | TOTALS


# ---- the counts themselves, on small trees ----


@pytest.fixture
def tree(tmp_path):
    """Write files, given by path and text, below a package; its house."""

    def write(files):
        for path, text in files.items():
            place = tmp_path / "small" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        return House(tmp_path / "small")

    return write


EAGER = "from small.a.one import One\n__all__ = ['One']\n"
LAZY = "from small.a.one import One as One\n"
ROOMS = {
    "__init__.py": "",
    "a/one.py": "class One:\n    def f(self):\n        from small.b import two\n",
    "a/other.py": "",
    "b/__init__.py": "",
    "b/two.py": "from small.a import One\n",
}


def test_code_lines_leave_docstrings_and_comments_out(tree):
    text = (
        '"""Two\nlines."""\n\n# a comment\nx = (\n    1,  # here too\n)\n\n\ndef f():\n    "Doc."\n'
    )
    assert tree({"__init__.py": text}).modules["small"].code_lines == 4


def test_an_eager_door_loads_all_that_it_lists(tree):
    house = tree({**ROOMS, "a/__init__.py": EAGER})
    assert ("small.b.two", "small.a") in house.edges
    assert MEASURES["cycles"].find(house) == {"small.a small.a.one small.b.two": 3}


def test_a_stub_leads_to_the_home_of_a_name(tree):
    house = tree({**ROOMS, "a/__init__.py": "", "a/__init__.pyi": LAZY})
    assert ("small.b.two", "small.a") in house.edges
    assert house.home("small.a", "One") == "small.a.one"
    assert MEASURES["cycles"].find(house) == {"small.a.one small.b.two": 2}


def test_the_window_is_an_inner_file_of_another_folder(tree):
    rooms = {
        "a/__init__.py": EAGER,
        "b/two.py": "from small.a.one import One\n",
        "b/c/__init__.py": "from small.b.c.four import x\n",
        "b/c/four.py": "import small.errors\nfrom small.b.two import One\nx = 1\n",
        "b/three.py": "from small.b.c import x\nfrom small.a import One\n",
        "errors.py": "",
    }
    found = MEASURES["windows"].find(tree({**ROOMS, **rooms}))
    assert found == {"small.a.one": 1, "small.b.two": 1}
