"""Kernels on a CUDA device: agreement with the CPU, Gram matrix and K·V. No rows without a GPU."""

from __future__ import annotations

import numpy as np
from timing import Row, best_of

from mercer import RBF
from mercer.testing import kernel_examples

__all__ = ["rows"]


def rows(n: int = 20000, m: int = 200000, d: int = 20, t: int = 4) -> list[Row]:
    """Time torch tiles on the GPU, against one plain matrix product of the same shape."""
    try:
        import torch
    except ImportError:
        return []
    if not torch.cuda.is_available():
        return []

    def done(work):
        out = work()
        torch.cuda.synchronize()
        return out

    X = torch.randn(n, d, device="cuda", dtype=torch.float64)
    Z = torch.randn(m, d, device="cuda", dtype=torch.float32)
    V = torch.randn(m, t, device="cuda", dtype=torch.float32)
    k = RBF(4.0)
    done(lambda: (k(X), k.matmul(Z, None, V)))
    gram, product, plain = best_of(
        3,
        lambda: done(lambda: k(X)),
        lambda: done(lambda: k.matmul(Z, None, V)),
        lambda: done(lambda: torch.exp(X @ X.T)),
    )
    checked, worst = _agreement(torch)
    name = torch.cuda.get_device_name()
    rate = f"{m * m / product / 1e9:.0f} G pairs/s"
    return [
        Row(
            f"{name}: Gram RBF n={n} float64",
            gram,
            limit=plain,
            limit_name="exp(X Xᵀ)",
            note=f"{checked} kernels agree with the CPU to {worst:.0e}",
        ),
        Row(
            f"{name}: K·V n={m} float32 t={t}",
            product,
            note=rate,
        ),
    ]


def _agreement(torch) -> tuple[int, float]:
    """Return how many example kernels run on the device, and the worst difference from the CPU."""
    rng = np.random.default_rng(0)
    checked, worst = 0, 0.0
    for example in kernel_examples():
        X = example.sampler(rng, 33) if example.sampler else example.kernel.domain.sample(rng, 33)
        if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
            continue
        try:
            K = example.kernel(X)
            G = example.kernel(torch.as_tensor(X, device="cuda"))
        except (ValueError, TypeError):  # wants another width, or is a Python function
            continue
        checked += 1
        worst = max(worst, float(np.abs(G.cpu().numpy() - K).max() / max(1.0, np.abs(K).max())))
    return checked, worst
