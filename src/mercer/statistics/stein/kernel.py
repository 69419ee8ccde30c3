"""The Stein kernel of a density, of mean zero under it, and the scores that it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, who
from mercer.kernels import (
    RBF,
    Bound,
    Constant,
    Kernel,
    Matern,
    Power,
    Product,
    Radial,
    RadialBound,
    Sum,
    belongs,
    matern_profile,
    slope,
)


class SteinKernel(Kernel):
    """u(x, y) = s(x)ᵀs(y) k + s(x)ᵀ∇_y k + s(y)ᵀ∇_x k + tr ∇_x∇_yᵀ k, with s = ∇ log p.

    Its mean over y is 0 for every x when y follows p (Liu, Lee and Jordan 2016; Chwialkowski,
    Strathmann and Gretton 2016). Only the score s of p is needed, not its constant.

    Parameters
    ----------
    kernel : Kernel
        A smooth function of the distance: RBF, rational quadratic, Matérn with ν > 1, and their
        sums, products, powers and positive multiples.
    score : callable
        Points of shape (n, d) → ∇ log p, shape (n, d), finite.
    """

    workspace = 12
    kernel: Any
    score: Any

    def __init__(self, kernel: Kernel, score: Callable):
        super().__init__(kernel=kernel, score=score)

    def _check_params(self) -> None:
        refuse_rough(self.kernel)

    def _words(self) -> list[str]:
        return self.kernel._words()

    def fit_params(self, X: Any, sample_weight: Any = None) -> SteinKernel:
        """Return this kernel with the words of its part replaced by numbers taken from X."""
        return SteinKernel(self.kernel.fit_params(X, sample_weight), self.score)

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return SteinBound(self, X, Y)

    def _parts(self, X: Any) -> tuple[Any, Any]:
        """Return points and their scores."""
        return X, self.score(X)

    def _diag(self, X: Any) -> np.ndarray:
        # All distances are 0: u(x, x) = k₀‖s(x)‖² + t₀ with one k₀ and t₀ for all points.
        X, S = self._parts(X)
        one = slice(0, 1)
        at_zero = _jet(_leaves(self.kernel, X[:1], None, X[:1].mean(0)), one, one)
        return float(at_zero.value[0, 0]) * (S * S).sum(1) + float(at_zero.trace[0, 0])


class ScoredStein(SteinKernel):
    """The same kernel of rows (x, s(x)), so that some of the points keep their scores."""

    def __init__(self, kernel: Kernel, score: Any = None):
        super().__init__(kernel, score)

    def _parts(self, X: Any) -> tuple[Any, Any]:
        d = X.shape[1] // 2
        return X[:, :d], X[:, d:]


class SteinBound(Bound):
    """Tiles of u from the derivatives of k along the distance."""

    fresh = True
    flagged = False

    def __init__(self, kernel: SteinKernel, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        X, self._sx = kernel._parts(X)
        Y, self._sy = (None, self._sx) if Y is None else kernel._parts(Y)
        # Differences do not change when all points move; near the origin less cancels.
        self._tree = _leaves(kernel.kernel, X, Y, X.mean(0))

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return u on a tile: k sᵀs′ − Σ g (s−s′)ᵀA(x−y) + t, where ∇ₓk = Σ g A(x−y)."""
        jet = _jet(self._tree, rows, cols)
        sx, sy = self._sx[rows], self._sy[cols]
        u = sx @ sy.T
        u *= jet.value
        for g, px, py in jet.slopes:
            u -= g * _inner_gaps(sx, sy, px, py)
        u += jet.trace
        return u


@dataclass
class _Leaf:
    """A radial kernel on its points: distances s, and A(x − centre) where ∇ₓs = 2A(x−y)."""

    kernel: Radial
    bound: RadialBound
    px: np.ndarray
    py: np.ndarray
    steep: RadialBound | None  # squared distances of the A(x − centre), where not a multiple of s
    trace: float  # tr A
    scale: float  # ‖A(x−y)‖² = s/scale² where `steep` is None


@dataclass
class _Jet:
    """k, tr ∇ₓ∇ᵧᵀk, and the g, A of ∇ₓk = Σ g A(x−y) = −∇ᵧk, on a tile."""

    value: np.ndarray
    trace: np.ndarray
    slopes: list[tuple[np.ndarray, np.ndarray, np.ndarray]]


def _leaves(kernel: Any, X: Any, Y: Any, centre: Any) -> Any:
    """Return the kernel as a tree: leaves, numbers, and (operation, branches)."""
    kind = type(kernel)
    if issubclass(kind, Constant):
        return float(kernel.value)
    if issubclass(kind, Sum | Product):
        parts = [_leaves(k, X, Y, centre) for k in (kernel.k1, kernel.k2)]
        return ("+" if issubclass(kind, Sum) else "*", *parts)
    if issubclass(kind, Power):
        return ("**", _leaves(kernel.kernel, X, Y, centre), int(kernel.degree))
    eye = np.eye(X.shape[1])
    A = kernel._from_metric(kernel._to_metric(eye), eye)
    px = (X - centre) @ A
    py = px if Y is None else (Y - centre) @ A
    diagonal = np.diag(A)
    if not diagonal[0] > 0:
        raise InvalidInput(
            f"{who()}: squares of the length scale of {kernel} overflow; divide the points by "
            "their size."
        )
    alike = np.array_equal(A, np.diag(np.full(len(A), diagonal[0])))
    return _Leaf(
        kernel,
        RadialBound(kernel, X, Y),
        px,
        py,
        None if alike else RadialBound(RBF(), px, None if Y is None else py),
        float(np.trace(A)),
        float(diagonal[0]) ** -0.5,
    )


def _jet(tree: Any, rows: slice, cols: slice) -> _Jet:
    """Return values and derivatives on a tile by the rules of sum, product and chain."""
    shape = (rows.stop - rows.start, cols.stop - cols.start)
    if isinstance(tree, float):
        return _Jet(np.full(shape, tree), np.zeros(shape), [])
    if isinstance(tree, _Leaf):
        return _leaf_jet(tree, rows, cols)
    operation, first, second = tree
    a = _jet(first, rows, cols)
    if operation == "**":
        if second == 1:
            return a
        p, below = second, a.value ** (second - 2)
        outer = p * below * a.value
        trace = outer * a.trace - p * (p - 1) * below * _crossed(a, a)
        return _Jet(below * a.value**2, trace, [(outer * g, x, y) for g, x, y in a.slopes])
    b = _jet(second, rows, cols)
    if operation == "+":
        return _Jet(a.value + b.value, a.trace + b.trace, a.slopes + b.slopes)
    slopes = [(b.value * g, x, y) for g, x, y in a.slopes]
    slopes += [(a.value * g, x, y) for g, x, y in b.slopes]
    trace = a.value * b.trace + b.value * a.trace - 2 * _crossed(a, b)
    return _Jet(a.value * b.value, trace, slopes)


def _leaf_jet(leaf: _Leaf, rows: slice, cols: slice) -> _Jet:
    # k = κ(s): ∇ₓk = 2κ′A(x−y) and tr ∇ₓ∇ᵧᵀk = −2κ′ tr A − 4κ″‖A(x−y)‖².
    s = leaf.bound.squared(rows, cols)
    steep = s / leaf.scale**2 if leaf.steep is None else leaf.steep.squared(rows, cols)
    g = 2 * leaf.kernel._true_slope(s, np)
    # Where points coincide κ″ may be infinite; ‖A(x−y)‖² is 0 there, and their product too.
    bend = np.zeros_like(s)
    np.multiply(4 * _curvature(leaf.kernel, np.where(s > 0, s, 1.0)), steep, out=bend, where=s > 0)
    trace = -leaf.trace * g - bend
    return _Jet(leaf.kernel._profile(s, np), trace, [(g, leaf.px[rows], leaf.py[cols])])


def _crossed(a: _Jet, b: _Jet) -> np.ndarray | float:
    """Return −∇ₓa·∇ᵧb = Σ gₐ g_b ⟨Aₐ(x−y), A_b(x−y)⟩."""
    total: np.ndarray | float = 0.0
    for g, px, py in a.slopes:
        for h, qx, qy in b.slopes:
            total = total + g * h * _inner_gaps(px, py, qx, qy)
    return total


def _inner_gaps(ax: np.ndarray, ay: np.ndarray, bx: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return ⟨a(x) − a(y), b(x) − b(y)⟩ for all pairs, by one product."""
    left = np.hstack([ax, bx, (ax * bx).sum(1)[:, None], np.ones((len(ax), 1))])
    right = np.hstack([-by, -ay, np.ones((len(ay), 1)), (ay * by).sum(1)[:, None]])
    return left @ right.T


def _curvature(kernel: Any, s: np.ndarray) -> np.ndarray:
    """Return κ″(s) at s > 0."""
    if kernel._decay is not None and belongs(kernel, "_decay"):
        return kernel._decay**2 * kernel._profile(s, np)
    if issubclass(type(kernel), Matern) and belongs(kernel, "_slope"):
        nu = float(kernel.nu)
        if nu == np.inf:
            return 0.25 * np.exp(-0.5 * s)
        if nu > 2:
            # κ″ = ν²/4(ν−1)(ν−2) times the form of order ν−2 at the same z = √(2νs), twice by
            # d/dz z^ν K_ν = −z^ν K_{ν−1} (DLMF 10.29.4); that form takes 2(ν−2)s′ = z².
            same = s * (nu / (nu - 2))
            return nu**2 / (4 * (nu - 1) * (nu - 2)) * matern_profile(same, nu - 2, np)
        return _matern_curvature(s, nu)
    return slope(kernel._slope, s, np)


def _matern_curvature(s: np.ndarray, nu: float) -> np.ndarray:
    """Return κ″ = ν² 2^{1−ν}/Γ(ν) z^{ν−2} K_{2−ν}(z) for 1 < ν ≤ 2, z = √(2νs)."""
    from scipy.special import gamma, kv

    z = np.sqrt(2 * nu * s)
    return nu**2 * 2 ** (1 - nu) / gamma(nu) * z ** (nu - 2) * kv(2 - nu, z)


def refuse_rough(kernel: Any) -> None:
    """Refuse a kernel whose second derivatives are not known, or do not exist."""
    cure = "; use RBF, RationalQuadratic, Matern(nu=2.5), or sums and products of these."
    kind = type(kernel)
    if issubclass(kind, Sum | Product):
        refuse_rough(kernel.k1)
        refuse_rough(kernel.k2)
    elif issubclass(kind, Power):
        refuse_rough(kernel.kernel)
    elif issubclass(kind, Constant):
        return
    elif not issubclass(kind, Radial) or kind._bind is not Radial._bind:
        raise InvalidInput(
            f"{who()}: {kernel} is no smooth function of the Euclidean distance, and a Stein "
            f"kernel needs second derivatives{cure}"
        )
    elif issubclass(kind, Matern) and not kernel.nu > 1:
        raise InvalidInput(
            f"{who()}: {kernel} has no second derivatives, which a Stein kernel needs; ν must "
            f"exceed 1{cure}"
        )
    elif not issubclass(kind, Matern) and kernel._rough:
        raise InvalidInput(f"{who()}: {kernel} is not smooth where two points meet{cure}")
    elif not belongs(kernel, "_slope") or kind._slope is Radial._slope:
        raise InvalidInput(
            f"{who()}: {kernel} does not say its slope at distance 0; write _slope(s, xp) in "
            f"{kind.__name__}{cure}"
        )


# ---- Scores ∇ log p: what a user gives for a density, as a function of points ----


# Central differences err by h²|f‴|/6 + eps|f|/h, least near the cube root of eps.
STEP = float(np.finfo(np.float64).eps) ** (1 / 3)
LOGARITHMS = ("logpdf", "logpmf", "log_prob", "score_samples", "log_likelihood", "pdf", "pmf")
LEAST_POWER = 0.99  # p ≈ tᵃ at distance t of an end; below a = 1 the score has no variance


def as_score(score: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function of points (n, d) whose answers are checked to be (n, d) and finite.

    Parameters
    ----------
    score : callable, or object with logpdf or score_samples
        A function X ↦ ∇ log p(X), or a density; of a multivariate normal the score is taken in
        closed form, of others by central differences.
    """
    closed = _normal_score(score)
    if closed is not None:
        return closed
    density = _log_density(score)
    if density is not None:

        def differences(X: np.ndarray) -> np.ndarray:
            _refuse_edges(score, X)
            return _central_differences(density, X)

        return differences
    if not callable(score) or isinstance(score, type):
        raise InvalidInput(
            f"{who()}: score={score!r} is neither a function X ↦ ∇ log p(X) nor a density with "
            "logpdf or score_samples, such as scipy.stats.norm(0, 1)."
        )
    name = getattr(getattr(score, "func", score), "__name__", "")
    if name in LOGARITHMS:
        raise InvalidInput(
            f"{who()}: score is the function {name}, and the score is the slope ∇ log p, not log "
            "p; give the density itself, an object with logpdf or score_samples such as "
            "scipy.stats.norm(0, 1), or a function X ↦ ∇ log p(X)."
        )
    return lambda X: _checked(score(X), X, "score(X)")


def _checked(values: Any, X: np.ndarray, what: str) -> np.ndarray:
    """Return the answer of a user's function as an array of the shape of X."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        S = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{who()}: {what} is a {type(values).__name__}, not an array of numbers."
        ) from None
    if X.shape[1] == 1 and S.shape == (len(X),):
        S = S[:, None]
    if S.shape != X.shape:
        raise InvalidInput(
            f"{who()}: {what} has shape {S.shape} for points of shape {X.shape}; the score is the "
            "gradient of log p in x, one row for each point and one column for each coordinate."
        )
    if not np.isfinite(S).all():
        i = int(np.flatnonzero(~np.isfinite(S).all(1))[0])
        raise InvalidInput(
            f"{who()}: {what} is not finite at row {i} of X: the density is 0 or not smooth there. "
            "A Stein test needs a smooth density that is positive at all points."
        )
    return S


def _normal_score(score: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return −Σ⁻¹(x−μ) for scipy's frozen multivariate normal."""
    if type(score).__name__ != "multivariate_normal_frozen":
        return None
    mean = np.atleast_1d(np.asarray(score.mean, dtype=np.float64))
    covariance = np.atleast_2d(np.asarray(score.cov, dtype=np.float64))
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise InvalidInput(
            f"{who()}: the covariance of the normal is singular, so it has no density."
        ) from None
    from scipy.linalg import cho_solve

    def closed(X: np.ndarray) -> np.ndarray:
        if X.shape[1] != len(mean):
            raise InvalidInput(
                f"{who()}: the normal has {len(mean)} coordinates and X has {X.shape[1]} columns."
            )
        return _checked(-cho_solve((root, True), (X - mean).T).T, X, "the score")

    return closed


def _log_density(score: Any) -> Callable[[np.ndarray], Any] | None:
    """Return X ↦ log p(X) of a density, one number for each row."""
    if hasattr(score, "logpdf"):
        from scipy.stats import gaussian_kde

        if isinstance(score, gaussian_kde):  # its points are columns
            return lambda X: score.logpdf(X.T)
        return lambda X: score.logpdf(X[:, 0] if X.shape[1] == 1 else X)
    if hasattr(score, "score_samples"):
        return score.score_samples
    return None


def _refuse_edges(density: Any, X: np.ndarray) -> None:
    """Refuse a density of scipy that does not go to 0 at an end of its support.

    Integration by parts leaves p·k at the end, and the Stein discrepancy of p itself is then above
    0. Where p ≈ tᵃ with 0 < a < 1 it is 0, but the score a/t has no variance. The power a is
    read off two points next to the end.
    """
    if X.shape[1] != 1 or not callable(getattr(density, "support", None)):
        return
    try:
        low, high = (float(end) for end in density.support())
    except (TypeError, ValueError):  # parameters are missing or are arrays: logpdf will say so
        return
    if not ((X >= low) & (X <= high)).all():
        return  # these points are named for what they are
    for end, sign in ((low, 1.0), (high, -1.0)):
        if not np.isfinite(end):
            continue
        reach = float(np.abs(X - end).max()) or 1.0
        t = max(1e-6 * reach, 2.0**12 * float(np.spacing(abs(end))))
        with np.errstate(all="ignore"):
            near, far = _values(density.logpdf, end + sign * t * np.array([1.0, 2.0]))
        if near == -np.inf or far - near >= LEAST_POWER * np.log(2.0):
            continue
        change = "log |x − end|" if np.isinf(low) or np.isinf(high) else "the logit"
        raise InvalidInput(
            f"{who()}: the density does not go to 0 (at least as a straight line) at the end "
            f"{end:g} of its support, as a Stein discrepancy needs; transform first ({change} of "
            "the points) and add the log-Jacobian to log p, as in the example of ksd."
        )


def _central_differences(density: Callable, X: np.ndarray) -> np.ndarray:
    """Return (log p(x + h) − log p(x − h))/2h, coordinate by coordinate."""
    n, d = X.shape
    out = np.empty((n, d))
    spread = X.std(0)
    for k in range(d):
        # A step on the scale of the column; x ± h are rounded, so their gap is taken as it is.
        scale = np.maximum(np.abs(X[:, k]), spread[k] if spread[k] > 0 else 1.0)
        up, down = X.copy(), X.copy()
        up[:, k] += STEP * scale
        down[:, k] -= STEP * scale
        gap = up[:, k] - down[:, k]
        above, below = _values(density, up), _values(density, down)
        with np.errstate(invalid="ignore"):
            out[:, k] = (above - below) / gap
    return _checked(out, X, "the difference of log p")


def _values(density: Callable, X: np.ndarray) -> np.ndarray:
    try:
        values = np.asarray(density(X), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{who()}: the density does not take points of shape {X.shape}: {error}"
        ) from error
    if values.shape == () and len(X) == 1:
        values = values[None]
    if values.shape != (len(X),):
        raise InvalidInput(
            f"{who()}: the log-density of {len(X)} points of {X.shape[1]} columns has shape "
            f"{values.shape}; give a density of {X.shape[1]} coordinates, one value a point."
        )
    return values
