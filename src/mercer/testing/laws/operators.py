"""Laws of operators: whatever they know about a matrix must be true of the matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import kernels as mk, operators as mo
from mercer.engines import small_tiles
from mercer.errors import InvalidInput
from mercer.operators import Operator
from mercer.testing.checks import agree, obey, require, told


def operator_examples(rng: Any = 0) -> list[tuple[str, Operator]]:
    """Return several (name, operator) for each public operator class.

    Examples
    --------
    >>> from mercer.testing import operator_examples
    >>> dict(operator_examples())["Gram"].symmetric
    True
    """
    rng = np.random.default_rng(rng)
    X, Y = rng.standard_normal((13, 3)), rng.standard_normal((7, 3))
    B = rng.standard_normal((13, 7))
    K = mk.RBF()(X)
    F = rng.standard_normal((13, 4))
    noisy = 0.5 * mk.RBF() + mk.White(0.2)
    return [
        ("Dense", mo.Dense(B)),
        ("Dense-symmetric", mo.Dense(K, psd=True)),
        ("Dense-float32", mo.Dense(B.astype(np.float32))),
        ("Dense-integers", mo.Dense(np.arange(6).reshape(2, 3))),
        ("Gram", mo.Gram(mk.RBF(2.0), X)),
        ("Gram-lazy", mo.Gram(mk.RBF(2.0), X, keep=False)),
        ("Gram-noise", mo.Gram(noisy, X, keep=False)),
        ("Gram-noise-kept", mo.Gram(noisy, X, keep=True)),
        ("Gram-pair", mo.Gram(mk.Matern(), X, Y)),
        ("Gram-pair-lazy", mo.Gram(mk.Matern(), X, Y, keep=False)),
        ("Gram-float32", mo.Gram(mk.RBF(), X.astype(np.float32), keep=False)),
        ("Gram-words", mo.Gram(mk.RBF("median"), X)),
        ("Gram-precomputed", mo.Gram("precomputed", K)),
        ("Gram-objects", mo.Gram(lambda a, b: float(len(a) * len(b)), ["a", "bb", ""], keep=False)),
        ("Sum", mo.Sum(mo.Gram(mk.RBF(), X, keep=False), mo.Diagonal(rng.uniform(size=13)))),
        ("Sum-plain", mo.Sum(B, B)),
        ("Scaled", mo.Scaled(mo.Gram(mk.Linear(), X), 2.5)),
        ("Scaled-negative", mo.Scaled(mo.Dense(K, psd=True), -1.0)),
        ("Scaled-pair", 0.5 * mo.Dense(B)),
        ("Diagonal", mo.Diagonal(rng.uniform(size=5))),
        ("Diagonal-negative", mo.Diagonal([1.0, -2.0])),
        ("LowRank", mo.LowRank(F)),
        ("LowRank-float32", mo.LowRank(F.astype(np.float32))),
        ("Centered", mo.Centered(mo.Gram(mk.RBF(), X, keep=False))),
        ("Centered-dense", mo.Centered(K)),
        ("Transposed", mo.Dense(B).T),
        ("Transposed-Gram", mo.Gram(mk.RBF(), X, Y, keep=False).T),
    ]


def _tolerance(A: Operator) -> float:
    return 2e-5 if A.dtype == np.float32 else 1e-12


def law_shape(A: Operator, rng: np.random.Generator) -> None:
    """The matrix written out has the shape and type that were announced."""
    D = A.to_dense()
    require(D.shape == A.shape, f"{A!r}: to_dense has shape {D.shape}")
    require(D.dtype == A.dtype, f"{A!r}: to_dense has dtype {D.dtype}, announced {A.dtype}")
    require(repr(A), f"{type(A).__name__}: empty repr")


def law_matmul(A: Operator, rng: np.random.Generator) -> None:
    """A V is the matrix times V, for a vector, for columns, for none, and in tiles."""
    D = A.to_dense()
    for shape in ((A.shape[1],), (A.shape[1], 3), (A.shape[1], 1), (A.shape[1], 0)):
        V = rng.standard_normal(shape)
        V.setflags(write=False)
        agree(A @ V, D @ V, _tolerance(A), f"{A!r} @ {shape}")
        with small_tiles(16):
            agree(A.matmul(V), D @ V, _tolerance(A), f"{A!r} @ {shape} in tiles")


def law_block(A: Operator, rng: np.random.Generator) -> None:
    """Blocks and rows are those of the matrix, for slices, positions, negative ones and masks."""
    D = A.to_dense()
    n, m = A.shape
    mask = np.arange(n) % 2 == 0
    choices = [
        (slice(1, n), slice(0, m - 1)),
        (slice(None), [0, m - 1, 0]),
        (np.array([n - 1, 0, 0]), slice(None, None, 2)),
        ([-1, 0], [-1, -2]),
        (mask, slice(None)),
        (slice(0, 0), slice(None)),
        (np.zeros(0, dtype=int), np.arange(m)),
        (np.arange(n), np.arange(m)[::-1]),
    ]
    for rows, cols in choices:
        expected = D[rows][:, cols]
        agree(A.block(rows, cols), expected, _tolerance(A), f"{A!r}: block({rows}, {cols})")
    for rows in (slice(0, 1), [n - 1, 0], mask):
        agree(A.rows(rows), D[rows], _tolerance(A), f"{A!r}: rows({rows})")


def law_diagonal(A: Operator, rng: np.random.Generator) -> None:
    """diagonal() is the diagonal, and a copy of it."""
    D = A.to_dense().copy()
    d = A.diagonal()
    agree(d, np.diagonal(D), _tolerance(A), f"{A!r}: diagonal")
    if d.flags.writeable:
        d[...] = 7
        agree(A.to_dense(), D, 0, f"{A!r}: writing to diagonal() changed it", bitwise=True)


def law_transpose(A: Operator, rng: np.random.Generator) -> None:
    """Aᵀ is the transpose in every respect, and (Aᵀ)ᵀ is A."""
    D, T = A.to_dense(), A.T
    require(T.shape == A.shape[::-1], f"{A!r}: T has shape {T.shape}")
    agree(T.to_dense(), D.T, _tolerance(A), f"{A!r}: T.to_dense()")
    V = rng.standard_normal((A.shape[0], 2))
    agree(T @ V, D.T @ V, _tolerance(A), f"{A!r}: T @ V")
    agree(T.T.to_dense(), D, _tolerance(A), f"{A!r}: T.T.to_dense()")


def law_facts(A: Operator, rng: np.random.Generator) -> None:
    """An operator that says symmetric or psd is."""
    D = A.to_dense().astype(float)
    if A.symmetric:
        agree(D, D.T, _tolerance(A), f"{A!r}: says symmetric")
        require(A.T.symmetric, f"{A!r}: its transpose is not")
    if A.psd:
        require(A.symmetric, f"{A!r}: psd but not symmetric")
        values = np.linalg.eigvalsh(D)
        low = -max(1e-10, _tolerance(A)) * abs(values).max(initial=0.0)
        require(values.min(initial=0.0) >= low, f"{A!r}: says psd, smallest is {values.min()}")


def law_algebra(A: Operator, rng: np.random.Generator) -> None:
    """A + A and 2·A are what they say, and know as much."""
    D = A.to_dense()
    twice = A + A
    agree(twice.to_dense(), D + D, _tolerance(A), f"{A!r}: A + A")
    agree((A * 2.0).to_dense(), 2 * D, _tolerance(A), f"{A!r}: A * 2")
    agree((2.0 * A).to_dense(), 2 * D, _tolerance(A), f"{A!r}: 2 * A")
    require(twice.symmetric == A.symmetric and twice.psd == A.psd, f"{A!r}: facts of A + A")


def law_refusals(A: Operator, rng: np.random.Generator) -> None:
    """Wrong sizes and positions are refused as `InvalidInput`, not by an accident further in."""
    n, m = A.shape
    for what, call in (
        ("a longer vector", lambda: A @ np.ones(m + 1)),
        ("twice as many rows", lambda: A @ np.ones(2 * m)),
        ("three dimensions", lambda: A @ np.ones((m, 2, 2))),
        ("a row too far", lambda: A.rows([n])),
        ("a row too far back", lambda: A.rows([-n - 1])),
        ("fractional positions", lambda: A.block([0.5], [0])),
        ("a short mask", lambda: A.rows(np.ones(n + 1, dtype=bool))),
    ):
        try:
            call()
        except InvalidInput:
            continue
        raise AssertionError(f"{A!r}: accepted {what}")


_LAWS = (
    law_shape,
    law_matmul,
    law_block,
    law_diagonal,
    law_transpose,
    law_facts,
    law_algebra,
    law_refusals,
)


def operator_laws() -> list[tuple[str, Callable[..., None]]]:
    """Return (name, function) for each law; ``function(operator, rng=0)`` raises if broken."""
    return told(_LAWS, lambda law, operator, rng=0: law(operator, np.random.default_rng(rng)))


def check_operator_laws(operator: Operator, rng: Any = 0) -> None:
    """Raise AssertionError, naming the law, unless an operator obeys every law.

    Parameters
    ----------
    operator : Operator
        The operator, small enough to be written out.
    rng : Generator or int, default=0
        Source of randomness.

    Examples
    --------
    >>> from mercer.operators import Diagonal
    >>> from mercer.testing import check_operator_laws
    >>> check_operator_laws(Diagonal([1.0, 2.0]))
    """
    obey(operator_laws(), operator, rng)
