"""Products of float32 tensors in the precision of float32, whatever a user allowed torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["full_precision"]


@contextmanager
def full_precision() -> Iterator[None]:
    """Let products of float32 matrices on a GPU be those of float32: TF32 keeps ten bits."""
    import torch

    matmul = torch.backends.cuda.matmul
    # torch 2.9 brought a switch of its own to each backend, and refuses to mix it with the old.
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"
    exact = "ieee" if name == "fp32_precision" else False
    before = getattr(matmul, name)
    if before == exact:
        yield
        return
    setattr(matmul, name, exact)
    try:
        yield
    finally:
        setattr(matmul, name, before)
