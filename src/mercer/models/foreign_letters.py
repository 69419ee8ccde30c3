"""Strings whose letters have no column among the features: where they are, and what to do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.domains import StringCollection
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.kernels.algebra import Combination
from mercer.kernels.strings.counted import letters_of, numbered

__all__ = ["refuse_foreign_letters"]


def refuse_foreign_letters(kernel: Kernel, X: Any, owner: str) -> None:
    """Refuse the first point that holds a letter outside the alphabet of a kernel on strings.

    Parameters
    ----------
    kernel : Kernel
        A kernel, or one made of kernels, with words resolved.
    X : canonical collection
        Its points.
    owner : str
        Who asks.
    """
    every = _foreign(kernel, X)
    if every is None:
        return
    least, most = 0, kernel.domain.size(X)  # so many points have features; with one more, none
    while most - least > 1:
        middle = (least + most) // 2
        known = kernel._n_features(kernel.domain.take(X, slice(0, middle))) is not None
        least, most = (middle, most) if known else (least, middle)
    first = _foreign(kernel, kernel.domain.take(X, slice(least, most))) or every
    raise InvalidInput(
        f"{owner}: X[{least}] has the letter {first.letter!r}, at place {first.place}, for "
        f"which {first.kernel!r} has no feature: its alphabet is the one it was given, or else the "
        "letters of the first points. Begin anew with all letters that may come: "
        f"alphabet={every.alphabet!r}."
    )


class Foreign(NamedTuple):
    """A letter outside the alphabet of a kernel.

    Parameters
    ----------
    kernel : Kernel
        The part that has the alphabet.
    letter : str or bytes
        The first such letter.
    place : int
        Its place in its string.
    alphabet : str or bytes
        One that would hold all letters.
    """

    kernel: Kernel
    letter: Any
    place: int
    alphabet: Any


def _foreign(kernel: Any, X: Any) -> Foreign | None:
    """Return the first foreign letter of a part without features, None where there is none."""
    if kernel._n_features(X) is not None:
        return None
    alphabet = getattr(kernel, "alphabet", None)
    if alphabet is None or not isinstance(X, StringCollection):
        parts = kernel._inside(X) if isinstance(kernel, Combination) else []
        return next((found for k, Z in parts if (found := _foreign(k, Z))), None)
    outside = np.flatnonzero(numbered(type(kernel).__name__, alphabet, X) == len(alphabet))
    if not len(outside):
        return None
    row = int(np.searchsorted(X.offsets, outside[0], side="right")) - 1
    place = int(outside[0] - X.offsets[row])
    known = _split(alphabet)
    more = [letter for letter in _split(letters_of(X)) if letter not in known]
    whole = (b"" if X.kind == "bytes" else "").join([*known, *more])  # type: ignore[attr-defined]
    return Foreign(kernel, X[row][place : place + 1], place, whole)


def _split(letters: Any) -> list:
    text = isinstance(letters, str | bytes)
    return [letters[i : i + 1] for i in range(len(letters))] if text else list(letters)
