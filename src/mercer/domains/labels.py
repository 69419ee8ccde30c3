"""Stable codes of labels: the same 64-bit number for equal labels, in every process."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from mercer.errors import InvalidInput

LEGAL = "text, bytes, numbers, or tuples of these"
PLAIN = {str, bytes, int, float, bool, np.str_, np.int64, np.float64, np.bool_, type(None)}


def code_of(label: Any) -> int:
    """Return the code of a label: the first 64 bits of BLAKE2b of its canonical bytes.

    Labels that are equal in Python have one code: 1, 1.0, True and ``np.int64(1)``. The text "1" is
    another label.

    Examples
    --------
    >>> from mercer.domains.labels import code_of
    >>> code_of(1) == code_of(1.0), code_of(1) == code_of("1")
    (True, False)
    """
    return int.from_bytes(blake2b(_canonical(label), digest_size=8).digest(), "little")


def mixed(codes: np.ndarray) -> np.ndarray:
    """Return codes with their bits spread over all 64: the bijection that ends SplitMix64.

    Codes made of codes by sums need it, so that a sum tells which codes were added.
    """
    h = codes + np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def is_missing(label: Any) -> bool:
    """Whether a label stands for none: None, NaN, or NA of pandas."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    numbers = (float, np.floating, np.datetime64, np.timedelta64)  # NaN and NaT equal nothing
    return isinstance(label, numbers) and bool(label != label)


class LabelCodes(dict):
    """Codes by label, each computed once."""

    def __missing__(self, label: Any) -> int:
        if is_missing(label):
            raise KeyError(label)
        code = self[label] = code_of(label)
        return code

    def codes(self, labels: Sequence[Any], where: str, names: Sequence[Any]) -> list[int] | None:
        """Return a code for each label, or None when no label is given at all.

        Parameters
        ----------
        labels : sequence
            The labels; None and NaN are none.
        where : str
            Whose labels they are, for messages: "Graph".
        names : sequence
            What each label belongs to, for messages: node ids, or edges.
        """
        if not labels:
            return None
        try:
            if not PLAIN.issuperset(map(type, labels)):
                _check_legal(labels)
            return list(map(self.__getitem__, labels))
        except KeyError:
            _check_none(labels, where, names)
            return None
        except TypeError:  # a label that is not hashable: a list, an array
            i = next(i for i, label in enumerate(labels) if not is_hashable(label))
            raise InvalidInput(
                f"{where}: the label of {names[i]!r} is a {type(labels[i]).__name__}; labels are "
                f"{LEGAL}. Vectors of numbers go into mercer.Graph(attributes=...)."
            ) from None
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from None


def _check_none(labels: Sequence[Any], where: str, names: Sequence[Any]) -> None:
    """Say which label is missing, unless all are."""
    missing = [is_missing(label) for label in labels]
    if all(missing):
        return
    i, j = missing.index(True), missing.index(False)
    raise InvalidInput(
        f"{where}: {names[i]!r} has no label, while {names[j]!r} has {labels[j]!r}; label all or "
        "none, for example with 'none' where there is no label."
    )


def _check_legal(labels: Sequence[Any]) -> None:
    """Refuse what is no label, also what equals one to a dict: Decimal(1), 1 + 0j."""
    for label in labels:
        hash(label)
        if not is_missing(label):
            _canonical(label)


def is_hashable(value: Any) -> bool:
    """Whether a value may name something; a tuple with a list inside may not."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _canonical(label: Any) -> bytes:
    if isinstance(label, str):
        return b"s" + label.encode("utf-8", "surrogatepass")
    if isinstance(label, bytes):
        return b"b" + label
    if isinstance(label, bool | np.bool_ | int | np.integer):
        return b"i%d" % int(label)
    if isinstance(label, float | np.floating):
        value = float(label)
        if math.isfinite(value) and value.is_integer():
            return b"i%d" % int(value)
        return b"f" + struct.pack("<d", value)
    if isinstance(label, tuple):
        parts = [_canonical(part) for part in label]
        return b"t" + b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    raise InvalidInput(
        f"the label {label!r} is a {type(label).__name__}; labels are {LEGAL}. Convert it, for "
        "example with str(...)."
    )
