"""A person at a terminal is told once that loops are compiled; a pipe never is."""

import os
import subprocess
import sys

import pytest

pty = pytest.importorskip("pty")

CODE = """
import mercer.jit.compile as compile
compile.PATIENCE = 0.0
@compile.compiled
def one(x):
    return x + 1
@compile.compiled
def two(x):
    return one(x) + 1
import time
slow = compile.CPUDispatcher._compile_for_args
def waiting(*given, **named):
    time.sleep(0.3)
    return slow(*given, **named)
compile.CPUDispatcher._compile_for_args = waiting
assert two(1) == 3 and two(1.0) == 3.0
"""
LINE = b"mercer: compiles its loops"


def started(tmp_path, stderr):
    script = tmp_path / "loops.py"
    script.write_text(CODE)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "NUMBA_DISABLE_JIT": "0",
    }
    return subprocess.Popen([sys.executable, str(script)], stderr=stderr, env=env)


def test_a_terminal_is_told_once(tmp_path):
    ours, theirs = pty.openpty()
    process = started(tmp_path, theirs)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    assert process.wait() == 0, said
    assert said.count(LINE) == 1


def test_a_pipe_is_not_told(tmp_path):
    process = started(tmp_path, subprocess.PIPE)
    said = process.communicate()[1]
    assert process.returncode == 0 and said == b""
