"""The low-rank preconditioner of conjugate gradients on a device, in the memory of its factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.vectors import to_host
from mercer.engines.budget import require_memory
from mercer.engines.device.memory import named_when_full

__all__ = ["DevicePreconditioner"]

ENTRIES = 2**26  # of the strip of columns that is rewritten at a time


class DevicePreconditioner:
    """P = FᵀF + D as `NystromPreconditioner` solves with it; F stays where it is, and is spent.

    Parameters
    ----------
    F : tensor of shape (r, n)
        The factor, float64; overwritten.
    ridge : float or ndarray of shape (n,)
        D > 0.
    """

    @named_when_full("the preconditioner of conjugate gradients", "Use a smaller rank")
    def __init__(self, F: Any, ridge: float | np.ndarray):
        import torch

        r, n = F.shape
        require_memory(
            8 * (4 * r * r + 2 * min(ENTRIES, r * n)),
            f"ConjugateGradients: a preconditioner of rank {r}",
            "Use a smaller rank",
            F,
        )
        self._root = F.new_tensor(1.0 / np.sqrt(ridge))
        F *= self._root
        s, V = torch.linalg.eigh(F @ F.T)
        s = s.clamp_(min=0.0)
        s += r * np.finfo(np.float64).eps * (s.max() if r else 0.0)
        turned = (V / (1.0 + s).sqrt()).T
        step = max(1, ENTRIES // max(1, r))
        for start in range(0, n, step):
            F[:, start : start + step] = turned @ F[:, start : start + step]
        self._W = F

    def solve(self, R: np.ndarray) -> np.ndarray:
        """Return P⁻¹ R = D^(−½)(I − WᵀW)D^(−½) R: two products on the device.

        Parameters
        ----------
        R : ndarray of shape (n,) or (n, t)
            Right-hand sides; not changed.

        Returns
        -------
        ndarray
            Same shape as R.
        """
        root = self._root if R.ndim == 1 or self._root.ndim == 0 else self._root[:, None]
        scaled = self._W.new_tensor(np.ascontiguousarray(R)) * root
        scaled -= self._W.T @ (self._W @ scaled)
        return to_host(scaled * root)
