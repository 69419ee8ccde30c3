"""What a word of the command line may be: paths, counts, shares, sizes; else a usage error."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any

ANSWERS = (".csv", ".tsv", ".txt", ".parquet", ".pq")


class NothingWritten(argparse.Action):
    """A switch with which a command writes no file, so that none need be named."""

    def __init__(self, option_strings: Any, dest: str, **options: Any):
        super().__init__(option_strings, dest, nargs=0, default=False, **options)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """Set the switch, and ask for no output."""
        setattr(namespace, self.dest, True)
        for action in parser._actions:
            if action.dest == "output":
                action.required = False


def model_path(text: str) -> str:
    """Return the path of a model, never standard output."""
    if text == "-":
        raise argparse.ArgumentTypeError(
            "a model goes to a file, stdout is for the report; give a path such as model.mercer"
        )
    return text


def answer_path(text: str) -> str | None:
    """Return the path of a table to write, None for standard output."""
    if text == "-":
        return None
    ending = os.path.splitext(text)[1].lower()
    if ending and ending not in ANSWERS:
        raise argparse.ArgumentTypeError(
            f"{text!r}: cannot write {ending} files; the name may end in {', '.join(ANSWERS)}"
        )
    return text


def alpha(text: str) -> float | str:
    """Return a penalty, or "loo"."""
    if text == "loo":
        return text
    value = number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number > 0 nor loo")
    return value


def price(text: str) -> float | str:
    """Return a price C, or "tune"."""
    if text == "tune":
        return text
    value = number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number > 0 nor tune")
    return value


def fraction(text: str) -> float:
    """Return a share in [0, 1)."""
    value = number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not in [0, 1)")
    return value


def number(text: str) -> float:
    """Return a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def count(text: str) -> int:
    """Return a whole number of two or more."""
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 2 or more")
    return int(text)


def positive(text: str) -> float:
    """Return a number above 0."""
    value = number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number > 0")
    return value


def probability(text: str) -> float:
    """Return a probability in (0, 1]."""
    value = number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not in (0, 1]")
    return value


def whole(text: str) -> int:
    """Return a whole number of one or more."""
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def natural(text: str) -> int:
    """Return a whole number of zero or more."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def seed(text: str) -> int:
    """Return a seed."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^32 - 1")
    return int(text)


def memory(text: str) -> str:
    """Return a size of memory as it was written."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?\s*[KMGTkmgt]?[iI]?[bB]?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500MB or 2GB")
    return text
