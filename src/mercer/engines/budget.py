"""What fits the memory budget, and the refusal of what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines.device import free_memory, human, on_gpu
from mercer.errors import MemoryBudgetExceeded
from mercer.settings import get_config


def round_up(memory: int) -> str:
    """Return a budget that holds so many bytes: ``round_up(1_500_000)`` is ``'2MB'``."""
    if memory < 10**9:
        return f"{memory // 10**6 + 1}MB"
    return f"{memory // 10**9 + 1}GB"


def require_memory(needed: int, what: str, cure: str, like: Any = None) -> None:
    """Raise `MemoryBudgetExceeded` when ``needed`` bytes do not fit the budget.

    The budget is that of the device where the tensor `like` lies, if it is on one.
    """
    allowed = free_memory(like)
    if needed <= allowed:
        return
    if on_gpu(like):
        raise MemoryBudgetExceeded(
            f"{what} needs {human(needed)}, but {like.device} has {human(allowed)} left. "
            f"{cure}, or give arrays, X.cpu().numpy(), to compute in main memory.",
            needed,
            allowed,
        )
    raise MemoryBudgetExceeded(
        f"{what} needs {human(needed)}, but the memory budget is {human(allowed)}. "
        f"{cure}, or raise it with `with mercer.config(memory={round_up(needed)!r}):`.",
        needed,
        allowed,
    )


def smaller_rank(needed: int, rank: int) -> str:
    """Return words for the rank that fits the budget, where bytes needed grow in proportion."""
    most = get_config().memory * rank // max(1, needed)
    return f"smaller rank: at most {most} fits" if most else "sample of the rows: no rank fits"


def require_gram(kernel: Any, X: Any, Y: Any) -> None:
    """Raise `MemoryBudgetExceeded` when the matrix k(X, Y) does not fit the budget."""
    n = kernel.domain.size(X)
    m = n if Y is None else kernel.domain.size(Y)
    single = str(getattr(X, "dtype", "")).endswith("float32")
    needed = n * m * (4 if single else 8)
    if needed <= free_memory(X):
        return
    require_memory(
        needed,
        f"{kernel!r}: the {n} × {m} matrix",
        "Multiply by it in tiles with mercer.operators.Gram, or use float32 data",
        X,
    )


# ---- Powers of two that bring rows of numbers to a size at which squares exist; nothing is
# rounded.


RANGE = 400  # between 2^−RANGE and 2^RANGE squares and their sums are in the range of floats


def largest(*collections: Any) -> float:
    """Return the largest absolute entry of dense or sparse rows of numbers, 0 where none is."""
    arrays = [Z.data if sp.issparse(Z) else Z for Z in collections]
    return max(
        (max(float(a.max(initial=0.0)), -float(a.min(initial=0.0))) for a in arrays), default=0.0
    )


def shifted(Z: Any, power: int) -> Any:
    """Return Z·2^power."""
    if not sp.issparse(Z):
        return np.ldexp(Z, power)
    Z = Z.copy()
    Z.data = np.ldexp(Z.data, power)
    return Z


def moderate(collections: list, top: int = 0) -> tuple[list, int]:
    """Return collections over 2^shift, and the shift: 0 where their largest entry is moderate.

    Elsewhere the largest entry comes to about 2^top.
    """
    size = largest(*collections)
    exponent = int(np.frexp(size)[1])
    if size == 0 or abs(exponent) <= RANGE:
        return collections, 0
    shift = exponent - top
    return [shifted(Z, -shift) for Z in collections], shift
