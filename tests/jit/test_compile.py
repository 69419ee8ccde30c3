"""Compiled code on disk that is damaged or cannot be kept; Ctrl-C while something is compiled."""

from __future__ import annotations

import gc
import importlib.util
import os
import pickle
import signal
import sys
import warnings

import numpy as np
import pytest

from mercer.jit.compile import ForgivingCache, compiled
from mercer.threads import without_collections

SOURCE = "def twice(x):\n    return 2 * x\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with a module, and the files of its compiled function."""
    (tmp_path / "some.py").write_text(SOURCE)
    call(tmp_path)
    assert len(files(tmp_path, "nbi")) == len(files(tmp_path, "nbc")) == 1
    return tmp_path


def files(folder, ending):
    return list((folder / "__pycache__").glob(f"*.{ending}"))


def made(folder):
    """The function as a new process would have it."""
    spec = importlib.util.spec_from_file_location("some", folder / "some.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["some"] = module  # where what was compiled looks for it
    spec.loader.exec_module(module)
    return compiled(module.twice)


def call(folder):
    function = made(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(21.0) == 42.0
    return sum(function.stats.cache_hits.values())


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:1],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: b"nonsense",
        lambda data: b"\x00" * len(data),
        lambda data: pickle.dumps(("0.0.1", "of another version")),
        lambda data: pickle.dumps(3) + b"more",
    ],
)
def test_a_damaged_file_is_replaced(folder, ending, damage):
    assert call(folder) == 1
    (file,) = files(folder, ending)
    file.write_bytes(damage(file.read_bytes()))
    assert call(folder) == 0  # compiled, without a word
    assert call(folder) == 1  # and kept


def test_a_damaged_file_that_cannot_be_replaced_is_named(folder, monkeypatch):
    (file,) = files(folder, "nbi")
    file.write_bytes(b"")
    function = made(folder)
    monkeypatch.setattr(ForgivingCache, "flush", refuse)
    with pytest.warns(UserWarning, match=r"some\.twice.*nbi.*EOFError.*remove the file"):
        assert function(1.0) == 2.0
    assert function(3) == 6  # one warning is enough


def refuse(self, *args):
    raise PermissionError(13, "Permission denied")


def test_code_that_cannot_be_kept_is_no_error(folder, monkeypatch):
    for file in files(folder, "nb?"):
        file.unlink()
    function = made(folder)
    monkeypatch.setattr(type(function._cache._cache_file), "_save_index", refuse)
    with pytest.warns(UserWarning, match=r"__pycache__.*Permission denied.*NUMBA_CACHE_DIR"):
        assert function(1.0) == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(3) == 6
    assert not files(folder, "nb?")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent by os.kill")
def test_ctrl_c_arrives_while_something_is_compiled(folder, monkeypatch):
    function = made(folder)
    compile_, sent = function._compiler.compile, []

    def interrupted(*args):
        if not sent:
            sent.append(os.kill(os.getpid(), signal.SIGINT))
        return compile_(*args)

    monkeypatch.setattr(function._compiler, "compile", interrupted)
    x = np.arange(3.0)
    with pytest.raises(KeyboardInterrupt):
        function(x)
        function(x)  # where the thread was faster than the signal
    np.testing.assert_array_equal(function(x), [0.0, 2.0, 4.0])


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_of_cycles_is_left_as_it_was(on):
    was = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with without_collections():
            assert not gc.isenabled()
            with without_collections():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() == on
        with pytest.raises(KeyError), without_collections():
            raise KeyError
        assert gc.isenabled() == on
    finally:
        (gc.enable if was else gc.disable)()
