"""Progress speaks only when work takes long, and leaves no trace in what is printed."""

import io
import os
import select
import sys
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


def test_a_log_is_never_silent_for_long(impatient, monkeypatch):
    monkeypatch.setattr(mercer.cli.program, "_PERIOD", {True: 0.02, False: 0.1})
    lines = work(io.StringIO(), 0.5).splitlines()
    assert lines and all(line.startswith("mercer: thinking, ") for line in lines)
    stream = io.StringIO()
    with Console(stream) as console:  # stages that are short, one by one
        for i in range(10):
            with console.stage(f"step {i}"):
                time.sleep(0.05)
    assert "mercer: step" in stream.getvalue()


def test_a_log_hears_of_each_long_stage_when_asked(impatient, monkeypatch):
    monkeypatch.setattr(mercer.cli.program, "_PERIOD", {True: 0.02, False: 0.1})
    monkeypatch.setattr(mercer.cli.program, "_PATIENCE", 0.0)
    monkeypatch.setattr(mercer.cli.program.time, "monotonic", lambda: 5.0)  # no time passes
    assert work(io.StringIO(), 0.3) == ""
    assert work(io.StringIO(), 0.3, verbose=True) == "mercer: thinking, 0 s\n"


def test_long_work_says_what_would_take_less(impatient, monkeypatch):
    stream = io.StringIO()
    with Console(stream) as console, console.stage("thinking", "--no-tune takes less"):
        time.sleep(0.1)
        assert "takes less" not in stream.getvalue()
        monkeypatch.setattr(mercer.cli.program, "_LONG", 0.0)
        time.sleep(0.2)
    assert "mercer: thinking, 0 s (--no-tune takes less)" in stream.getvalue()


def test_quiet_is_quiet(impatient):
    for stream in (Terminal(), io.StringIO()):
        with Console(stream, quiet=True) as console, console.stage("thinking"):
            time.sleep(0.2)
        assert stream.getvalue() == ""


def shown(text):
    """The lines of a screen after a text with carriage returns."""
    screen, column = [""], 0
    for c in text:
        if c == "\n":
            screen.append("")
            column = 0
        elif c == "\r":
            column = 0
        else:
            screen[-1] = screen[-1][:column].ljust(column) + c + screen[-1][column + 1 :]
            column += 1
    return [line.rstrip() for line in screen]


class Screen:
    """Standard output and error on one pseudo-terminal, and what came out of it."""

    def __enter__(self):
        self._master, slave = pytest.importorskip("pty").openpty()
        self._kept = sys.stdout, sys.stderr
        self._mine = os.fdopen(os.dup(slave), "w"), os.fdopen(slave, "w")
        sys.stdout, sys.stderr = self._mine
        return self

    def __exit__(self, *_):
        sys.stdout, sys.stderr = self._kept
        for stream in self._mine:
            stream.flush()
        data = b""
        while select.select([self._master], [], [], 0.05)[0]:
            data += os.read(self._master, 10**4)
        self.text = data.decode().replace("\r\n", "\n")
        for stream in self._mine:
            stream.close()
        os.close(self._master)


@pytest.mark.parametrize("inside", [False, True])
def test_nothing_of_the_progress_is_left_in_the_report(impatient, inside):
    with Screen() as screen, Console(sys.stderr) as console:
        with console.stage("looking where the tables differ"):
            time.sleep(0.2)
            if inside:
                console.say("A    h1.csv\nB    h2.csv")
                time.sleep(0.1)
                console.answer(b"1,2\n3,4\n")
        if not inside:
            console.say("A    h1.csv\nB    h2.csv")
            console.answer(b"1,2\n3,4\n")
    assert "mercer: looking where the tables differ," in screen.text
    assert shown(screen.text) == ["A    h1.csv", "B    h2.csv", "1,2", "3,4", ""]


def test_a_long_progress_line_does_not_wrap(impatient):
    long = "reading " + "very_" * 60 + "\x1b[2Jlong"
    with Screen() as screen, Console(sys.stderr) as console, console.stage(long):
        time.sleep(0.1)
    assert "\x1b" not in screen.text and shown(screen.text) == [""]
    assert 40 < max(map(len, screen.text.split("\r"))) < 80


def test_short_work_is_silent():
    assert work(Terminal(), 0.05) == ""


def test_messages_are_one_printable_line():
    stream = io.StringIO()
    Console(stream).error("bad\n  cell \x1b]0;title\x07 \u202e here")
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().rstrip("\n").isprintable()
