"""What fits the memory budget, and the refusal of what does not."""

from __future__ import annotations

from typing import Any

from mercer.engines.device_memory import free_memory, human, on_gpu
from mercer.errors import MemoryBudgetExceeded

__all__ = ["human", "require_gram", "require_memory"]


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
        f"{cure}, or raise it with `with mercer.config(memory=...):`.",
        needed,
        allowed,
    )


def require_gram(kernel: Any, X: Any, Y: Any) -> None:
    """Raise `MemoryBudgetExceeded` when the matrix k(X, Y) does not fit the budget."""
    n = kernel.domain.size(X)
    m = n if Y is None else kernel.domain.size(Y)
    single = str(getattr(X, "dtype", "")).endswith("float32")
    require_memory(
        n * m * (4 if single else 8),
        f"{kernel!r}: the {n} × {m} matrix",
        "Multiply by it in tiles with mercer.operators.Gram, or use float32 data",
        X,
    )
