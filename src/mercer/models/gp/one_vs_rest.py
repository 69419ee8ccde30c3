"""Several classes as two-class problems, each class against the rest, with one shared kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.models.gp.approximation import Approximation

__all__ = ["OneVsRestApproximation", "one_vs_rest"]


class OneVsRestApproximation(Approximation):
    """One two-class approximation a class; evidences add, since the kernel is the same.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix.
    parts : list of Approximation
        Those of the classes.
    """

    def __init__(self, K: np.ndarray, parts: list[Approximation]):
        super().__init__(
            K,
            log_evidence=sum(part.log_evidence for part in parts),
            mean=np.stack([part.mean for part in parts], axis=1),
            coef=np.stack([part.coef for part in parts], axis=1),
            converged=all(part.converged for part in parts),
            n_iter=max(part.n_iter for part in parts),
            residual=max(part.residual for part in parts),
            message=next((part.message for part in parts if not part.converged), ""),
            start=[part.start for part in parts],
        )
        self.parts = parts

    @property
    def sites(self) -> np.ndarray:
        """Site precisions of the classes, shape (n, C)."""
        return np.stack([part.sites for part in self.parts], axis=1)

    def cotangent(self) -> np.ndarray:
        """Return the sum of the classes' d log Z/dK."""
        total = self.parts[0].cotangent()
        for part in self.parts[1:]:
            total += part.cotangent()
        return total

    def variance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return the latent variances of the classes, shape (m, C)."""
        return np.stack([part.variance(Kx, diag) for part in self.parts], axis=1)


def one_vs_rest(
    K: np.ndarray,
    onehot: np.ndarray,
    weights: np.ndarray | None,
    infer: Callable[..., Approximation],
    link: Any,
    start: list | None = None,
) -> OneVsRestApproximation:
    """Approximate each class against the rest.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix.
    onehot : ndarray of shape (n, C)
        1 in the column of the row's class, 0 elsewhere.
    weights : ndarray of shape (n,) or None
        Powers of the likelihoods.
    infer : callable
        A method for two classes, ``infer(K, t, weights, link, start)``.
    link : {"logit", "probit"} or Link
        The link.
    start : list, optional
        ``start`` of an earlier answer.
    """
    C = onehot.shape[1]
    starts = start if start is not None and len(start) == C else [None] * C
    signs = 2.0 * onehot - 1.0
    return OneVsRestApproximation(
        K,
        [
            infer(K, np.ascontiguousarray(signs[:, c]), weights, link, begin)
            for c, begin in enumerate(starts)
        ],
    )
