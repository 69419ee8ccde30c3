"""Rows in the span of centres: landmarks, and passes over the kernel values with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains import is_torch, to_host
from mercer.engines.passes import RowPass, row_pass
from mercer.estimator import SolverOptions, in_double
from mercer.features.landmarks import choose_landmarks
from mercer.features.nystroem import spanning_factor
from mercer.kernels import Kernel
from mercer.memory import named_when_full
from mercer.operators import gram_of
from mercer.settings import get_config

SPANNING = 4000  # centres up to which those that add nothing to the span are left out


@dataclass(frozen=True, eq=False)
class CentredRows:
    """Rows and centres of a fit.

    Parameters
    ----------
    rows : RowPass
        Passes over k(X, Z), the targets and the weights.
    centers : canonical collection
        The centres Z, in float64 and in main memory.
    gram : ndarray or tensor of shape (m, m)
        k(Z, Z) in float64, where the preconditioner is to be.
    """

    rows: RowPass
    centers: Any
    gram: Any


@named_when_full("rows at centres", "Use fewer centres")
def centred_rows(
    kernel: Kernel,
    X: Any,
    T: Any,
    weights: np.ndarray | None,
    options: SolverOptions,
    m: int,
) -> CentredRows:
    """Choose centres and return the passes over the rows.

    Centres that add nothing to the span of the others, within rounding of the largest k(z, z), are
    left out: k(Z, Z) would be singular. Up to 4000 centres in main memory are looked at so, at a
    cost of m³/3 flops, where a quarter of the memory budget has room; others are taken as they are.

    X are points, or blocks that carry their targets (T is None then); tensors are worked on where
    they are, arrays where the engine computes.
    """
    Z, _ = choose_landmarks(
        kernel,
        X,
        m,
        options.centers,
        options.seed,
        sample_weight=weights,
        name="centers",
    )
    if is_torch(X):  # targets and weights go there with each chunk of rows
        Z = Z.to(X) if is_torch(Z) else X.new_tensor(Z)  # of the user's own
    elif isinstance(X, np.ndarray) and isinstance(Z, np.ndarray) and X.dtype.kind == "f":
        Z = Z.astype(X.dtype, copy=False)  # rows in single precision stay so
    wide = in_double(Z)
    gram = gram_of(kernel, wide).matrix_there()
    if isinstance(gram, np.ndarray) and _looked_at(gram):
        kept = np.sort(spanning_factor(gram.T, kernel)[1])
        if len(kept) < len(gram):
            Z, wide = (kernel.domain.take(points, kept) for points in (Z, wide))
            gram = gram[np.ix_(kept, kept)]
    return CentredRows(row_pass(kernel, X, Z, T, weights), to_host(wide), gram)


def _looked_at(gram: np.ndarray) -> bool:
    """Whether centres are few enough for a look at their span; NaN is left to the solver."""
    few = len(gram) <= SPANNING and 2 * gram.nbytes <= get_config().memory // 4
    return few and bool(np.isfinite(gram).all())
