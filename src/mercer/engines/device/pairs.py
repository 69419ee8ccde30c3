"""Steps on pairs of variables of many box QPs at once, each on a dense block of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.engines.device.fused import triton_runs_on

WARPS = 2  # of the program of one block


def pair_blocks(
    Q: Any, G: Any, a: Any, lower: Any, upper: Any, wanted: Any, most: int
) -> tuple[Any, Any]:
    """Lower ½dᵀQd + Gᵀd block by block, d the change of a, keeping the sum of a.

    One Triton program a block moves two variables at a time, the partner of the most violating one
    chosen by its gain of second order (Fan, Chen and Lin, 2005); without Triton the compiled loop
    of main memory does.

    Parameters
    ----------
    Q : tensor of shape (P, q, q)
        The blocks, float32 or float64.
    G, a, lower, upper : tensors of float64 of shape (P, q)
        Gradients at a, coefficients, and their box.
    wanted : tensor of shape (P,)
        Violation at which a block is left.
    most : int
        Steps on a block at most.

    Returns
    -------
    a : tensor of shape (P, q)
        The coefficients after it.
    steps : tensor of int of shape (P,)
        Steps taken.
    """
    if triton_runs_on(Q):
        return _on_device(Q, G, a, lower, upper, wanted, most)
    return _in_main_memory(Q, G, a, lower, upper, wanted, most)


def _on_device(
    Q: Any, G: Any, a: Any, lower: Any, upper: Any, wanted: Any, most: int
) -> tuple[Any, Any]:
    import torch

    from mercer.engines.device.triton import pair_steps

    count, q = a.shape
    size = max(16, 1 << (q - 1).bit_length())
    pad = torch.nn.functional.pad
    G, a, lower, upper = (pad(v, (0, size - q)).contiguous() for v in (G, a, lower, upper))
    Q = Q.contiguous()
    steps = torch.zeros(count, dtype=torch.int64, device=Q.device)
    pair_steps[(count,)](
        Q, G, a, lower, upper, wanted.contiguous(), steps, most, q, SIZE=size, num_warps=WARPS
    )
    return a[:, :q], steps


def _in_main_memory(
    Q: Any, G: Any, a: Any, lower: Any, upper: Any, wanted: Any, most: int
) -> tuple[Any, Any]:
    from mercer.jit import pair_steps

    like, (Q, G, a, lower, upper, wanted) = (
        a,
        (np.ascontiguousarray(v.cpu().numpy()) for v in (Q, G, a, lower, upper, wanted)),
    )
    a, steps = a.copy(), []
    for k in range(len(a)):
        block = (Q[k], G[k].copy(), a[k], lower[k], upper[k])
        done, _, _ = pair_steps(*block, a.shape[1], float(wanted[k]), most)
        steps.append(done)
    return like.new_tensor(a), like.new_tensor(steps).long()
