"""Names of the columns of counts: the substrings and words that kernels count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.kernels import Constant, Normalized, OnColumns, Product, SetKernel, Sum, Warped
from mercer.kernels.counted import Counted, Naming

__all__ = ["names_of_counts"]


def names_of_counts(kernel: Any, vocabulary: list[np.ndarray]) -> list[str] | None:
    """Return a name for every column, or None where some part cannot be named.

    Parameters
    ----------
    kernel : Kernel
        The kernel, words resolved.
    vocabulary : list of arrays of uint64
        The codes of the columns, for one kind of parts after another.
    """
    namings = list(_namings(kernel, len(vocabulary)))
    if len(namings) != len(vocabulary) or None in namings:
        return None
    pairs = zip(namings, vocabulary, strict=True)
    parts = [naming(codes) for naming, codes in pairs if naming is not None]
    names = [name for part in parts for name in part]
    if len(set(names)) < len(names):  # two kernels count the same
        names = [f"{name} ({i})" for i, part in enumerate(parts) for name in part]
    return names


def _namings(kernel: Any, most: int) -> Iterator[Naming | None]:
    """Yield how each kind of parts is named, in the order of the counts; None where it is not."""
    if isinstance(kernel, Counted):
        for i, naming in enumerate(kernel._namings()):
            if i > most:  # more than there are parts
                return
            yield naming
    elif isinstance(kernel, OnColumns):
        (inner,), columns = kernel._kernels(), kernel.get_params(deep=False)["columns"]
        for naming in _namings(inner, most):
            yield None if naming is None else _prefixed(f"{columns}: ", naming)
    elif isinstance(kernel, Normalized | Sum | Warped | SetKernel):
        for inner in kernel._kernels():
            yield from _namings(inner, most)
    elif isinstance(kernel, Product):
        for inner in kernel._kernels():
            if not isinstance(inner, Constant):
                yield from _namings(inner, most)
    else:
        yield None


def _prefixed(prefix: str, naming: Naming) -> Naming:
    return lambda codes: [prefix + name for name in naming(codes)]
