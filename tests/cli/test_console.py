"""Progress speaks only when work takes long and somebody listens."""

import io
import time

import pytest

import mercer.cli.program
from mercer.cli.program import Console


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(mercer.cli.program, "_PATIENCE", 0.05)
    monkeypatch.setattr(mercer.cli.program, "_PERIOD", {True: 0.02, False: 0.02})


def work(stream, seconds, verbose=False):
    with Console(stream, verbose=verbose) as console, console.stage("thinking"):
        time.sleep(seconds)
    return stream.getvalue()


def test_terminal_sees_progress_and_then_a_clean_line(impatient):
    text = work(Terminal(), 0.3)
    assert "mercer: thinking, 0 s" in text
    assert text.endswith("\r")
    assert "\n" not in text


def test_log_sees_progress_only_when_asked(impatient):
    assert work(io.StringIO(), 0.3) == ""
    assert "mercer: thinking" in work(io.StringIO(), 1.3, verbose=True)


def test_short_work_is_silent():
    assert work(Terminal(), 0.05) == ""


def test_messages_are_one_printable_line():
    stream = io.StringIO()
    Console(stream).error("bad\n  cell \x1b]0;title\x07 \u202e here")
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().rstrip("\n").isprintable()
