"""What tests share: randomness, torch where installed, and a last resort against hanging."""

from __future__ import annotations

import faulthandler
import gc
import sys
import time

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

from tests.net.messages import Messages


def pytest_configure(config):
    """Look up what errors say in tests/net/messages.txt."""
    config.pluginmanager.register(Messages.from_environment(), "mercer-messages")
    config.pluginmanager.register(_HangGuard(), "mercer-hang-guard")


def pytest_collection_finish():
    """Tests live as long as the process: the garbage collector need not look at them again."""
    gc.freeze()


def pytest_sessionfinish():
    gc.unfreeze()  # or what is left of compiled modules is told as a leak
    faulthandler.cancel_dump_traceback_later()


class _HangGuard:
    """A test that takes five minutes hangs: print where, and end the process.

    The guard is wound up by the first test of every half minute: to start and end its thread
    takes longer than many a test.
    """

    wound_up = -60.0

    def pytest_runtest_setup(self):
        now = time.monotonic()
        if now > self.wound_up + 30:
            faulthandler.dump_traceback_later(330, exit=True, file=sys.__stderr__)
            self.wound_up = now


def pytest_runtest_protocol(item, nextitem):
    """A test that passes in a worker sends one report, for what a message costs, not five."""
    if not hasattr(item.config, "workerinput"):
        return None
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    passed = all(report.passed for report in reports)
    for report in reports:
        if report.when == "call" or not passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def torch():
    """torch on one thread (the machine is shared by test workers), or a skip that says so."""
    module = pytest.importorskip("torch", reason="torch is not installed")
    module.set_num_threads(1)
    return module


@pytest.fixture
def iterations(monkeypatch):
    """Let Falkon iterate where it would add up KᵀWK in one pass."""
    from mercer.solvers.falkon import normal

    monkeypatch.setattr(normal, "SQUARED", 0)
    monkeypatch.setattr(normal, "AGAIN", 0)
