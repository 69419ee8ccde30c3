"""Alphabets: the letters a string kernel knows, given or taken from data, and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.strings import StringCollection
from mercer.errors import InvalidInput

__all__ = [
    "check_alphabet",
    "kept",
    "letters_of",
    "numbered",
    "split",
    "with_letters_of",
    "words_of",
]

LARGEST = 2**31 - 1  # columns that sparse features may have


def kept(values: Any) -> Any:
    """Return a sequence as a tuple, which nobody can change, and all else as it is."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return tuple(values.tolist())
    return tuple(values) if isinstance(values, list | range) else values


def check_alphabet(owner: str, alphabet: Any, *, empty: bool = False) -> Any:
    """Return None, text, bytes, or a tuple of single letters, all different; refuse all else."""
    if alphabet is None:
        return None
    alphabet = kept(alphabet)
    codes, _ = _codes(owner, alphabet)
    if not len(codes) and not empty:
        raise _wrong(owner, alphabet)
    if len(np.unique(codes)) < len(codes):
        raise InvalidInput(
            f"{owner}: alphabet={alphabet!r} names a letter twice; give every letter once."
        )
    return alphabet


def letters_of(X: StringCollection) -> str | bytes:
    """Return the letters that occur, sorted: text, or bytes where the strings are bytes."""
    codes = np.unique(X.codes)
    if X.kind == "bytes":
        return codes.astype(np.uint8).tobytes()
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


def with_letters_of(owner: str, alphabet: Any, X: StringCollection) -> Any:
    """Return an alphabet, followed by the letters of X that it lacks, sorted."""
    foreign = X.codes[numbered(owner, alphabet, X) == len(alphabet)]
    if not len(foreign):
        return alphabet
    more = letters_of(StringCollection(foreign, np.array([0, len(foreign)]), X.kind))
    return alphabet + more if _is_text(alphabet) else (*alphabet, *split(more))


def numbered(owner: str, alphabet: Any, X: StringCollection) -> np.ndarray:
    """Return the place of every letter in the alphabet; its size for a letter outside it."""
    codes, kind = _codes(owner, alphabet)
    if kind != X.kind and len(codes) and len(X.codes):
        raise InvalidInput(
            f"{owner}: the alphabet is {kind} and the strings are {X.kind}; give both as one, for "
            "example the alphabet 'ACGT' for text and b'ACGT' for bytes."
        )
    beyond = int(codes.max(initial=0)) + 1
    table = np.full(beyond + 1, len(codes), dtype=np.int64)
    table[codes] = np.arange(len(codes))
    return table[np.minimum(X.codes, beyond)]


def words_of(alphabet: Any, length: int) -> int | None:
    """Return how many words of a length there are, or None when more than columns can be."""
    size = len(alphabet)
    if size > 1 and length > 31:
        return None
    count = size**length
    return count if count <= LARGEST else None


def _codes(owner: str, alphabet: Any) -> tuple[np.ndarray, str]:
    if isinstance(alphabet, tuple):
        letters = list(alphabet)
    else:
        letters = split(alphabet) if _is_text(alphabet) else []
        if not _is_text(alphabet):
            raise _wrong(owner, alphabet)
    kind = bytes if letters and isinstance(letters[0], bytes) else str
    kind = bytes if isinstance(alphabet, bytes) else kind
    if not all(isinstance(letter, kind) and len(letter) == 1 for letter in letters):
        raise _wrong(owner, alphabet)
    codes = np.array([ord(letter) for letter in letters], dtype=np.int64)
    return codes, kind.__name__


def split(letters: Any) -> list:
    """Return the letters of text, of bytes or of a sequence one by one."""
    return [letters[i : i + 1] for i in range(len(letters))] if _is_text(letters) else list(letters)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | bytes)


def _wrong(owner: str, alphabet: Any) -> InvalidInput:
    return InvalidInput(
        f"{owner}: alphabet={alphabet!r}; give the letters as text such as 'ACGT', as bytes such "
        "as b'ACGT', as a list of single letters, or None to take them from the data."
    )
