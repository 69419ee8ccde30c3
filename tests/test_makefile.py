"""`make torch`: tried again after a failure, not after a success, left out when asked.

And the releases that `make test-minimum` installs are the lower bounds of pyproject.toml.
"""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
MAKEFILE = ROOT / "Makefile"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")

PIP = """#!/bin/sh
echo "$@" >> calls
test ! -e offline
"""


@pytest.fixture
def make(tmp_path):
    """Run `make torch` with a pip that notes its arguments and fails while `offline` is there.

    Returns a function that takes TORCH and gives pip's calls and what make said.
    """
    (tmp_path / "pyproject.toml").touch()
    os.utime(tmp_path / "pyproject.toml", (0, 0))
    (tmp_path / "env").mkdir()
    for n, stamp in enumerate((".made", ".package", ".pip", ".test")):
        (tmp_path / "env" / stamp).touch()
        os.utime(tmp_path / "env" / stamp, (n + 1, n + 1))
    (tmp_path / "pip").write_text(PIP)
    (tmp_path / "pip").chmod(0o755)

    def run(torch):
        (tmp_path / "calls").write_text("")
        words = ["make", "-f", str(MAKEFILE), "torch", "VENV=env", "PIP=./pip", f"TORCH={torch}"]
        # `make test-minimum` gives variables to all below it
        given = ("MAKE", "CONSTRAINTS", "UPGRADE", "TORCH", "VENV")
        environment = {n: v for n, v in os.environ.items() if not n.startswith(given)}
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        return (tmp_path / "calls").read_text().splitlines(), done.stdout

    return run


def test_installed_once(make):
    calls, said = make("torch==9.1")
    assert (calls, said) == (["install --quiet --no-compile torch==9.1"], "torch==9.1 installed\n")
    assert make("torch==9.1") == ([], "")


def test_a_failure_is_no_error_and_is_tried_again(make, tmp_path):
    (tmp_path / "offline").touch()
    for _ in range(2):
        calls, said = make("torch==9.1")
        assert calls == ["install --quiet --no-compile torch==9.1"]
        assert "torch==9.1 could not be installed" in said
    (tmp_path / "offline").unlink()
    assert make("torch==9.1")[0] == ["install --quiet --no-compile torch==9.1"]
    assert make("torch==9.1")[0] == []


def test_another_version_is_installed(make):
    make("torch==9.1")
    assert make("torch==9.2")[0] == ["install --quiet --no-compile torch==9.2"]
    assert make("torch==9.1")[0] == ["install --quiet --no-compile torch==9.1"]


def test_left_out_when_asked_also_after_a_first_run(make):
    calls, said = make("")
    assert calls == []
    assert "torch left out, as asked" in said
    make("torch==9.1")
    calls, said = make("")
    assert calls == ["uninstall --quiet --yes torch"]
    assert "torch left out, as asked" in said
    assert make("")[0] == []
    assert make("torch==9.1")[0] == ["install --quiet --no-compile torch==9.1"]


def test_the_oldest_releases_are_the_lower_bounds():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = told["dependency-groups"]
    wanted = told["project"]["dependencies"] + groups["test"]
    for extra in told["project"]["optional-dependencies"].values():
        wanted += extra
    others = [text for name in ("docs", "bench", "bench-torch", "arena") for text in groups[name]]
    assert sorted(groups) == ["arena", "bench", "bench-torch", "docs", "test"]

    lines = (ROOT / "constraints" / "minimum.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    tried = {pin.name: [Version(s.version) for s in pin.specifier] for pin in pins}
    assert len(tried) == len(pins)
    assert all(str(pin.specifier).startswith("==") for pin in pins)
    assert set(tried) == {Requirement(text).name for text in wanted if ">=" in text}
    for text in wanted + others:
        needs = Requirement(text)
        bounds = [Version(s.version) for s in needs.specifier if s.operator == ">="]
        if needs.name in tried:
            assert bounds == tried[needs.name], text


@pytest.mark.parametrize(
    ("words", "want"),
    [([], "if [ -z 'torch=="), (["TORCH="], "if [ -z '' ]; then")],
)
def test_the_oldest_releases_have_an_environment_of_their_own(words, want):
    environment = {n: v for n, v in os.environ.items() if not n.startswith("MAKE")}
    done = subprocess.run(
        ["make", "-n", "test-minimum", "PYTHON=python3", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert want in done.stdout
    installs = [line for line in done.stdout.splitlines() if " install " in line]
    assert installs and all(".venv-minimum/bin" in line for line in installs)
    assert all("--constraint constraints/minimum.txt" in line for line in installs)
    assert ".venv-minimum/bin/python -m pytest" in done.stdout
