"""One call of the command line: arguments in, exit code out, errors as one line on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from mercer.cli.arguments import build_parser
from mercer.cli.console import Console

__all__ = ["main"]

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
    console = Console(sys.stderr, verbose=arguments.verbose)
    try:
        # numpy and scikit-learn are imported here, after the arguments proved to be right
        command = import_module(f"mercer.cli.{arguments.command}")
        with warnings.catch_warnings(), console:
            warnings.simplefilter("default")
            warnings.showwarning = console.showwarning
            code = command.run(arguments, console)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        console.note("interrupted")
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
