"""What the command line says on stderr: errors, warnings, notes, progress of long work."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TextIO

from mercer.cli.arguments import build_parser

_PATIENCE = 2.0  # seconds before progress is shown on a terminal, or in a log with --verbose
_LONG = 20.0  # seconds after which it is said what would take less
_PERIOD = {True: 0.5, False: 10.0}  # seconds between reports, on a terminal or in a log


class Console:
    """One-line messages on a stream, and a clock that speaks when a stage takes long.

    On a terminal the progress is one line that is drawn anew, and erased before anything else is
    written, here or on standard output. In a log it is a line wherever ten seconds were silent.
    """

    def __init__(self, stream: TextIO, verbose: bool = False, quiet: bool = False):
        self._stream = stream
        self._terminal = bool(getattr(stream, "isatty", lambda: False)())
        self._verbose, self._quiet = verbose, quiet
        self._lock = threading.Lock()
        self._stage: tuple[str, float, str] | None = None
        self._announced: tuple[str, float, str] | None = None  # the stage of the last line in a log
        self._spoke = time.monotonic()
        self._drawn = 0
        self._done = threading.Event()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> Console:
        if not self._quiet:
            self._clock = threading.Thread(target=self._tick, daemon=True)
            self._clock.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        if self._clock is not None:
            self._clock.join()
        with self._lock:
            self._erase()

    @contextmanager
    def stage(self, what: str, shorter: str = "") -> Iterator[None]:
        """Name the work that is under way, for the progress line, and what would take less."""
        with self._lock:
            before, self._stage = self._stage, (what, time.monotonic(), shorter)
        try:
            yield
        finally:
            with self._lock:
                self._stage = before
                self._erase()

    def say(self, text: str) -> None:
        """Print a report on stdout; what its encoding lacks becomes a question mark."""
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        with self._lock:
            self._erase()
            print(text.encode(encoding, "replace").decode(encoding), flush=True)

    def answer(self, piece: bytes) -> None:
        """Write lines of an answer to stdout: the same bytes as in a file, whatever the locale."""
        if sys.stdout is None:
            return
        with self._lock:
            self._erase()
            sys.stdout.flush()
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()

    def error(self, message: str) -> None:
        """Say in one line why the command failed."""
        self._write(f"mercer: error: {message}")

    def warn(self, message: str) -> None:
        """Say something the user should know although the work goes on."""
        self._write(f"mercer: warning: {message}")

    def note(self, message: str) -> None:
        """Say something in passing."""
        self._write(f"mercer: {message}")

    def showwarning(self, message: Any, *_: Any, **__: Any) -> None:
        """Stand in for `warnings.showwarning`."""
        self.warn(str(message))

    def _write(self, text: str) -> None:
        with self._lock:
            self._erase()
            self._put(_one_line(text) + "\n")

    def _put(self, text: str) -> None:
        """Write to the stream; where nobody listens the work goes on."""
        with contextlib.suppress(BrokenPipeError):
            try:
                self._stream.write(text)
            except UnicodeEncodeError:  # a terminal that is not UTF-8
                self._stream.write(text.encode("ascii", "backslashreplace").decode())
            self._stream.flush()
        self._spoke = time.monotonic()

    def _tick(self) -> None:
        while not self._done.wait(min(_PERIOD[self._terminal], 1.0)):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if self._stage is None:
            return
        now = time.monotonic()
        what, start, shorter = self._stage
        hint = f" ({shorter})" if shorter and now - start >= _LONG else ""
        line = _one_line(f"mercer: {what}, {now - start:.0f} s{hint}")
        if self._terminal:
            if now - start >= _PATIENCE:
                line = line[: self._width()]
                self._put("\r" + line.ljust(self._drawn))
                self._drawn = len(line)
            return
        silent = now - self._spoke >= _PERIOD[False]
        news = self._verbose and self._announced != self._stage and now - start >= _PATIENCE
        if silent or news:
            self._put(line + "\n")
            self._announced = self._stage

    def _width(self) -> int:
        """Return the characters that fit into a line of the terminal: one that wraps stays."""
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns
        except (AttributeError, OSError, ValueError):
            columns = 0
        return (columns or 80) - 1

    def _erase(self) -> None:
        if self._drawn:
            self._put("\r" + " " * self._drawn + "\r")
            self._drawn = 0


def _one_line(text: str) -> str:
    """Return a message, which may quote a cell or a path, as one line that no terminal obeys."""
    line = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return line.encode("utf-8", "replace").decode()


# ---- One call of the command line: arguments in, exit code out, errors as one line on stderr ----


_SHARED = {"embed": "cluster", "info": "predict"}  # commands without a file of their own
_OK, _FAILED, _USAGE, _INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process when not given.

    Returns
    -------
    int
        0 when done, 1 when the data or the model stood in the way, 2 for wrong usage, 3 when a
        p-value is below ``--fail-under``, 130 after Ctrl-C.
    """
    parser = build_parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:  # argparse has printed help or the usage error
        return stop.code if isinstance(stop.code, int) else _FAILED
    console = Console(sys.stderr, arguments.verbose, arguments.quiet)
    try:
        # numpy and scikit-learn are imported here, after the arguments proved to be right
        command = _loaded(arguments.command, own=argv is None)
        with warnings.catch_warnings(), console:
            warnings.simplefilter("default")
            warnings.showwarning = console.showwarning
            code = command.run(arguments, console)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt as stop:
        console.note("; ".join(["interrupted", *getattr(stop, "__notes__", [])]))
        if argv is None:
            _leave_at_once()
        return _INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough: the work is done
        _abandon_stdout()
        return _OK
    except Exception as error:
        if arguments.debug:
            raise
        console.error(_explain(error, arguments))
        if _is_usage(error):
            return _USAGE
        if isinstance(error, OSError) and error.filename is None:
            _abandon_stdout()
        return _FAILED
    return code or _OK


def _loaded(command: str, own: bool) -> Any:
    """Return the module of a command.

    What is loaded stays: the collector of cycles rests meanwhile, and in a process of our `own` it
    never looks at that again.
    """
    from mercer.threads import without_collections

    with without_collections():
        module = import_module(f"mercer.cli.{_SHARED.get(command, command)}")
        if own:
            gc.freeze()
    return module


def _leave_at_once() -> None:
    """End the process, if a library still computes that the interpreter would wait for."""
    threads = sys.modules.get("mercer.threads")
    if threads is not None and threads.left_behind():
        os._exit(_INTERRUPTED)


def _is_usage(error: Exception) -> bool:
    from mercer.cli.files import UsageError

    return isinstance(error, UsageError)


def _abandon_stdout() -> None:
    """Keep the interpreter from flushing, at exit, into an output that takes nothing more."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: Exception, arguments: object) -> str:
    from mercer.errors import MemoryBudgetExceeded, MercerError

    if isinstance(error, MemoryBudgetExceeded):
        cure = "--max-rows or --memory" if hasattr(arguments, "max_rows") else "--memory"
        return f"{error} On the command line: {cure}."
    if isinstance(error, MercerError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    if isinstance(error, MemoryError):
        return "out of memory; try fewer rows with --max-rows"
    return f"unexpected {type(error).__name__}: {error} (--debug shows where)"
