"""The code blocks of README.md run and print what they say; for the manual see tests/docs."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md"]
BLOCK = re.compile(r"^(```+)\{?(?:code-block\} )?python\}?\n(.*?)^\1\s*$", re.M | re.S)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def blocks(page):
    text = page.read_text(encoding="utf-8")
    return [(text[: m.start(2)].count("\n") + 1, m[2]) for m in BLOCK.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for line, code in blocks(page):
        if ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, names, page.name, str(page), line)
            runner = doctest.DocTestRunner(optionflags=FLAGS)
            report = []
            runner.run(test, out=report.append, clear_globs=False)
            names.update(test.globs)
            assert runner.failures == 0, "".join(report)
        else:
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)


def test_the_readme_has_its_two_commands_and_a_tour():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```sh\n(.*?)```", text, re.S)[1]
    assert first.split("\n")[:-1] == ["make demo", "make test"]
    assert len(blocks(ROOT / "README.md")) >= 2
