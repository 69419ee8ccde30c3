"""Whether a matrix that only the user vouches for can be a Gram matrix."""

from __future__ import annotations

import numpy as np

from mercer.errors import NotPositiveDefinite
from mercer.kernels import Kernel
from mercer.solvers import factor

__all__ = ["JUDGED", "check_definite"]

JUDGED = 2000  # rows up to which a matrix that only the user vouches for is tested
INDEFINITE = 1e-7  # an eigenvalue below minus this part of the trace is not even that of float32


def check_definite(kernel: Kernel, K: np.ndarray, owner: str) -> None:
    """Refuse a matrix that is indefinite beyond rounding: one factorisation tells.

    Parameters
    ----------
    kernel : Kernel
        Whose matrix it is said to be.
    K : ndarray of shape (n, n)
        The matrix, in float64; not changed.
    owner : str
        Who asks; the message begins with it.
    """
    slack = INDEFINITE * float(np.trace(K))
    if not np.isfinite(slack):
        return  # the diagonal says it better
    try:
        factor(K, slack if slack > 0 else 1e-300, owner=repr(kernel))
    except NotPositiveDefinite as error:
        low = float(error.smallest_eigenvalue or 0.0) - slack
        raise NotPositiveDefinite(
            f"{owner}: the Gram matrix of {kernel!r} has smallest eigenvalue {low:.6g}, so it is "
            "not positive semidefinite and not that of a kernel. mercer.check_kernel shows a "
            "counter-example; a repaired matrix can be passed as kernel='precomputed'.",
            low,
        ) from None
