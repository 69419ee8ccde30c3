"""`make torch`: tried again after a failure, not after a success, left out when asked."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"

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
        environment = {n: v for n, v in os.environ.items() if not n.startswith("MAKE")}
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
