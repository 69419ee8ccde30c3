"""Every Python block of the manual runs, page by page, and prints what the page says it prints."""

import doctest
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import mercer
from mercer.kernels import Kernel

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)
FENCE = re.compile(
    r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.M | re.S
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
LANGUAGES = {"python", "sh", "text"}

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(DOCS)))


def fences(page):
    """Yield (language or directive, line, text) of every fenced block."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield found["info"].strip(), text[: found.start("body")].count("\n"), found["body"]


def run(code, line, names, page):
    """Run a block in the namespace of its page; a session must print what is shown."""
    if ">>>" not in code:
        exec(compile("\n" * line + code, str(page), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
    runner, report = doctest.DocTestRunner(optionflags=FLAGS), []
    runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, "".join(report)


@by_page
def test_blocks_run(page, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page_of_the_manual")  # a module that pickle finds, as __main__ would be
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = vars(module)
    for language, line, text in fences(page):
        needs_torch = "import torch" in text or 'engine="torch"' in text
        if language == "python" and not (needs_torch and find_spec("torch") is None):
            run(text, line, names, page)


@by_page
def test_every_block_says_what_it_is(page):
    for info, line, _ in fences(page):
        assert info in LANGUAGES or info.startswith("{"), f"{page.name}:{line}: {info!r}"


def test_a_block_that_prints_something_else_is_caught(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\n>>> 1 + 1\n3\n```\n", encoding="utf-8")
    ((language, line, code),) = fences(page)
    assert language == "python"
    with pytest.raises(AssertionError, match="Expected"):
        run(code, line, {}, page)


@by_page
def test_links_and_included_files_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    targets += re.findall(r"^```\{(?:literalinclude|include)\} (\S+)", text, re.M)
    built = ("api/generated/", "_build/")
    for target in targets:
        path = (page.parent / target).resolve()
        relative = path.relative_to(DOCS.parent).as_posix().removeprefix("docs/")
        assert path.exists() or relative.startswith(built), f"{page.name}: {target}"


# ------------------------------------------------------------------ the table of choose.md
def rows_of_choice():
    """Kernel name → cells of its row in the table of kernels."""
    text = (DOCS / "choose.md").read_text(encoding="utf-8")
    rows = [
        [c.strip() for c in line.split("|")[1:-1]] for line in re.findall(r"^\| `.*$", text, re.M)
    ]
    return {re.match(r"`(\w+)", row[0])[1]: row for row in rows}


def test_the_table_has_every_kernel():
    public = {
        name
        for name in mercer.__all__
        if isinstance(getattr(mercer, name), type) and issubclass(getattr(mercer, name), Kernel)
    }
    assert set(rows_of_choice()) == public - {"Kernel"}


@pytest.mark.parametrize("name", sorted(rows_of_choice()))
def test_the_table_tells_the_truth(name):
    row, cls = rows_of_choice()[name], getattr(mercer, name)
    told = cls.characteristic
    told = cls().characteristic if isinstance(told, property) else told
    assert (row[-2] == "yes") == told
    names = set(re.findall(r"`(\w+)`", row[-3]))
    in_brackets = set(re.findall(r"`(\w+)`\)", row[-3]))
    assert names == set(cls._param_names())
    assert names - in_brackets == set(cls._tunable)
