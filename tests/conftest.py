"""What tests share: randomness, torch where installed, and a last resort against hanging."""

from __future__ import annotations

import faulthandler
import sys

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def torch():
    """torch on one thread (the machine is shared by test workers), or a skip that says so."""
    module = pytest.importorskip("torch", reason="torch is not installed")
    module.set_num_threads(1)
    return module


@pytest.fixture(autouse=True)
def _hang_guard():
    """A test that takes five minutes hangs: print where, and end the process."""
    faulthandler.dump_traceback_later(300, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()
