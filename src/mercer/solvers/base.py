"""Solution: what every solver returns, the answer together with its certificate."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemv

from mercer.checks import check_index, check_number
from mercer.errors import InvalidInput, NotConverged, speaking_for, speaks, users_level, who
from mercer.kernels import require_psd
from mercer.operators import Dense, Operator


def merged(solutions: Sequence[Solution], value: Any) -> Solution:
    """Return one certificate for several problems: sums of values, the largest residual."""
    failed = [s for s in solutions if not s.converged]
    message = failed[0].message if failed else ""
    if len(failed) > 1:
        message = f"{len(failed)} of {len(solutions)} problems did not converge. First: {message}"
    names = ("primal", "dual", "gap", "residual") if len(solutions) > 1 else ()
    extra = {f"{name}s": tuple(getattr(s, name) for s in solutions) for name in names}
    primal, dual = (float(sum(getattr(s, n) for s in solutions)) for n in ("primal", "dual"))
    return Solution(
        value=value,
        converged=not failed,
        n_iter=sum(s.n_iter for s in solutions),
        residual=max(float(s.residual) for s in solutions),  # type: ignore[arg-type]
        gap=float(sum(s.gap for s in solutions)),  # type: ignore[misc]
        primal=primal,
        dual=dual,
        message=message,
        extra=extra,
    )


NOTHING = 0.1  # a relative residual from which an answer is none


@dataclass(frozen=True, eq=False)
class Solution:
    """An answer and the evidence for it.

    Parameters
    ----------
    value : object
        The answer; its type is the solver's (an array, an `EigenPairs`, ...).
    converged : bool
        Whether the certificate meets the solver's tolerance.
    n_iter : int, default=0
        Iterations spent; 0 for a direct method.
    residual : float or None, default=None
        Relative residual, recomputed from the problem after the last iteration.
    gap : float or None, default=None
        Duality gap, for problems that have a dual.
    primal, dual : float or None, default=None
        Values of the two objectives at the answer.
    message : str, default=""
        For a failure the cause and the cure; for a success empty or one remark.
    extra : dict
        What only this solver has to say, such as the jitter a factorisation added.

    Examples
    --------
    >>> from mercer.solvers import Solution
    >>> Solution(value=[1.0], converged=True, residual=1e-16).unwrap()
    [1.0]
    """

    value: Any
    converged: bool
    n_iter: int = 0
    residual: float | None = None
    gap: float | None = None
    primal: float | None = None
    dual: float | None = None
    message: str = ""
    extra: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        shape = getattr(self.value, "shape", None)
        value = type(self.value).__name__ + (f" of shape {tuple(shape)}" if shape else "")
        facts = ", ".join(f"{k}={v!r}" for k, v in self.summary().items() if v not in (None, ""))
        return f"Solution({value}: {facts})"

    def unwrap(self) -> Any:
        """Return the answer; warn once, with cause and cure, if it is not converged.

        Returns
        -------
        object
            `value`, whether converged or not.

        Warns
        -----
        NotConverged
            When `converged` is false.

        Examples
        --------
        >>> from mercer.solvers import Solution
        >>> Solution(value=3.0, converged=True).unwrap()
        3.0
        """
        if not self.converged:
            text = self.message or self._default_message()
            warnings.warn(text, NotConverged, stacklevel=users_level())
        return self.value

    def summary(self) -> dict[str, Any]:
        """Return everything but the answer as plain numbers and text, fit for a model file.

        Entries of `extra` that are not a number, text, a boolean or None are left out.

        Returns
        -------
        dict
            Keys ``converged, n_iter, residual, gap, primal, dual, message`` and those of `extra`.

        Examples
        --------
        >>> from mercer.solvers import Solution
        >>> Solution(value=3.0, converged=True, extra={"jitter": 0.0}).summary()["jitter"]
        0.0
        """
        out: dict[str, Any] = {
            "converged": bool(self.converged),
            "n_iter": int(self.n_iter),
            "residual": _plain(self.residual),
            "gap": _plain(self.gap),
            "primal": _plain(self.primal),
            "dual": _plain(self.dual),
            "message": str(self.message),
        }
        for key, value in self.extra.items():
            if value is None or isinstance(value, str | bool | numbers.Real):
                out.setdefault(str(key), _plain(value))
        return out

    def _default_message(self) -> str:
        seen = [
            f"{name} {value:.3g}"
            for name, value in (("residual", self.residual), ("gap", self.gap))
            if value is not None and math.isfinite(value)
        ]
        return (
            f"A solver stopped after {self.n_iter} iterations without reaching its tolerance"
            f"{' (' + ', '.join(seen) + ')' if seen else ''}; "
            "allow more iterations, loosen the tolerance, or use a larger ridge."
        )


def _plain(value: Any) -> Any:
    """Turn NumPy scalars into Python's, so that JSON and repr need not know NumPy."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if hasattr(value, "dtype") and value.dtype == bool:
        return bool(value)
    return float(value)


def accept(residual: float) -> list[str]:
    """Return the advice to accept what was reached, none where that is nothing."""
    return [f"accept tol={2.0 * residual:.1g}"] if residual < NOTHING else []


def either(cures: list[str]) -> str:
    """Return several cures as one sentence."""
    return f"{', '.join(cures[:-1])}, or {cures[-1]}" if cures[1:] else cures[0]


# ---- What every solver checks before it works: shapes, finiteness, symmetry, ridge, parameters.


_SLAB = 2**19  # entries of a row slab that is read once and used twice while it is in cache


def as_matrix(A: Any) -> np.ndarray:
    """Return an array of what is given as one, or refuse rows of unequal length."""
    try:
        return np.asarray(A)
    except ValueError:
        raise InvalidInput(
            f"{who()}: the rows of the matrix have different lengths; give a square array of real "
            "numbers, such as a Gram matrix k(X)."
        ) from None


def check_square(A: Any) -> int:
    """Return n for an n×n array or operator of real numbers, or raise `InvalidInput`."""
    shape = tuple(A.shape)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise InvalidInput(
            f"{who()}: the matrix has shape {shape}; a square one is needed. "
            "A Gram matrix k(X) is square, k(X, Y) is not."
        )
    kind = np.dtype(getattr(A, "dtype", np.float64)).kind
    if kind not in "fiub":
        raise InvalidInput(
            f"{who()}: the matrix has dtype {A.dtype}; real numbers are needed. "
            "Convert it with A.astype(float)."
        )
    return int(shape[0])


def check_entries(A: Any) -> None:
    """Check a matrix that is in memory; of a lazy operator the products are checked instead."""
    if isinstance(A, Dense):
        check_finite_symmetric(A.array)


def require_definite(A: Any) -> None:
    """Refuse the Gram matrix of a similarity that says that it is no kernel, parts included."""
    kernel = getattr(A, "kernel", None)
    if kernel is not None and not getattr(kernel, "psd", True):
        require_psd(kernel)
    for part in (getattr(A, name, None) for name in ("A", "B")):
        if isinstance(part, Operator):
            require_definite(part)


def check_rhs(b: Any, n: int) -> np.ndarray:
    """Return b in float64, of shape (n,) or (n, t) and finite, or raise `InvalidInput`."""
    try:
        out = np.asarray(b)
        if out.dtype.kind not in "fiub":
            raise TypeError
        out = out.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{who()}: b is not an array of real numbers; give shape ({n},) or ({n}, t)."
        ) from None
    if out.ndim not in (1, 2) or out.shape[0] != n:
        raise InvalidInput(
            f"{who()}: b has shape {out.shape} but the matrix is {n}×{n}; "
            f"give b of shape ({n},) or ({n}, t)."
        )
    if not np.isfinite(out).all():
        row = int(np.flatnonzero(~np.isfinite(out.reshape(n, -1)).all(axis=1))[0])
        raise InvalidInput(
            f"{who()}: b holds NaN or infinity, first in row {row}; remove or impute such rows."
        )
    return out


def check_ridge(ridge: Any, n: int, *, positive: bool = False) -> float | np.ndarray:
    """Return the ridge as a float or an (n,) float64 array, finite and ≥ 0 (or > 0)."""
    try:
        out = np.asarray(ridge)
        if out.dtype.kind not in "fiu":
            raise TypeError
        out = out.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{who()}: ridge={ridge!r} is not a number or a vector of {n} numbers."
        ) from None
    if out.shape not in ((), (n,)):
        raise InvalidInput(f"{who()}: ridge has shape {out.shape}; give a number or shape ({n},).")
    if not np.isfinite(out).all() or (out < 0).any() or (positive and (out == 0).any()):
        legal = "finite and positive" if positive else "finite and not negative"
        worst = float(out.min()) if out.size and np.isfinite(out).all() else "NaN or infinity"
        raise InvalidInput(f"{who()}: ridge must be {legal}; it holds {worst}.")
    return float(out) if out.ndim == 0 else out


def check_limits(options: Any, *, endless: bool = False) -> None:
    """Raise `InvalidInput` unless tol, max_iter, max_time and callback of a solver are legal.

    Where it may be endless, max_iter may be None.
    """
    check_number(options.tol, "tol", 0.0, 1.0)
    if not endless or options.max_iter is not None:
        check_index(options.max_iter, "max_iter", 1)
    if options.max_time is not None:
        check_number(options.max_time, "max_time", 0.0)
    if options.callback is not None and not callable(options.callback):
        raise InvalidInput(f"{who()}: callback={options.callback!r} cannot be called.")


class IterativeSolver:
    """Base of the solvers with a tolerance, a limit of steps and one of time."""

    tol: float
    max_iter: int | None
    max_time: float | None
    _shown: tuple[str, ...] = ("tol", "max_iter", "max_time")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)
        return f"{type(self).__name__}({shown})"

    @speaks
    def _check_limits(self, least: int = 1) -> None:
        """Raise `InvalidInput` unless the limits are legal; with least 0 max_iter may be None."""
        check_number(self.tol, "tol", 0.0)
        if least or self.max_iter is not None:
            check_index(self.max_iter, "max_iter", least)
        if self.max_time is not None:
            check_number(self.max_time, "max_time", 0.0, closed=True)


def check_finite_symmetric(K: np.ndarray) -> None:
    """Raise `InvalidInput` unless the square array K is finite and symmetric.

    One pass over K: with a fixed random v, K v and Kᵀ v are formed slab by slab. A NaN or
    infinity survives both sums, and |(K − Kᵀ) v| is the asymmetry up to a factor of order one.
    """
    n = K.shape[0]
    if n == 0:
        return
    rows = K.T if K.flags.f_contiguous and not K.flags.c_contiguous else K
    v = _probe(n)
    forward, backward = np.empty(n), np.zeros(n)
    step = max(1, _SLAB // n)
    with np.errstate(all="ignore"):
        for i in range(0, n, step):
            slab = rows[i : i + step]
            # SciPy's BLAS, not NumPy's: after a call the threads of a BLAS spin for a while, and
            # those of another library would slow down the factorisation that follows.
            forward[i : i + step] = dgemv(1.0, slab.T, v, trans=1)
            backward += dgemv(1.0, slab.T, v[i : i + step])
    if np.isfinite(forward).all() and np.isfinite(backward).all():
        scale = max(np.abs(np.diagonal(K)).max(), np.abs(forward).max(), np.abs(backward).max())
        if np.abs(forward - backward).max() <= _asymmetry_allowed(K.dtype) * scale:
            return
    _explain_matrix(K, step)


@lru_cache(maxsize=4)
def _probe(n: int) -> np.ndarray:
    """Return the vector by which a matrix and its transpose are told apart."""
    return np.random.default_rng(0).uniform(0.5, 1.5, n) * np.where(np.arange(n) % 2, -1.0, 1.0)


def _asymmetry_allowed(dtype: np.dtype) -> float:
    return 1e-5 if dtype.itemsize < 8 and dtype.kind == "f" else 1e-8


def _explain_matrix(K: np.ndarray, step: int) -> None:
    """Look at every entry and say what is wrong; silent if sums of finite entries overflowed."""
    n = K.shape[0]
    worst, at, top = 0.0, (0, 0), 0.0
    for i in range(0, n, step):
        slab = K[i : i + step]
        finite = np.isfinite(slab)
        if not finite.all():
            p, q = np.argwhere(~finite)[0]
            raise InvalidInput(
                f"{who()}: the matrix holds {slab[p, q]} at row {i + p}, column {q}; every entry "
                "must be finite. Check the data for NaN and the kernel's parameters for overflow."
            )
    with np.errstate(over="ignore"):
        for i in range(0, n, step):
            slab = K[i : i + step]
            top = max(top, float(np.abs(slab).max()))
            difference = np.abs(slab - K[:, i : i + step].T)
            p, q = np.unravel_index(int(difference.argmax()), difference.shape)
            if difference[p, q] > worst:
                worst, at = float(difference[p, q]), (i + int(p), int(q))
    if worst > _asymmetry_allowed(K.dtype) * top:
        i, j = at
        raise InvalidInput(
            f"{who()}: the matrix is not symmetric: entry ({i}, {j}) is {K[i, j]:.6g} but entry "
            f"({j}, {i}) is {K[j, i]:.6g}. Use (K + K.T) / 2 if the difference is noise."
        )


def check_product(out: np.ndarray) -> np.ndarray:
    """Return a product with A, or refuse one that is not finite."""
    if not np.isfinite(out).all():
        raise InvalidInput(
            f"{who()}: a product with A holds NaN or infinity; check the data for NaN and the "
            "kernel's parameters for overflow."
        )
    return out


SHARP = 2**23  # entries of a matrix that are multiplied again in longer numbers: a second, at most
CHEAP = 2**16  # entries that are in any case


def sharp_product(A: Operator, V: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray | None:
    """Return AV, or some rows of it, in ``numpy.longdouble``.

    None where there are too many entries, or longer numbers are none.
    """
    rows, m = np.arange(A.shape[0]) if rows is None else rows, A.shape[1]
    if len(rows) * m > SHARP or not np.finfo(np.longdouble).eps < np.finfo(float).eps:
        return None
    V, step = V.astype(np.longdouble), max(1, 2**16 // max(1, m))
    cuts = (rows[i : i + step] for i in range(0, len(rows), step))
    parts = [A.block(some, slice(None)).astype(np.longdouble) @ V for some in cuts]
    return np.concatenate([np.zeros((0, *V.shape[1:]), dtype=V.dtype), *parts])


def proven_residuals(
    A: Operator, ridge: Any, X: np.ndarray, B: np.ndarray, seen: np.ndarray, tol: float
) -> np.ndarray:
    """Return the relative residuals of (A + ridge)X = B with what rounding may hide of them.

    `seen` are those that were computed. A product with A is off by at most nε/2 of the sums of the
    sizes √aᵢᵢ√aⱼⱼ|xⱼ|. Where that is too much to tell, residuals are computed again in longer
    numbers; of a large matrix some rows are, which tell how far the others are off.
    """
    n, eps = len(B), float(np.finfo(float).eps)
    if not B.size:
        return seen
    root = np.sqrt(np.maximum(np.asarray(A.diagonal(), dtype=float), 0.0))
    norms = column_norms(B)
    norms[norms == 0] = 1.0
    D = np.reshape(np.asarray(ridge, dtype=float), (-1, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        terms = 0.5 * (n + 4) * float(np.sqrt(root @ root)) * (root @ np.abs(X)) / norms
        others = 2 * (column_norms(B) + column_norms(D * X)) / norms
        off = precision_of(A) * terms + eps * others
    off = np.where(np.isfinite(off), off, np.inf)
    doubt = (seen + off > tol) & (off > 0.1 * seen) & np.isfinite(seen)
    if not doubt.any() and n * n > CHEAP:
        return np.asarray(seen + off)
    rows = np.unique(np.linspace(0, n - 1, max(1, min(n, SHARP // n))).astype(int))
    product = sharp_product(A, X, rows)
    if product is None:
        return np.asarray(seen + off)
    D = np.broadcast_to(D, (n, 1))
    R = B[rows] - product - D[rows].astype(np.longdouble) * X[rows]
    if len(rows) == n:
        fine = float(np.finfo(R.dtype).eps) * (terms + others)
        true = (1 + n * eps) * column_norms(np.asarray(R / norms, float))
        return np.asarray(np.where(np.isfinite(true), true + fine * (true > 0), seen))
    fast = B - np.asarray(A.matmul(X), dtype=float) - D * X
    wrong = column_norms(np.asarray((R - fast[rows]) / norms, dtype=float))
    return np.asarray(seen + np.minimum(off, 2.0 * np.sqrt(n / len(rows)) * wrong))


def precision_of(A: Any) -> float:
    """Return the rounding of the entries of a matrix, that of float64 where they are no floats."""
    dtype = np.dtype(getattr(A, "dtype", np.float64))
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def as_columns(b: np.ndarray) -> np.ndarray:
    """View (n,) as (n, 1) and leave (n, t) alone."""
    return b[:, None] if b.ndim == 1 else b


def column_norms(M: np.ndarray) -> np.ndarray:
    """Return the Euclidean norms of the columns of an (n, t) array, safe from overflow."""
    if M.shape[0] == 0:
        return np.zeros(M.shape[1])
    top = np.abs(M).max(axis=0)
    with np.errstate(invalid="ignore"):
        scaled = M / np.where((top > 0) & np.isfinite(top), top, 1.0)
        return np.asarray(np.sqrt(np.einsum("ij,ij->j", scaled, scaled)) * top)


def longest_step(*pairs: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the longest step t ≤ 1 that keeps x + t·d ≥ 0 for every pair (x, d)."""
    longest = 1.0
    for x, d in pairs:
        falling = d < 0
        if falling.any():
            longest = min(longest, float((-x[falling] / d[falling]).min()))
    return longest


def describe(A: Any, fallback: str) -> Any:
    """Return who speaks of a matrix in a message: its kernel where it has one."""
    kernel = getattr(A, "kernel", None)
    return fallback if kernel is None else kernel


# ---- The problems that solvers solve: frozen dataclasses whose docstring is the mathematics ----


@dataclass(frozen=True, eq=False)
class Linear:
    """Symmetric positive definite linear system, one or many right-hand sides.

    Find x with

        (A + D) x = b,   D = ridge·I  or  D = diag(ridge),

    A symmetric and positive semidefinite, ridge ≥ 0. The certificate of a solution is its
    relative residual, the largest over the columns of ‖(A + D)x − b‖ / ‖b‖ (0 where b = 0).
    With A = K and ridge = λ this is kernel ridge regression; with sample weights w, A = K and
    ridge = λ/w.

    Parameters
    ----------
    A : Operator or ndarray of shape (n, n)
        Symmetric positive semidefinite.
    b : ndarray of shape (n,) or (n, t)
        Right-hand sides, one a column.
    ridge : float or ndarray of shape (n,), default=0.0
        What is added to the diagonal of A.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import Cholesky, Linear
    >>> Cholesky().solve(Linear(np.eye(2), [2.0, 4.0], ridge=1.0)).value
    array([1., 2.])
    """

    A: Any
    b: Any
    ridge: Any = 0.0

    def checked(self, owner: str) -> tuple[Operator, np.ndarray, float | np.ndarray]:
        """Return (operator, b, ridge) in canonical form, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.

        Returns
        -------
        tuple
            The operator A, b in float64 with its own number of axes, ridge as float or vector.
        """
        with speaking_for(owner):
            A, n = checked_matrix(self.A)
            return A, check_rhs(self.b, n), check_ridge(self.ridge, n)


@dataclass(frozen=True, eq=False)
class Eigen:
    """Largest eigenvalues of a symmetric matrix, with orthonormal eigenvectors.

    Find λ₁ ≥ … ≥ λₖ and V of shape (n, k) with

        A V = V diag(λ),   VᵀV = I,

    λ₁, …, λₖ the k largest eigenvalues of A. The certificate of a solution is the largest of
    ‖A vᵢ − λᵢ vᵢ‖ / max|λ|: within that distance of every λᵢ, relative to the largest, A has a
    true eigenvalue.

    Parameters
    ----------
    A : Operator or ndarray of shape (n, n)
        Symmetric; an iterative solver needs it positive semidefinite as well.
    k : int or None, default=None
        How many pairs; None means all n.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import DenseEigen, Eigen
    >>> DenseEigen().solve(Eigen(np.diag([1.0, 3.0, 2.0]), k=2)).value.values
    array([3., 2.])
    """

    A: Any
    k: int | None = None

    def checked(self, owner: str) -> tuple[Operator, int]:
        """Return (operator, k) in canonical form, or raise `InvalidInput`.

        Parameters
        ----------
        owner : str
            Who asks; the messages begin with it.

        Returns
        -------
        tuple
            The operator A and the number of pairs wanted.
        """
        with speaking_for(owner):
            A, n = checked_matrix(self.A, definite=False)
            return A, n if self.k is None else check_index(self.k, "k", min(1, n), n)


def checked_matrix(A: Any, *, definite: bool = True) -> tuple[Operator, int]:
    """Wrap an array without a look at its entries; a solver that reads them all checks them.

    Where it must be positive semidefinite, the Gram matrix of what is no kernel is refused.
    """
    if isinstance(A, Operator):
        if definite:
            require_definite(A)
        n = check_square(A)
        if not A.symmetric and not isinstance(A, Dense):
            raise InvalidInput(
                f"{who()}: the operator {A!r} is not symmetric; a Gram matrix of one collection is."
            )
        return A, n
    A = as_matrix(A)
    n = check_square(A)
    return Dense(A, symmetric=True), n
