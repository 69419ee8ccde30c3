"""Averages over Gaussian latent values: probabilities, log-likelihoods and their derivatives."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import eigh_tridiagonal
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from mercer.memory import row_blocks
from mercer.models.gp.classes.sites import Link, as_link
from mercer.settings import get_config
from mercer.threads import single_threaded_blas

# ---- Probabilities of classes, by deterministic quadrature ----


# Steps of the trapezoidal rule in `_logistic_mixture`: errors of 1e-15, of 2e-7 and of 1e-4.
_FINE, _COARSE, _ROUGH = 0.1, 0.25, 0.35
_LOW = -5.0  # mean + variance below which the density is tilted
_BYTES = 2**22  # of all arrays of a block of rows
_MANY = 10  # classes up to which points are not spared


@lru_cache(maxsize=32)
def gauss_hermite(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes x and weights w with Σ wᵢ g(xᵢ) ≈ E g(x) for x ~ N(0, 1).

    Parameters
    ----------
    order : int
        Number of nodes; exact for polynomials of degree 2·order − 1.
    """
    x, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    x.setflags(write=False)
    w.setflags(write=False)
    return x, w


@lru_cache(maxsize=4)
def _logistic_mixture(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return variances v and weights w with σ(x) = Σ wᵢ Φ(x/√vᵢ).

    The logistic law is that of 2κZ with Z normal and κ of Kolmogorov's law (Andrews and Mallows
    1974). The trapezoidal rule in log κ converges like exp(−2π(π/4)/step), since the density is
    analytic for |arg κ| < π/4: below rounding at step 0.1, also relative to tails down to 1e-12.
    """
    log_kappa = np.arange(-1.75, 2.05, step)
    kappa = np.exp(log_kappa)
    k = np.arange(1, 12)[:, None]
    # The two series of the density are theta functions of one another; each is fast on its side.
    odd = (2 * k - 1) ** 2 * np.pi**2 / 4.0
    small = np.sqrt(2 * np.pi) * np.sum(
        (odd / kappa**4 - kappa**-2.0) * np.exp(-odd / (2 * kappa**2)), axis=0
    )
    large = 8 * kappa * np.sum(-((-1.0) ** k) * k**2 * np.exp(-2 * (k * kappa) ** 2), axis=0)
    w = np.where(kappa < 0.8, small, large) * kappa
    keep = w > 0.0
    return 4 * kappa[keep] ** 2, w[keep] / w[keep].sum()


def binary_probability(mean: Any, var: Any, link: Any = "logit") -> np.ndarray:
    """Return p(t = 1) = E p(t = 1 | f) for f ~ N(mean, var).

    Probit: Φ(m/√(1 + v)). Logit: the logistic function is a mixture of cumulative Gaussians of
    variances vᵢ, so that the integral is Σ wᵢ Φ(m/√(vᵢ + v)); the error is below 1e-12 whatever
    the mean and the variance. Since σ(f) = eᶠσ(−f), it is also exp(m + v/2) times the integral for
    the mean −(m + v), by which small probabilities keep their digits. p(t = −1) is the same
    function at −mean.

    Returns
    -------
    ndarray
        Probabilities.

    Examples
    --------
    >>> from mercer.models.gp.classes.expectations import binary_probability
    >>> binary_probability([0.0, 2.0], [1.0, 0.0]).round(6)
    array([0.5     , 0.880797])
    """
    mean, var = np.broadcast_arrays(np.asarray(mean, float), np.asarray(var, float))
    if as_link(link).name == "probit":
        return ndtr(mean / np.sqrt(1.0 + var))
    low = mean + var < _LOW
    out = _logistic_normal(np.where(low, -(mean + var), mean), var, _FINE)
    return out * np.exp(np.where(low, mean + 0.5 * var, 0.0))


def _logistic_normal(mean: np.ndarray, var: np.ndarray, step: float) -> np.ndarray:
    out = np.zeros(mean.shape)
    for v, w in zip(*_logistic_mixture(step), strict=True):
        out += w * ndtr(mean / np.sqrt(v + var))
    return out


def softmax_probability(mean: Any, cov: Any) -> np.ndarray:
    r"""Return E softmax(f) for f ~ N(mean, cov), one row a point.

    For class c let d_j = f_c − f_j, j ≠ c. Their covariance is a²11ᵀ + R with the largest a that
    leaves R positive semidefinite, so that d = d′ + a z and softmax_c = σ(a z − log Σ exp(−d′_j)):
    the integral over z is that of two classes, in closed form, and makes the rest smooth. The
    C − 2 dimensions of d′ are integrated by fixed Sobol points: 1024 for three classes, 4096 for
    up to ten, 2048 for more. Two classes need none of them: their answer is exact.

    Without covariance the error is 2e-7, of more than ten classes 1e-4. It is below 2e-5 for three
    classes and 1e-4 for four, and grows to 1e-3 for ten classes whose latent values spread over
    tens of units, and to 4e-3 for thirty. The answer does not depend on the order of the classes,
    and each row sums to 1.

    Returns
    -------
    ndarray of shape (m, C)
        Probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.classes.expectations import softmax_probability
    >>> softmax_probability(np.zeros((1, 3)), np.eye(3)[None]).round(6)
    array([[0.333333, 0.333333, 0.333333]])
    """
    mean, cov = np.asarray(mean, dtype=float), np.asarray(cov, dtype=float)
    m, C = mean.shape
    out = np.empty((m, C))
    each = max(1, _BYTES // (8 * 8 * _points(C) * C))  # rows that some eight arrays stay small for
    with single_threaded_blas():  # many small matrices, over which threads would fight
        for start in range(0, m, each):
            rows = slice(start, start + each)
            for c in range(C):
                out[rows, c] = _one_class(mean[rows], cov[rows], c)
    out /= out.sum(axis=1, keepdims=True)
    return out


def _one_class(mean: np.ndarray, cov: np.ndarray, c: int) -> np.ndarray:
    """Return E softmax_c(f), before the classes are made to sum to 1."""
    m, C = mean.shape
    others = np.array([j for j in range(C) if j != c])
    # The order of the other classes must not matter: take them by mean, then by variance.
    spread = cov[:, others, others] - 2 * cov[:, [c], others]
    order = others[np.lexsort((spread, mean[:, others]), axis=1)]
    row = np.arange(m)[:, None]
    gap = mean[:, [c]] - mean[row, order]
    D = (
        cov[:, c, c][:, None, None]
        - cov[row, c, order][:, :, None]
        - cov[row, c, order][:, None, :]
        + cov[row[:, :, None], order[:, :, None], order[:, None, :]]
    )
    D = 0.5 * (D + D.transpose(0, 2, 1))
    if C == 2:
        return _logistic_normal(gap[:, 0], np.maximum(D[:, 0, 0], 0.0), _FINE)
    a2 = _shared_variance(D)
    lam, V = np.linalg.eigh(D - a2[:, None, None])
    root = V[:, :, :0:-1] * np.sqrt(np.maximum(lam[:, :0:-1], 0.0))[:, None, :]
    e = root @ _sobol(C)  # −d, in place from here on
    e += gap[:, :, None]
    np.negative(e, out=e)
    top = e.max(axis=1)
    e -= top[:, None, :]
    total = np.log(np.exp(e, out=e).sum(axis=1)) + top
    step = _COARSE if C <= _MANY else _ROUGH
    return _logistic_normal(-total, a2[:, None], step).mean(axis=1)


def _shared_variance(D: np.ndarray) -> np.ndarray:
    """Return the largest a² with D − a²11ᵀ positive semidefinite: 1/1ᵀD⁻¹1, D a little larger."""
    m, n = D.shape[:2]
    if n >= _MANY:  # by a third of the work, where there is much
        least = 1e-10 * np.einsum("ijj->i", D) / n + 1e-300
        ones = np.ones((m, n, 1))
        return 1.0 / np.linalg.solve(D + least[:, None, None] * np.eye(n), ones).sum(axis=(1, 2))
    lam, V = np.linalg.eigh(D)
    lam = np.maximum(lam, 0.0) + 1e-10 * lam[:, -1:] + 1e-300
    return 1.0 / np.sum(np.square(V.sum(axis=1)) / lam, axis=1)


def _points(n_classes: int) -> int:
    return 1024 if n_classes <= 3 else 4096 if n_classes <= _MANY else 2048


@lru_cache(maxsize=16)
def _sobol(n_classes: int) -> np.ndarray:
    """Return normal Sobol points, shape (n_classes − 2, points): midpoints of each margin."""
    n = _points(n_classes)
    out = ndtri(qmc.Sobol(n_classes - 2, scramble=False).random(n) + 0.5 / n).T
    out.setflags(write=False)
    return out


def class_probabilities(mean: np.ndarray, cov: np.ndarray, link: Link, kind: str) -> np.ndarray:
    """Return the probabilities of the classes, one row a point, that sum to 1.

    Parameters
    ----------
    mean : ndarray of shape (m,) or (m, C)
        Latent means.
    cov : ndarray of shape (m,) or (m, C, C)
        Their variances or covariances.
    link : Link
        The likelihood.
    kind : {"binary", "softmax", "one_vs_rest"}
        What the latent functions are. The probabilities of classes against the rest are divided by
        their sum.
    """
    if kind == "softmax":
        return softmax_probability(mean, cov)
    if kind == "one_vs_rest":
        each = binary_probability(mean, np.einsum("icc->ic", cov), link)
        sums = each.sum(axis=1, keepdims=True)
        # Where all underflow, the ratios are those of the tails, in effect a choice of one class.
        sure = np.equal(mean, mean.max(axis=1, keepdims=True)).astype(float)
        each, sums = np.where(sums > 0, each, sure), np.where(sums > 0, sums, sure.sum(1)[:, None])
        return each / sums
    less = binary_probability(-np.abs(mean), cov, link)  # the smaller one, to its own digits
    more = 1.0 - less
    second = np.where(mean > 0, more, less)
    return np.stack([np.where(mean > 0, less, more), second], axis=1)


# ---- Averages of a log-likelihood and of its derivatives over Gaussian latent values ----


_REACH = 9.5  # standard deviations; beyond them the density is below 1e-20
_Z = np.arange(-19, 20) * 0.5
_Z_WEIGHTS = np.exp(-0.5 * _Z**2) * 0.5 / np.sqrt(2.0 * np.pi)
# log p(f) is analytic for |Im f| < π (logit), and around the zeros 1.92 ± 2.82i of Φ (probit).
_STRIP, _STEP = 2.8, 0.045
_WIDE, _FAR = 0.7, 12.0
_TINY = 1e-100


def expected(
    link: Link, t: np.ndarray, mean: np.ndarray, var: np.ndarray
) -> tuple[np.ndarray, ...]:
    r"""Return E log p(t|f) and E ∂ᵏ log p(t|f), k = 1 to 4, for f ~ N(mean, var).

    By the trapezoidal rule, whose error falls exponentially with the number of nodes. For small
    variances, and where no standard deviation reaches f = 0, the nodes are mean + σz with a step of
    0.5 in z: analytic in |Im z| < a, the error is exp(a²/2 − 2πa/0.5) with a = 2.8/σ. Else they are
    2.8 sinh(u), the same for all rows: dense around f = 0, where log p bends, and wide enough for
    any variance. In u the integrand is analytic as far as the Gaussian allows; at a step of 0.045
    and |mean| < 12σ the error is below 1e-13. The averages are exact to rounding, so that they are
    derivatives of one another: dE/dmean = E∂ and dE/dvar = ½E∂². The fourth is E z∂³/σ.

    Parameters
    ----------
    link : Link
        The likelihood.
    t : ndarray of shape (n,)
        Labels −1 and 1.
    mean, var : ndarray of shape (n,)
        Of the latent values; variances ≥ 0.

    Returns
    -------
    tuple of five ndarrays of shape (n,)
        The averages; that of ∂² is never > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.classes.expectations import expected
    >>> from mercer.models.gp.classes.sites import Logit
    >>> one = np.ones(1)
    >>> [float(e[0].round(6)) for e in expected(Logit(), one, 0 * one, one)[:3]]
    [-0.806059, 0.5, -0.206621]
    """
    z, s = t * mean, np.sqrt(var)  # p depends on t f alone
    wide = (s >= _WIDE) & (np.abs(z) <= _FAR * s)
    out = np.empty((5, len(z)))
    near = np.flatnonzero(~wide)
    for rows in row_blocks(len(near), 8 * 8 * len(_Z)):
        i = near[rows]
        values = _values(link, z[i, None] + s[i, None] * _Z)
        for k in range(4):
            out[k, i] = values[k] @ _Z_WEIGHTS
        out[4, i] = values[3] @ (_Z * _Z_WEIGHTS) / np.maximum(s[i], _TINY)
    far = np.flatnonzero(wide)
    if len(far):
        f, table = _common_nodes(link, float((np.abs(z[far]) + _REACH * s[far]).max()))
        for rows in row_blocks(len(far), 8 * 4 * len(f)):
            i = far[rows]
            offset = (f - z[i, None]) / s[i, None]
            density = np.square(offset)
            density *= -0.5
            np.exp(density, out=density)
            density /= np.sqrt(2.0 * np.pi) * s[i, None]
            out[:4, i] = (density @ table).T
            density *= offset
            out[4, i] = density @ table[:, 3] / s[i]
    return out[0], t * out[1], np.minimum(out[2], 0.0), t * out[3], out[4]


def _values(link: Link, f: np.ndarray) -> tuple[np.ndarray, ...]:
    one: Any = np.ones_like(f)
    return link.log_likelihood(one, f), *link.derivatives(one, f)


def _common_nodes(link: Link, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes that serve every row, and the functions there times the weights."""
    count = int(np.ceil(np.arcsinh(reach / _STRIP) / _STEP))
    u = np.arange(-count, count + 1) * _STEP
    f = _STRIP * np.sinh(u)
    table = np.stack(_values(link, f), axis=1)
    table *= (_STRIP * _STEP * np.cosh(u))[:, None]
    return f, table


# ---- expected softmax ----


_SOFTMAX_STEP = 0.3  # trapezoidal error exp(−π²/step): everything is analytic in |Im| < π/2
_SOFTMAX_REACH = 8.0  # standard deviations, beyond which a Gaussian has 1e-15 of its mass
_LEFT, _RIGHT = 4.0, 32.0  # beyond which the Gumbel law has less than 1e-13 of its mass
_NARROW, _ORDER = 0.4, 20  # below this deviation a Gaussian is a few Gauss–Hermite nodes
_SOFTMAX_WIDE = 6.0  # deviation from which a row has nodes of its own
# Deviations from which the Gumbel law is that many Gauss nodes: errors of 2e-11, then of 1e-13.
_GUMBEL = ((2.0, 32), (4.0, 20), (6.0, 12), (20.0, 6))
_MAP_STEP = 0.12
_NUMBERS = 4e5  # doubles in the largest array of one block of rows, of which there are _ARRAYS
_ARRAYS = 6


def expected_softmax(mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, ...]:
    r"""Return E log Σ_c exp f_c and averages of its derivatives for f ~ N(mean, diag var).

    With independent Gumbel variables G the maximum of f_c + G_c has the mean log Σ exp f_c + γ, and
    is that of class c with probability softmax_c(f). So one integral over y is left, of products of
    the distribution functions H_c of f_c + G_c and their derivatives:

    .. math::

        E \log \sum_c e^{f_c} = m_t + \int H_t - \prod_c H_c\,dy, \quad
        E p_c = \int H_c' \prod_{j \ne c} H_j\,dy, \quad
        E p_c p_d = \int H_c' H_d' \prod_{j \ne c, d} H_j\,dy

    for any class t. H_c is an integral over f_c of a fixed function of f − y: by the trapezoidal
    rule on grids of one step both are products with fixed matrices. Rows of large variance have
    nodes of their own, dense around the means. The error is below 1e-11 of the largest deviation.

    Parameters
    ----------
    mean, var : ndarray of shape (n, C)
        Of the latent values; variances ≥ 0.

    Returns
    -------
    value : ndarray of shape (n,)
        E log Σ exp f.
    p : ndarray of shape (n, C)
        E p, the derivative in the mean.
    bend : ndarray of shape (n, C, C)
        E (diag p − ppᵀ), the second derivative; half its diagonal is that in the variance.
    third : ndarray of shape (n, C, C)
        The derivative of ``bend[:, c, c]`` in mean d, at [:, c, d].
    fourth : ndarray of shape (n, C)
        The second derivative of ``bend[:, c, c]`` in mean c.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.models.gp.classes.expectations import expected_softmax
    >>> value, p, *_ = expected_softmax(np.zeros((1, 2)), 0.5 * np.ones((1, 2)))
    >>> value.round(6), p.round(6)
    (array([0.806059]), array([[0.5, 0.5]]))
    """
    n, C = mean.shape
    value, p, fourth = np.empty(n), np.empty((n, C)), np.empty((n, C))
    bend, third = np.empty((n, C, C)), np.empty((n, C, C))
    if not (np.isfinite(mean).all() and np.isfinite(var).all()):
        return tuple(np.full_like(a, np.nan) for a in (value, p, bend, third, fourth))
    x, s = mean - mean.max(axis=1, keepdims=True), np.sqrt(var)
    widest = s.max(axis=1)
    order = np.argsort(widest, kind="stable")
    numbers = min(_NUMBERS, get_config().memory / (4 * 8 * _ARRAYS))  # a quarter of the budget
    first = 0
    while first < n:  # rows of like deviations share a grid
        size = widest[order[first]]
        width = 2.0 * size if size > _SOFTMAX_WIDE else min(max(1.0, 2.0 * size), _SOFTMAX_WIDE)
        count = max(1, int(numbers / (4 * C * _count(C, width))))
        group = order[first : first + (count if size <= _SOFTMAX_WIDE else 4 * C * count)]
        group = group[widest[group] <= width]
        first += len(group)
        nodes = None if size <= _SOFTMAX_WIDE else _nodes(x[group], s[group])
        dy: Any
        for k in range(0, len(group), count):
            rows = group[k : k + count]
            if nodes is None:
                H, dy = _common(x[rows], s[rows])
            else:
                y, weights = (part[k : k + count] for part in nodes)
                H, dy = _own(x[rows], s[rows], y), weights[:, None, :]
            base = np.argmax(x[rows] - _SOFTMAX_REACH * s[rows], axis=1)
            value[rows], p[rows], bend[rows], third[rows], fourth[rows] = _integrals(H, dy, base)
            value[rows] += mean[rows, base]
    return value, p, bend, third, fourth


def _count(C: int, width: float) -> float:
    """Return about the number of nodes."""
    return (
        (2.0 * _SOFTMAX_REACH * width + 40.0) / _SOFTMAX_STEP
        if width <= _SOFTMAX_WIDE
        else 200.0 * C
    )


def _common(x: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the laws on one grid outside of which no maximum is; the largest mean is 0."""
    reach = _SOFTMAX_REACH * s.max()
    y = np.arange(-reach - _LEFT, reach + _RIGHT + _SOFTMAX_STEP, _SOFTMAX_STEP)
    return _laws(x, s, y), _SOFTMAX_STEP


def _nodes(x: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes of each row and their weights, shape (m, U).

    The trapezoidal rule in u = Σ_c asinh((y − m_c)/w_c) with w = √(s² + 1): nodes are as dense as
    the narrowest law around needs.
    """
    w = np.sqrt(np.square(s) + 1.0)
    low = np.max(x - _SOFTMAX_REACH * s, axis=1) - _LEFT
    high = np.max(x + _SOFTMAX_REACH * s, axis=1) + _RIGHT

    def u(y: np.ndarray) -> np.ndarray:
        return np.arcsinh((y[:, None] - x) / w).sum(axis=1)

    def slope(y: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 / np.hypot(y[:, None] - x, w)).sum(axis=1)

    start, length = u(low), u(high) - u(low)
    count = int(np.ceil(length.max() / _MAP_STEP)) + 1
    step = length / (count - 1)
    y, dy = np.empty((len(x), count)), np.empty((len(x), count))
    here = low
    for k in range(count):
        y[:, k], dy[:, k] = here, slope(here)
        here = here + step * slope(here + 0.5 * step * dy[:, k])
        for _ in range(2):
            here = here + slope(here) * (start + (k + 1) * step - u(here))
    dy *= step[:, None]
    return y, dy


def _own(x: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the laws at nodes y of each row, shape (4, m, C, U)."""
    H = np.empty((4, *x.shape, y.shape[1]))
    i, c = np.nonzero(s <= _GUMBEL[0][0])
    H[:, i, c] = _sharp_laws(x[i, c], s[i, c], y[i], *_fine())
    for k, (least, order) in enumerate(_GUMBEL):
        most = _GUMBEL[k + 1][0] if k + 1 < len(_GUMBEL) else np.inf
        i, c = np.nonzero((s > least) & (s <= most))
        if len(i):
            H[:, i, c] = _flat_laws(y[i] - x[i, c][:, None], s[i, c][:, None], order)
    return H


def _integrals(H: np.ndarray, dy: Any, base: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the five averages from 1 − H and three derivatives of H, shape (4, m, C, U)."""
    C = H.shape[2]
    below = np.maximum(1.0 - H[0], 1e-15)  # smaller ones have no part in the integrals
    product = np.prod(below, axis=1)
    value = np.sum(dy * (below[np.arange(len(base)), base] - product)[:, None, :], axis=(1, 2))
    ratio = H[1] / below
    rate = ratio * (product[:, None, :] * dy)  # the density of a maximum that is of class c
    p = rate.sum(axis=2)
    bend = -(rate @ ratio.transpose(0, 2, 1))
    # The derivative of Π H over the other classes is that product times the sum of their ratios.
    sums = np.stack([np.delete(ratio, c, axis=1).sum(axis=1) for c in range(C)], axis=1)
    np.einsum("icc->ic", bend)[...] = np.einsum("icu,icu->ic", rate, sums)
    third = rate @ (np.square(ratio) - H[2] / below).transpose(0, 2, 1)
    third -= (rate * sums) @ ratio.transpose(0, 2, 1)
    sums *= product[:, None, :] * dy / below
    np.einsum("icc->ic", third)[...] = -np.einsum("icu,icu->ic", H[2], sums)
    return value, p, bend, third, np.einsum("icu,icu->ic", H[3], sums)


def _laws(x: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return 1 − H and the first three derivatives of H at y, shape (4, m, C, U)."""
    m, C = x.shape
    out = np.empty((4, m * C, len(y)))
    x, s = x.reshape(-1), s.reshape(-1)
    wide = s > _NARROW
    if wide.any():
        # A value far below the smallest y has no part in the maximum: the grid ends there.
        below = int(np.ceil((_RIGHT + 5.0) / _SOFTMAX_STEP))
        f = y[0] + _SOFTMAX_STEP * np.arange(-below, len(y) - int(_RIGHT / _SOFTMAX_STEP) + 2)
        density = (f - x[wide, None]) / s[wide, None]
        np.square(density, out=density)
        density *= -0.5
        np.exp(density, out=density)
        density *= (_SOFTMAX_STEP / np.sqrt(2.0 * np.pi)) / s[wide, None]
        offsets = _SOFTMAX_STEP * np.arange(-below - len(y) + 1, len(f) - below)  # of all f − y
        for k, values in enumerate(_kernels(np.exp(offsets))):
            shifted = np.ascontiguousarray(sliding_window_view(values, len(y)))
            out[k, wide] = (density @ shifted)[:, ::-1]
    narrow = ~wide
    if narrow.any():
        out[:, narrow] = _sharp_laws(x[narrow], s[narrow], y, *gauss_hermite(_ORDER))
    return out.reshape(4, m, C, len(y))


def _sharp_laws(
    x: np.ndarray, s: np.ndarray, y: np.ndarray, z: np.ndarray, w: np.ndarray
) -> np.ndarray:
    """Return `_laws` by nodes for the Gaussian."""
    out = np.zeros((4, len(x), y.shape[-1]))
    centre = np.exp(np.minimum(x[:, None] - y, 300.0))
    for zq, wq in zip(z, w, strict=True):
        for k, values in enumerate(_kernels(centre * np.exp(s * zq)[:, None])):
            out[k] += wq * values
    return out


def _flat_laws(d: np.ndarray, s: np.ndarray, order: int) -> np.ndarray:
    """Return `_laws` at y − x = d by nodes for the Gumbel variable."""
    out = np.zeros((4, *d.shape))
    for g, wq in zip(*_gumbel_nodes(order), strict=True):
        t = (d - g) / s
        density = wq * np.exp(-0.5 * t * t) / np.sqrt(2.0 * np.pi) / s
        out[0] += wq * ndtr(-t)
        out[1] += density
        out[2] -= t * density / s
        out[3] += (t * t - 1.0) * density / (s * s)
    return out


@lru_cache(maxsize=1)
def _fine() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for Gaussians of deviation up to 2, by the trapezoidal rule."""
    z = np.arange(-_SOFTMAX_REACH, _SOFTMAX_REACH, 0.15)
    return z, np.exp(-0.5 * z * z) * 0.15 / np.sqrt(2.0 * np.pi)


@lru_cache(maxsize=8)
def _gumbel_nodes(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gauss rule of the Gumbel law, by Lanczos steps on a fine rule."""
    g = np.arange(-4.5, 60.0, 0.1)
    v = np.exp(0.5 * (-g - np.exp(-g)))
    basis = [v / np.linalg.norm(v)]
    diagonal, beside = [], []
    for _ in range(order):
        z = g * basis[-1]
        diagonal.append(float(z @ basis[-1]))
        for _ in range(2):
            for q in basis:
                z = z - (q @ z) * q
        beside.append(float(np.linalg.norm(z)))
        basis.append(z / beside[-1])
    nodes, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside[:-1]))
    return nodes, np.square(vectors[0])


def _kernels(e: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return 1 − exp(−eᶻ) and ±1 times its next three derivatives in z, for e = eᶻ."""
    e = np.minimum(e, 650.0)
    law = np.exp(-e)
    first = e * law
    third = first * (1.0 - 3.0 * e + e * e)
    return 1.0 - law, first, first * (e - 1.0), third
