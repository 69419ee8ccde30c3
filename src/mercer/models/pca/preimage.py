"""From feature space back to points: a learned ridge map, and fixed points of radial kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import checks
from mercer.domains import Vectors, to_host
from mercer.errors import InvalidInput, who
from mercer.estimator import is_plain_linear
from mercer.kernels import RBF, Attraction, Kernel, Linear, Polynomial, radial_part
from mercer.memory import require_memory, row_blocks
from mercer.operators import gram_of, placed
from mercer.solvers import Cholesky, Linear as System

WORDS = ("auto", "ridge", "fixed_point")
STEPS = 200  # of the fixed point
STILL = 1e-10  # a step below this part of the length scale ends it


def plain_rows(kernel: Kernel, X: Any) -> np.ndarray:
    """Return training points as a dense table, or refuse points that are none."""
    table = isinstance(kernel.domain, Vectors) and (sp.issparse(X) or isinstance(X, np.ndarray))
    if not table or X.ndim != 2:
        raise InvalidInput(
            f"{who()}: a pre-image is a weighted mean of points, and {kernel.domain.name} have no "
            "means. Use a kernel on vectors, or take the training points nearest in transform(X)."
        )
    if not sp.issparse(X):
        return np.asarray(X, dtype=float)
    require_memory(8 * X.shape[0] * X.shape[1], f"{who()}: the dense points", "Use fewer rows")
    return np.asarray(X.toarray(), dtype=float)


def check_preimage(model: Any, kernel: Kernel) -> str:
    """Return "linear", "fixed_point" or "ridge" for what a model asks for, or refuse it."""
    checks.check_parameters(model, "preimage")
    word = model.preimage
    if word == "fixed_point" and radial_part(kernel) is None:
        raise InvalidInput(
            f"{who()}: preimage='fixed_point' needs a radial kernel such as RBF, not {kernel}; "
            "use preimage='ridge' with fit_inverse_transform=True."
        )
    if word == "auto":
        if is_plain_linear(kernel):
            return "linear"
        return "ridge" if radial_part(kernel) is None else "fixed_point"
    return word


def learn_back(
    kernel: Kernel, Z: np.ndarray, X: np.ndarray, alpha: float
) -> tuple[Kernel, np.ndarray]:
    """Return a kernel on projections and C with x ≈ Σᵢ Cᵢ k(zᵢ, z), by ridge regression.

    The kernel is the model's own where it takes rows of any length, as in scikit-learn; where its
    scales belong to columns, the RBF at the median distance of the projections.
    """
    own = _any_length(kernel)
    back = kernel if own else RBF("median").fit_params(Z)
    what = f"{who()}: a ridge fit to {len(Z)} projections"
    K = gram_of(back, Z).stored(2, what, "Fit fewer rows")
    solution = Cholesky().solve(System(K, X, ridge=alpha))
    return back, np.asarray(solution.unwrap())


def _any_length(kernel: Kernel) -> bool:
    plain = kernel if type(kernel) in (Linear, Polynomial) else radial_part(kernel)
    if plain is None:
        return False
    params = plain.get_params(deep=False)
    scalar = all(np.ndim(value) == 0 for value in params.values())
    return scalar and params.get("covariance") is None


def fixed_point(
    kernel: Any, points: np.ndarray, coef: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return z that bring Σᵢ γᵢ k(z, xᵢ) to a maximum, φ(z) nearest to Σᵢ γᵢ φ(xᵢ), and its values.

    k(z, z) is constant, so the distance is least where the sum is largest. With κ the profile and s
    the scaled squared distance, a stationary z is Σ γᵢgᵢxᵢ / Σ γᵢgᵢ, gᵢ = −κ′(sᵢ): the fixed point
    of Mika et al. (NIPS 11, 1999). Coefficients of both signs can make a step go astray: a step is
    halved until the sum does not fall, and a row that cannot improve stays (Honeine, Richard, IEEE
    Signal Processing Mag. 28 (2011), on why it may).
    """
    origin = points.mean(axis=0)  # distances of points far from 0 keep their digits
    points, z = points - origin, start - origin
    value = np.empty(len(z))
    for rows in row_blocks(len(z), 8 * 6 * len(points)):
        z[rows], value[rows] = _climb(kernel, points, coef[rows], z[rows])
    return z + origin, value


def nearest_row(known: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return for each row of Z the position of the nearest known row."""
    out = np.empty(len(Z), dtype=np.intp)
    squares, columns = placed((known * known).sum(axis=1), known.T.copy())
    for rows in row_blocks(len(Z), 16 * len(known)):
        (part,) = placed(Z[rows])
        out[rows] = to_host((squares - 2 * part @ columns).argmin(1))
    return out


def _climb(
    kernel: Any, points: np.ndarray, coef: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    X, C = placed(points, coef)
    field, active = Attraction(kernel, X), np.arange(len(z))

    def pulled(z: np.ndarray, rows: np.ndarray) -> Any:
        if X is points:
            return field(z, C[rows])
        return [to_host(part) for part in field(X.new_tensor(z), C[rows])]

    known = [part.copy() for part in pulled(z, active)]
    value, mass, size, target = known
    for _ in range(STEPS):
        active = active[mass[active] > 1e-12 * size[active]]
        if not len(active):
            break
        step = target[active] / mass[active, None] - z[active]
        done = np.zeros(len(active), dtype=bool)
        moved = np.zeros(len(active))
        part = 1.0
        for _ in range(8):
            left = np.flatnonzero(~done)
            at = z[active[left]] + part * step[left]
            new = pulled(at, active[left])
            better = new[0] >= value[active[left]]
            yes, rows = left[better], active[left[better]]
            z[rows] = at[better]
            for old, now in zip(known, new, strict=True):
                old[rows] = now[better]
            moved[yes] = part * field.lengths(step[yes])
            done[yes] = True
            part /= 2
            if done.all():
                break
        active = active[done & (moved > STILL)]
        if not len(active):
            break
    return z, value
