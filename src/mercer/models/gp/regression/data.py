"""What Gaussian process regression is fitted to: targets, noise and the basis of the mean."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from mercer.checks import as_number
from mercer.domains import Table, is_torch, refuse_odd_arrays
from mercer.errors import InvalidInput, users_level, who
from mercer.kernels import Constant, Product, Sum, White
from mercer.memory import require_memory
from mercer.models.gp.base import row_key
from mercer.models.gp.regression.evidence import Evidence, GaussianFit
from mercer.solvers import Solution, column_norms

if TYPE_CHECKING:
    from mercer.kernels import Kernel
    from mercer.models.gp.parameters import Parameters

# ---- Targets in units in which a covariance function can start: centred and scaled, and back
# again.


# A column that varies less than this, relative to its size, is constant but for rounding.
CONSTANT = 1e-13
# Units beyond these have squares, which variances are, that are no float64.
SMALLEST, LARGEST = 1e-151, 1e151


@dataclass(frozen=True)
class Targets:
    """The affine map z = (y − mean)/scale of each output, and what it does to densities.

    Attributes
    ----------
    mean, scale : arrays of shape (t,)
        Weighted mean and standard deviation; 0 and 1 where targets are taken as they are.
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(
        cls, Y: np.ndarray, weights: np.ndarray | None, *, normalize: bool, units: np.ndarray | None
    ) -> Targets:
        """Return the map for targets Y of shape (n, t).

        Y : array of shape (n, t)
            Targets.
        weights : array of shape (n,) or None
            A weight of 2 is the row given twice.
        normalize : bool
            Whether to move and scale at all.
        units : array of shape (t,) or None
            What the scales of the outputs are to be proportional to, as the noise is whose
            variance is not tuned; the variances of z are 1 on average then. None for a scale each.
        """
        t = Y.shape[1]
        if not normalize:
            out = cls(np.zeros(t), np.ones(t))
            _check_unit(np.abs(Y).max(axis=0, initial=0.0))
            return out
        largest = np.abs(Y).max(axis=0, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)  # no square or sum of these can overflow
        V = Y / unit
        mean = mean_of(V, weights)
        scale = np.sqrt(mean_of((V - mean) ** 2, weights))
        constant = scale <= CONSTANT
        mean, scale = mean * unit, scale * unit
        _check_unit(np.where(constant, 1.0, scale))
        if units is not None and t > 1 and not constant.all():
            ratio = np.where(constant, 0.0, scale / units)
            top = float(ratio.max())
            return cls(mean, units * top * np.sqrt(np.mean((ratio / top)[~constant] ** 2)))
        return cls(mean, np.where(constant, 1.0, scale))

    def forward(self, Y: np.ndarray) -> np.ndarray:
        """Return z for targets y of shape (n, t)."""
        return (Y - self.mean) / self.scale

    def variance_unit(self) -> float:
        """Return what one unit of variance of z is in the user's, on average over the outputs."""
        return float(np.mean(self.scale**2))

    def log_density_shift(self, degrees: float) -> float:
        """Return log p(y) − log p(z): minus `degrees` times log scale, summed over the outputs.

        `degrees` is the number of rows, or the sum of their weights, less the number of
        coefficients with a flat prior, which are in the units of y too.
        """
        return -float(degrees * np.log(self.scale).sum())


def mean_of(A: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the mean of the rows, weighted where there are weights."""
    total: np.ndarray = A.mean(axis=0) if weights is None else np.average(A, 0, weights)
    return total


def _check_unit(size: np.ndarray) -> None:
    wrong = ((size > 0) & (size < SMALLEST)) | (size > LARGEST)
    if wrong.any():
        j = int(np.argmax(wrong))
        raise InvalidInput(
            f"{who()}: y{f'[:, {j}]' if len(size) > 1 else ''} is of the size {size[j]:.3g}, whose "
            "square, a variance, is no float64; give y in other units."
        )


# ---- The noise of a regression: a word or limits, a number, a variance for each row, checked ----


def noise_limits(noise: Any) -> tuple[float, float] | None:
    """Return the limits (low, high) between which a noise is fitted; None of anything else.

    They are a tuple of two numbers; variances of two rows, or of two outputs, come as a list or as
    an array.
    """
    pair = isinstance(noise, tuple) and len(noise) == 2
    return (as_number(noise[0]), as_number(noise[1])) if pair else None


def fits_noise(noise: Any) -> bool:
    """Whether a noise is to be found: a word or limits, and neither a number nor variances."""
    return isinstance(noise, str) or noise_limits(noise) is not None


def check_noise(noise: Any, n: int, tuned: bool, t: int = 1, word: str | None = "'fit'") -> Any:
    """Return "fit", a variance, one variance for each of n rows, or for each of t outputs.

    The last has the shape (1, t). Limits are "fit" too.
    """
    noise, limits = _host(noise), None if word is None else noise_limits(noise)
    found = "" if word is None else f"{word}, limits in a tuple (low, high), "
    legal = f"give {found}a variance ≥ 0, or {n} of them"
    legal += f", or one for each of {t} outputs" if t > 1 else ""
    if limits is not None and not 0 < limits[0] <= limits[1] < np.inf:
        raise InvalidInput(
            f"{who()}: noise={noise!r}; two numbers in a tuple are limits, 0 < low ≤ high. Give "
            "variances as a list or an array."
        )
    if isinstance(noise, str) or limits is not None:
        if limits is None and (noise != "fit" or word is None):
            raise InvalidInput(f"{who()}: noise={noise!r}; {legal}.")
        if not tuned:
            raise InvalidInput(
                f"{who()}: noise={noise!r} with optimizer=None, which fits nothing; give the "
                "variance of the noise as a number, such as noise=0.1, or optimizer='lbfgs'."
            )
        return "fit"
    if 1 < t == np.size(noise) != n and np.ndim(noise) == 1:
        out = np.asarray(_variances(noise, "noise", t, legal))
        if not (out > 0).all():
            raise InvalidInput(f"{who()}: noise={noise!r} of the outputs; {legal}, > 0.")
        return out[None, :]
    return _variances(noise, "noise", n, legal)


def warn_of_white(parameters: Parameters) -> None:
    """Warn of white noise in a kernel beside a noise, where both were searched for."""
    *others, last = parameters.names or [""]
    free = last == "noise" and any(name.rpartition("__")[2] == "noise" for name in others)
    if free and _adds_white(parameters.kernel):
        warnings.warn(
            f"{who()}: the noise and White() of the kernel are one term of the covariance, whose "
            "sum alone the data tell; how it was split means nothing. Give noise=0, or leave "
            "White() out.",
            UserWarning,
            stacklevel=users_level(),
        )


def _adds_white(kernel: Any) -> bool:
    """Whether a multiple of the identity is a term of a kernel."""
    if not isinstance(kernel, Sum | Product):
        return isinstance(kernel, White)
    parts = [getattr(kernel, name) for name in ("k1", "k2")]
    scaled = isinstance(kernel, Sum) or any(isinstance(k, Constant) for k in parts)
    return scaled and any(map(_adds_white, parts))


def prior_noise(noise: Any) -> float:
    """Return the variance of the noise of a process before its fit: 0 unless it is a number."""
    noise = _host(noise)
    given = check_noise(noise, np.size(noise), True)
    return given if isinstance(given, float) else 0.0


def new_noise(with_noise: Any, m: int) -> bool | np.ndarray:
    """Return whether noise is asked for, or the variances of the noise of m new rows."""
    if isinstance(with_noise, bool | np.bool_):
        return bool(with_noise)
    legal = f"give True, False, or the variances of the noise of the {m} rows"
    if isinstance(with_noise, int | np.integer):  # 1 for True would be a variance of 1
        raise InvalidInput(f"{who()}: with_noise={with_noise!r}; {legal}.")
    out = _variances(_host(with_noise), "with_noise", m, legal)
    return np.full(m, out) if np.ndim(out) == 0 else np.asarray(out)


def _host(A: Any) -> Any:
    return A.detach().cpu().double().numpy() if is_torch(A) else A


def _variances(given: Any, name: str, n: int, legal: str) -> float | np.ndarray:
    refuse_odd_arrays(given, name)
    shown = repr(given) if np.size(given) <= 6 else f"{type(given).__name__}"
    try:
        kind = np.asarray(given).dtype.kind
        value = np.asarray(given, dtype=float)
    except (OverflowError, TypeError, ValueError):
        kind, value = "O", np.array(np.nan)
    if kind not in "fiu":
        raise InvalidInput(f"{who()}: {name}={shown}; {legal}.")
    if value.ndim > 1 or value.shape not in ((), (n,)):
        raise InvalidInput(f"{who()}: {name} has shape {value.shape}; {legal}.")
    if not np.isfinite(value).all():
        raise InvalidInput(f"{who()}: {name} holds NaN or infinity; {legal}.")
    if (value < 0).any():
        i = int(np.argmin(value))
        which = f"[{i}] = {value[i]:g}" if value.ndim else f"={float(value):g}"
        raise InvalidInput(
            f"{who()}: {name}{which} is negative; {name} is a variance, which is ≥ 0."
        )
    return float(value) if value.ndim == 0 else value.copy()


# ---- mean ----


MEANS = ("zero", "constant", "linear")
# A column of which less than this is left beside the others depends on them but for rounding.
DEPENDENT = 1e-10


@dataclass(frozen=True)
class Basis:
    """Columns h(x) = (1, (x − center)/scale) with a flat prior on their coefficients.

    Rasmussen & Williams, section 2.7. Centred and scaled columns are a basis of the same functions,
    and far from collinear although x may be far from 0 in units of its spread.

    Attributes
    ----------
    center, scale : arrays of shape (d,), or None
        Of the columns of x; a scale of 0 marks a column that is not used, as it is constant or
        depends on others. None for the constant alone.
    """

    center: np.ndarray | None = None
    scale: np.ndarray | None = None

    @classmethod
    def of(cls, mean: Any, kernel: Kernel, X: Any, weights: np.ndarray | None) -> Basis | None:
        """Return the basis that the word `mean` means for these points; None for "zero"."""
        if not isinstance(mean, str) or mean not in MEANS:
            raise InvalidInput(f"{who()}: mean={mean!r}; give 'zero', 'constant' or 'linear'.")
        if mean == "zero":
            return None
        if mean == "constant":
            return cls()
        numeric = isinstance(X, np.ndarray) or sp.issparse(X)
        if not numeric or X.ndim != 2 or not kernel.domain.holds_points:
            by = ", or choose columns by position: kernel.on([0])" if isinstance(X, Table) else ""
            raise InvalidInput(
                f"{who()}: mean='linear' needs points that are rows of numbers, not "
                f"{kernel.domain.name}; use mean='constant'{by}."
            )
        return cls._linear(_dense(X), weights)

    @classmethod
    def _linear(cls, X: np.ndarray, weights: np.ndarray | None) -> Basis:
        size = np.abs(X).max(axis=0, initial=0.0)
        unit = np.where(size > 0, size, 1.0)
        V = X / unit
        center = mean_of(V, weights)
        V -= center
        scale = np.sqrt(mean_of(V**2, weights))
        varies = np.flatnonzero(scale > 1e-14)  # a spread of less is rounding of the entries
        V = V[:, varies] / scale[varies]
        w = 1.0 if weights is None else np.sqrt(weights / weights.max())[:, None]
        kept = _independent(w * V)
        if len(kept) < len(varies):
            distinct = len(np.unique(V, axis=0))
            if distinct < len(varies) + 1:
                raise InvalidInput(
                    f"{who()}: mean='linear' has {len(varies) + 1} coefficients, and X only "
                    f"{distinct} different rows; use mean='constant', or fewer columns."
                )
        used = np.zeros(X.shape[1])
        used[varies[kept]] = (scale * unit)[varies[kept]]
        return cls(center * unit, used)

    @property
    def size(self) -> int:
        """The number q of columns."""
        return 1 if self.scale is None else 1 + int(np.count_nonzero(self.scale))

    def log_volume(self) -> float:
        """Return log|det A| where h(x) = (1, x)A on the columns used: what the scales do to |H|."""
        if self.scale is None:
            return 0.0
        return -float(np.log(self.scale[self.scale > 0]).sum())

    def columns(self, X: Any, n: int) -> np.ndarray:
        """Return H of shape (n, q) for a canonical collection of n points."""
        out = np.ones((n, self.size))
        if self.scale is not None and self.center is not None:
            used = np.flatnonzero(self.scale)
            rows = X[:, used].toarray() if sp.issparse(X) else X[:, used]
            with np.errstate(over="ignore"):  # what is too far away is refused with its mean
                out[:, 1:] = (rows - self.center[used]) / self.scale[used]
        return out

    def in_columns_of_x(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return offsets (t,) and slopes (d, t) of β of shape (q, t): hᵀβ = offset + xᵀslopes."""
        if self.scale is None or self.center is None:
            return beta[0], None
        used = np.flatnonzero(self.scale)
        slopes = np.zeros((len(self.scale), beta.shape[1]))
        slopes[used] = beta[1:] / self.scale[used, None]
        return beta[0] - self.center @ slopes, slopes


def _independent(V: np.ndarray) -> np.ndarray:
    """Return the columns, of length one, that do not depend on those before them."""
    if not V.shape[1]:
        return np.zeros(0, dtype=int)
    # QR with column pivoting (LAPACK geqp3) tells whether any does.
    R = qr(V, mode="r", pivoting=True, check_finite=False)[0]
    d = np.abs(np.diagonal(R))
    if len(d) == V.shape[1] and d[-1] > DEPENDENT * d[0]:
        return np.arange(V.shape[1])
    # Gram and Schmidt, twice is enough (Giraud, Langou and Rozloznik 2005).
    Q = np.empty((V.shape[0], min(V.shape)))
    kept: list[int] = []
    for j in range(V.shape[1]):
        if len(kept) == Q.shape[1]:
            break
        q, v = Q[:, : len(kept)], V[:, j]
        size = np.linalg.norm(v)
        for _ in range(2):
            v = v - q @ (q.T @ v)
        left = np.linalg.norm(v)
        if left > DEPENDENT * size:
            Q[:, len(kept)] = v / left
            kept.append(j)
    return np.array(kept, dtype=int)


def _dense(X: Any) -> np.ndarray:
    require_memory(
        32 * X.shape[0] * X.shape[1],
        f"{who()}: mean='linear' with {X.shape[1]} columns",
        "Use mean='constant'",
    )
    return X.toarray() if sp.issparse(X) else np.asarray(X, dtype=float)


# ---- What a Gaussian process regression is fitted to, and the certificate of its solution ----


FEW = 50  # rows up to which evaluations cost nothing
RESIDUAL = 1e-6  # relative residual of a linear system that is solved


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of positive weight, and targets in units of z: what an evidence is the evidence of.

    `kept` is what a model keeps of X; `column` tells whether y came without a second axis.
    """

    kernel: Kernel
    X: Any
    Y: np.ndarray
    weights: np.ndarray | None
    targets: Targets
    basis: Basis | None
    kept: Any
    column: bool

    def evidence(self, rows: np.ndarray | None = None) -> Evidence:
        """Return the evidence of all rows or some, in units of z."""
        X, Z, w = self.X, self.targets.forward(self.Y), self.weights
        H = None if self.basis is None else self.basis.columns(X, len(Z))
        if rows is not None:
            X, Z = self.kernel.domain.subset(X, rows), Z[rows]
            w, H = (None if w is None else w[rows]), (None if H is None else H[rows])
        return Evidence(X, Z, w, H, self.targets.variance_unit())

    def objective(
        self, evidence: Any, parameters: Parameters, known: Any, shift: float = 0.0, *more: Any
    ) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Return θ → (an evidence plus a shift, gradient), with `more` that the evidence is to see.

        `known` are variances of the noise in the units of y², where it is not tuned.
        """
        unit = self.targets.variance_unit()

        def call(theta: np.ndarray) -> tuple[float, np.ndarray]:
            kernel, level = parameters.read(theta)
            scaled = (known if level is None else level) / unit
            value, slope, noise_slope, *_ = evidence.value_and_gradient(kernel, scaled, *more)
            return value + shift, parameters.pull(slope, noise_slope)

        return call

    def key(self) -> np.ndarray:
        """Return numbers that tell rows apart, however they are ordered."""
        return row_key(self.X, self.Y)

    def shift(self, noise: Any = 1.0) -> float:
        """Return the log evidence of y less that of z, in the basis 1, x of the mean.

        A row counts with its weight, and once where it has no noise, as in `Evidence`.
        """
        w = np.ones(len(self.Y)) if self.weights is None else self.weights
        n = float(np.where(np.asarray(noise) > 0, w, 1.0).sum())
        q, volume = (0, 0.0) if self.basis is None else (self.basis.size, self.basis.log_volume())
        return self.targets.log_density_shift(n - q) + self.Y.shape[1] * volume

    def explained(self) -> float:
        """Return the log evidence of parameters that leave half of the variance, by and large.

        Infinity for few rows, which cost nothing, and with weights, where the evidence may grow
        without limit as the noise goes to 0.
        """
        return np.inf if len(self.Y) <= FEW else self.half_explained()

    def half_explained(self) -> float:
        """Return the same for any number of rows; infinity with weights."""
        if self.weights is not None:
            return np.inf
        n, rest = self.Y.size, max(float(np.mean(self._remainder**2)), 1e-300)
        alone = -0.5 * n * (np.log(2 * np.pi * rest) + 1)  # of noise and nothing else
        return alone + 0.5 * n * np.log(2.0) + self.shift()

    # -- how much the targets vary -------------------------------------------------------------
    def unit(self) -> float:
        """Return the mean square of y about the model's mean: what noise is measured by."""
        about = self.targets.forward(self.Y) if self.basis is None else self._remainder
        return self._mean_square(about)

    def spread(self) -> float:
        """Return the mean square of y about its own mean, or about what the basis explains."""
        return self._mean_square(self._remainder)

    @cached_property
    def varies(self) -> np.ndarray:
        """Which outputs are more than constant, or more than what the basis explains."""
        rest = np.sqrt(mean_of(self._remainder**2, self.weights))
        return rest * self.targets.scale > CONSTANT * np.abs(self.Y).max(axis=0, initial=0.0)

    def searched(self) -> Problem:
        """Return the problem of the outputs that vary, all where none does.

        An output without spread has no largest evidence: it would pull the noise to its bound.
        """
        some = self.varies
        if some.all() or not some.any():
            return self
        targets = Targets(self.targets.mean[some], self.targets.scale[some])
        return replace(self, Y=self.Y[:, some], targets=targets)

    @cached_property
    def _remainder(self) -> np.ndarray:
        """z less its weighted mean, or less its regression on the basis."""
        Z, w = self.targets.forward(self.Y), self.weights
        if self.basis is None or self.basis.scale is None:
            return Z - mean_of(Z, w)
        H = self.basis.columns(self.X, len(Z))
        root = 1.0 if w is None else np.sqrt(w)[:, None]
        return Z - H @ np.linalg.lstsq(root * H, root * Z, rcond=None)[0]

    def _mean_square(self, A: np.ndarray) -> float:
        square = mean_of(A**2, self.weights)
        return float(np.mean(square)) * self.targets.variance_unit()


def certificate(problem: Problem, fit: GaussianFit, value: np.ndarray, search: Any) -> Solution:
    """Judge the coefficients by C itself, without the jitter, and the search by its own words."""
    Z = problem.targets.forward(problem.Y)
    gap = (fit.factor.matmul(fit.dual) if fit.product is None else fit.product) - Z
    if problem.basis is not None:
        gap += problem.basis.columns(problem.X, len(Z)) @ fit.beta
    size = column_norms(Z)
    residual = float((column_norms(gap) / np.where(size > 0, size, 1.0)).max())
    message = ""
    if residual > RESIDUAL:
        message = (
            f"{who()}: the covariance is nearly singular: the relative residual is "
            f"{residual:.2g} (tolerance {RESIDUAL:g}) after a jitter of {fit.jitter:.2g}. Use more "
            "noise, or drop rows that are given twice."
        )
    elif search is not None and not search.converged:
        message = f"{who()}: the search for parameters {search.message}."
    return Solution(
        value=value,
        converged=not message,
        n_iter=0 if search is None else search.n_evaluations,
        residual=residual,
        message=message,
        extra={"jitter": fit.jitter},
    )
