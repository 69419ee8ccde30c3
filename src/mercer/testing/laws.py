"""The laws that make a function a kernel, and the list of all laws a kernel must obey."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import Kernel
from mercer.testing import calculus, execution
from mercer.testing.case import Case
from mercer.testing.checks import agree, require
from mercer.testing.oracles import double_loop

__all__ = ["check_kernel_laws", "kernel_laws"]

SIZES = (1, 2, 5, 30)
WIDTHS = (1, 2, 8)
SCALES = (1e-8, 1e-3, 1.0, 1e3, 1e8)
PSD_TOLERANCE = 1e-10  # λ_min ≥ −1e-10·λ_max


def law_shape(case: Case) -> None:
    """k(X) is n × n, k(A, B) is |A| × |B|, diag has n entries; also for one point and none."""
    k, n = case.kernel, case.n
    require(k(case.X).shape == (n, n), f"{k!r}: k(X) has shape {k(case.X).shape}, not {(n, n)}")
    require(k.diag(case.X).shape == (n,), f"{k!r}: diag has shape {k.diag(case.X).shape}")
    resolved = case.resolved()
    A, B = case.pair()
    size = k.domain.size
    expected = (size(k.domain.check(A)), size(k.domain.check(B)))
    require(resolved(A, B).shape == expected, f"{k!r}: k(A, B) has another shape than {expected}")
    for count in (1,) if case.precomputed else (1, 0):
        few = case.take(np.arange(count))
        require(resolved(few).shape == (count, count), f"{k!r}: k of {count} points")
        require(resolved.diag(few).shape == (count,), f"{k!r}: diag of {count} points")


def law_symmetry(case: Case) -> None:
    """k(X) equals its transpose to the bit."""
    K = case.kernel(case.X)
    agree(K, K.T, 0, f"{case.kernel!r}: k(X) is not symmetric", bitwise=True)


def law_transpose(case: Case) -> None:
    """k(A, B) = k(B, A)ᵀ."""
    if case.precomputed:
        return
    k = case.resolved()
    A, B = case.pair()
    agree(k(A, B), k(B, A).T, 1e-12, f"{k!r}: k(A, B) ≠ k(B, A)ᵀ")


def law_diag(case: Case) -> None:
    """k.diag(X) is the diagonal of k(X), and of a kernel no entry of it is negative."""
    d = case.kernel.diag(case.X)
    agree(d, np.diagonal(case.kernel(case.X)), 1e-12, f"{case.kernel!r}: diag(X)")
    require((d >= 0).all() or not case.kernel.psd, f"{case.kernel!r}: k(x, x) = {d.min()} < 0")


def law_permutation(case: Case) -> None:
    """Reordering the points reorders rows and columns and does nothing else."""
    k = case.resolved()
    order = case.rng.permutation(case.n)
    K = k(case.X)
    agree(k(case.take(order)), K[np.ix_(order, order)], 1e-12, f"{k!r}: permuted points")


def law_psd(case: Case) -> None:
    """λ_min ≥ −1e-10·λ_max over sizes, dimensions and scales, with repeated points.

    A similarity with ``psd = False`` claims nothing, and is not judged.
    """
    k = case.kernel
    if not k.psd:
        return
    for d in WIDTHS:
        for n in SIZES:
            base = case.sample(n, d)
            for scale in SCALES:
                X = case.scaled(base, scale)
                if X is not None:
                    _require_psd(k, X, f"{n} points, {d} columns, scale {scale:g}")


def _require_psd(k: Kernel, X: Any, where: str) -> None:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            d = k.diag(X)
    except InvalidInput:
        return  # refused: nothing to judge
    require(not np.isnan(d).any(), f"{k!r}: k(x, x) is NaN for {where}")
    if np.isinf(d).any() or d.max(initial=0.0) > 1e150:
        return  # beyond what floating point can hold
    K = k(X)
    require(np.isfinite(K).all(), f"{k!r}: k(X) is not finite for {where}")
    top = float(np.abs(K).max())
    if top == 0:
        return
    values = np.linalg.eigvalsh(K / top)
    require(
        values[0] >= -PSD_TOLERANCE * values[-1],
        f"{k!r}: smallest eigenvalue {values[0] * top:.3g}, largest {values[-1] * top:.3g} "
        f"for {where}: not positive semidefinite",
    )


def law_double_loop(case: Case) -> None:
    """The matrix is what two loops over the definition give, repeated points included."""
    k = case.resolved()
    agree(k(case.X), double_loop(k, case.X), 1e-11, f"{k!r}: k(X) against the definition")
    A, B = case.pair()
    agree(k(A, B), double_loop(k, A, B), 1e-11, f"{k!r}: k(A, B) against the definition")


_LAWS: tuple[Callable[[Case], None], ...] = (
    law_shape,
    law_symmetry,
    law_transpose,
    law_diag,
    law_permutation,
    law_psd,
    law_double_loop,
    *execution.LAWS,
    *calculus.LAWS,
)


def kernel_laws() -> list[tuple[str, Callable[..., None]]]:
    """Return (name, function) for each law; ``function(kernel, X=None, rng=0)`` raises if broken.

    Examples
    --------
    >>> from mercer import RBF
    >>> from mercer.testing import kernel_laws
    >>> dict(kernel_laws())["symmetry"](RBF())
    """
    return [(law.__name__.removeprefix("law_"), _from_kernel(law)) for law in _LAWS]


def _from_kernel(law: Callable[[Case], None]) -> Callable[..., None]:
    def run(kernel: Any, X: Any = None, rng: Any = 0) -> None:
        law(Case(kernel, X, rng))

    run.__name__, run.__doc__ = law.__name__, law.__doc__
    return run


def check_kernel_laws(kernel: Any, X: Any = None, rng: Any = 0) -> None:
    """Raise AssertionError, naming the law, unless a kernel obeys every law.

    The laws: shape, symmetry to the bit, transpose, diagonal, permutation, positive
    semidefiniteness over sizes, dimensions and scales (unless it says ``psd = False``), agreement
    with the double loop over the definition, products in uneven tiles, agreement of engines,
    float32 in and out, inputs left alone, sparse = dense, bits independent of threads, clone,
    equality, repr, pickle, parameters, log-parameters, `theta_vjp` and `gradient` against finite
    differences, explicit features.

    Parameters
    ----------
    kernel : Kernel
        The kernel; derive from `Radial`, `Dot`, `Scalar`, `Explicit` or `Pairwise`, or add its
        formula to `ORACLES`.
    X : collection, optional
        Points to judge on; by default sampled from ``kernel.domain``.
    rng : Generator or int, default=0
        Source of randomness.

    Examples
    --------
    >>> from mercer import RBF
    >>> from mercer.testing import check_kernel_laws
    >>> check_kernel_laws(RBF(2.0))
    """
    for name, law in kernel_laws():
        try:
            law(kernel, X, rng)
        except (AssertionError, NotAKernel) as error:
            raise AssertionError(f"law {name!r} is broken. {error}") from error
