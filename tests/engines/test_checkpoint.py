"""Checkpoints: whole or not at all, refused where foreign, kept when the disk is full."""

import errno
import os
import time

import numpy as np
import pytest

from mercer.engines import checkpoint as module
from mercer.engines.checkpoint import Checkpoint, fingerprint
from mercer.errors import InvalidInput

STATE = {
    "x": np.arange(6.0).reshape(3, 2),
    "live": np.array([True, False]),
    "at": np.arange(3),
    "empty": np.zeros((0, 2)),
    "single": np.float32([1.5]),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "step": 3,
    "best": np.float64(0.1),
    "worst": float("inf"),
    "gap": float("nan"),
    "name": "falkon",
    "none": None,
    "done": False,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


def test_states_come_back_to_the_bit(path):
    Checkpoint(path, "k").save(STATE)
    found = Checkpoint(path, "k").load()
    assert list(found) == list(STATE)
    for name, value in STATE.items():
        np.testing.assert_array_equal(found[name], value)
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype and found[name].flags.writeable
    assert os.listdir(path.parent) == [path.name]


def test_nothing_is_there_before_the_first_state(path):
    assert Checkpoint(path, "k").load() is None
    assert Checkpoint(path, "k").partial("t") is None
    assert not path.exists()


def test_the_last_state_stays(path):
    file = Checkpoint(path, "k")
    for step in range(5):
        file.save({"step": step})
    assert Checkpoint(path, "k").load() == {"step": 4}


def test_partial_sums_belong_to_their_pass(path):
    file = Checkpoint(path, "k")
    file.save({"step": 1})
    file.save_partial("one", {"rows": 10, "out": np.ones(2)})
    file.save_partial("two", {"rows": 20})
    again = Checkpoint(path, "k")
    assert again.load() == {"step": 1}
    assert again.partial("one")["rows"] == 10 and again.partial("three") is None
    again.save_partial("three", {"rows": 30})  # the oldest goes
    again.save({"step": 2})  # passes under way stay
    last = Checkpoint(path, "k")
    assert last.partial("one") is None and last.partial("two") == {"rows": 20}
    last.drop_partial("two")
    last.save({"step": 3})
    assert Checkpoint(path, "k").partial("two") is None
    assert Checkpoint(path, "k").partial("three") == {"rows": 30}


def test_it_is_due_after_a_while_and_kept_states_are_written_then(path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    file = Checkpoint(path, "k")
    assert not file.due()
    file.keep({"step": 1})
    assert not path.exists()
    now[0] += 31
    assert file.due()
    file.save_partial("t", {"rows": 5})  # in the middle of a pass: with the newest state
    assert Checkpoint(path, "k").load() == {"step": 1}
    now[0] += 31
    file.keep({"step": 2})
    assert Checkpoint(path, "k").load() == {"step": 2}


def test_a_slow_disk_is_asked_less_often(path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    real = module.replace_file

    def slow(*args):
        now[0] += 10
        real(*args)

    monkeypatch.setattr(module, "replace_file", slow)
    file = Checkpoint(path, "k")
    file.save({"step": 1})
    now[0] += 100
    assert not file.due()
    now[0] += 101
    assert file.due()


@pytest.mark.parametrize("content", [b"", b"MERCER\0\1 a model", b"some text of the user" * 9])
def test_foreign_files_are_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="is no checkpoint"):
        Checkpoint(path, "k")
    assert path.read_bytes() == content


def test_every_truncation_and_every_changed_byte_is_refused(path):
    Checkpoint(path, "k").save({"x": np.arange(3.0), "step": 1})
    whole = path.read_bytes()
    for end in range(8, len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(InvalidInput, match="damaged or truncated"):
            Checkpoint(path, "k")
    for at in range(8, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(InvalidInput, match="damaged or truncated"):
            Checkpoint(path, "k")
    path.write_bytes(whole + b"x")
    with pytest.raises(InvalidInput, match="damaged"):
        Checkpoint(path, "k")


def test_another_problem_is_refused_before_any_work(path):
    Checkpoint(path, "one").save({"step": 1})
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"another problem.*delete the file"):
        Checkpoint(path, "two")
    assert path.read_bytes() == before


KEY = {"alpha": 1.0, "kernel": "RBF(2)", "centers": [1.0, 1e-9], "data": ["abc"]}


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"alpha": 2.0}, r"written with alpha=1.0, and this fit has alpha=2.0; delete"),
        (
            {"kernel": "RBF(3)", "data": ["x"]},
            r"kernel=RBF\(2\), and this fit has kernel=RBF\(3\);",
        ),
        ({"data": ["abd"]}, "another problem: its data are others; delete"),
        ({"centers": [1.0, 1e-4]}, "its centers are others"),
        ({"centers": [1.0]}, "its centers are others"),
        ({"tol": 0.1}, "tol=None, and this fit has tol=0.1"),
    ],
)
def test_what_differs_is_named(path, changed, words):
    Checkpoint(path, KEY).save({"step": 1})
    with pytest.raises(InvalidInput, match=words):
        Checkpoint(path, {**KEY, **changed})


def test_numbers_in_lists_may_be_rounded(path):
    Checkpoint(path, KEY).save({"step": 1})
    assert Checkpoint(path, {**KEY, "centers": [1.0 + 1e-7, 0.0]}).load() == {"step": 1}


def test_paths_that_cannot_be_written(tmp_path):
    with pytest.raises(InvalidInput, match="does not exist"):
        Checkpoint(tmp_path / "no" / "c", "k")
    with pytest.raises(InvalidInput, match="no file"):
        Checkpoint(tmp_path, "k")
    with pytest.raises(InvalidInput, match="path is a int"):
        Checkpoint(3, "k")


def test_what_is_no_number_is_refused(path):
    with pytest.raises(InvalidInput, match="keep numbers only"):
        Checkpoint(path, "k").save({"x": np.array(["a"])})


def test_a_full_disk_costs_a_warning_and_nothing_else(path, monkeypatch, recwarn):
    file = Checkpoint(path, "k")
    file.save({"step": 1})
    real = os.fsync

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for step in (2, 3):
        file.save({"step": step})
    assert len(recwarn) == 1 and "No space left" in str(recwarn[0].message)
    assert Checkpoint(path, "k").load() == {"step": 1}
    assert os.listdir(path.parent) == [path.name]
    monkeypatch.setattr(os, "fsync", real)
    file.save({"step": 4})
    assert Checkpoint(path, "k").load() == {"step": 4}


def test_fingerprints_see_content_type_and_order():
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Step:
        width: int
        shift: object = None

    a = np.arange(4.0)
    different = [
        (a,), (a.astype(np.float32),), (a.reshape(2, 2),), (a[::-1],), (a, a), ([a, a],), (1,),
        (1.0,), (True,), ("1",), (None,), (), (Step(1),), (Step(2),), (Step(1, a),),
        (Step(1, a + 1),), ({"a": 1},), ({"a": 2},), ({"b": 1},),
    ]  # fmt: skip
    assert len({fingerprint(*things) for things in different}) == len(different)
    assert fingerprint(a[::2]) == fingerprint(a[::2].copy())
    assert fingerprint(Step(1, a)) == fingerprint(Step(1, a.copy()))
