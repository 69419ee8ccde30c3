"""A Gram matrix that is kept to be changed: in main memory, or on the device that computes it."""

from __future__ import annotations

import numpy as np

from mercer.engines.budget import require_memory
from mercer.engines.device.memory import named_when_full
from mercer.engines.tiles import gram as whole_gram
from mercer.operators import Gram
from mercer.operators.base import OnDevice

__all__ = ["stored_gram"]


def stored_gram(gram: Gram, matrices: int, what: str, cure: str) -> np.ndarray | OnDevice:
    """Return a Gram matrix in float64 that belongs to the caller.

    Parameters
    ----------
    gram : Gram
        Symmetric.
    matrices : int
        How many of its size are needed in all.
    what, cure : str
        What needs them, and what to do where they do not fit, for the message.

    Returns
    -------
    ndarray of shape (n, n), or OnDevice
        Where the kernel is computed.
    """
    n = gram.shape[0]
    bound = None if gram.device is None else gram._bound()
    like = None if bound is None or bound.xp is np else bound._like
    require_memory(8 * n * n * matrices, what, cure, like)
    if bound is not None and like is not None:
        with named_when_full(what, cure):
            out = bound.empty((n, n), wide=True)
        return OnDevice(whole_gram(bound, out=out), symmetric=True)
    K = gram.to_dense()
    given = K is gram.X or not K.flags.owndata or not K.flags.writeable
    return np.array(K, dtype=np.float64, order="C", copy=True if given else None)
