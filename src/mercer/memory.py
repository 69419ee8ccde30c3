"""What memory there is, of the budget or of a device, and the refusal of what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from mercer.domains import is_torch
from mercer.errors import MemoryBudgetExceeded
from mercer.settings import get_config, human as human, require_budget, round_up as round_up

SHARE = 0.95  # of what is free; the rest goes to libraries
USUAL_TILE = 2**26  # entries of a tile on a device
LEAST_TILE = 2**16  # entries of a tile below which a device is called full


def on_gpu(X: Any) -> bool:
    """Whether X is a tensor on a GPU."""
    return is_torch(X) and X.is_cuda


def free_memory(X: Any) -> int:
    """Return the bytes that may be allocated where the tensor X lies.

    On a GPU what is free there, what torch holds without use included; elsewhere the budget of
    ``mercer.config(memory=...)``.

    Parameters
    ----------
    X : object
        A tensor, or anything in main memory.
    """
    if not on_gpu(X):
        return get_config().memory
    import torch

    free, _ = torch.cuda.mem_get_info(X.device)
    idle = torch.cuda.memory_reserved(X.device) - torch.cuda.memory_allocated(X.device)
    return int(SHARE * (free + idle))


def free_on(device: Any) -> int:
    """Return what `free_memory` does for tensors of a device; None is main memory."""
    if device is None:
        return get_config().memory
    import torch

    return free_memory(torch.empty(0, device=device))


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
    require_budget(needed, what, cure)


def smaller_rank(needed: int, rank: int) -> str:
    """Return words for the rank that fits the budget, where bytes needed grow in proportion."""
    most = get_config().memory * rank // max(1, needed)
    return f"smaller rank: at most {most} fits" if most else "sample of the rows: no rank fits"


def require_gram(kernel: Any, X: Any, Y: Any) -> None:
    """Raise `MemoryBudgetExceeded` when the matrix k(X, Y) does not fit the budget."""
    n = kernel.domain.size(X)
    m = n if Y is None else kernel.domain.size(Y)
    if n * m * 8 <= free_memory(X):
        return
    single = str(getattr(X, "dtype", "")).endswith("float32")
    require_memory(
        n * m * (4 if single else 8),
        f"{kernel}: the {n} × {m} matrix",
        "Multiply by it in tiles with mercer.operators.Gram, or use float32 data",
        X,
    )


def row_blocks(n: int, row_bytes: int) -> list[slice]:
    """Return blocks of rows of which each takes at most a quarter of the budget."""
    step = max(1, get_config().memory // (4 * max(1, row_bytes)))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)] or [slice(0, 0)]


# ---- A device that is full: smaller steps, or a refusal that says what to do ----


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception of torch says that a device has no memory left."""
    return type(error).__name__ == "OutOfMemoryError"


def run_within_memory(
    work: Callable[[slice], None], n: int, step: int, least: int, what: str, like: Any
) -> None:
    """Call ``work(rows)`` for all n rows, in smaller steps where a device runs out of memory.

    Parameters
    ----------
    work : callable
        Does the work of some rows, or raises torch's error and leaves nothing done.
    n, step, least : int
        All rows, rows at a time, and the fewest to try.
    what : str
        What the work is, for the error.
    like : tensor
        Where it is done.

    Raises
    ------
    MemoryBudgetExceeded
        When the fewest rows are too many.
    """
    start = 0
    while start < n:
        stop = min(start + step, n)
        try:
            work(slice(start, stop))
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
        else:
            start = stop
            continue
        # Here the traceback, and with it what the failed work had allocated, is gone.
        release(like)
        if step <= least:
            free = free_memory(like)
            raise MemoryBudgetExceeded(
                f"{what}: {step} rows at a time are too many for {like.device}, which has "
                f"{human(free)} left. Use fewer centres or right-hand sides, free tensors, "
                "or give arrays, X.cpu().numpy(), to compute in main memory.",
                0,
                free,
            )
        step = max(least, step // 2)


def smaller_tiles(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Let an operation on a bound kernel begin again with smaller tiles where a device is full.

    Parameters
    ----------
    operation : callable
        ``operation(bound, ...)``; makes what it returns afresh, so that it can be begun again.
    """

    @wraps(operation)
    def careful(bound: Any, *arguments: Any, **named: Any) -> Any:
        while True:
            try:
                return operation(bound, *arguments, **named)
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
            entries = (bound.tile_entries or USUAL_TILE) // 4
            if entries < LEAST_TILE:
                free = free_memory(bound._like)
                raise MemoryBudgetExceeded(
                    f"{bound.name}: the {bound.shape[0]} × {bound.shape[1]} matrix, even in small "
                    f"tiles, is too much for {bound._like.device}, which has {human(free)} "
                    "left. Free tensors, use float32 data, or give arrays, X.cpu().numpy(), to "
                    "compute in main memory.",
                    0,
                    free,
                )
            bound.tile_entries = entries
            release(bound._like)

    return careful


def release(like: Any) -> None:
    """Give what torch holds without use back to the device."""
    if on_gpu(like):
        import torch

        torch.cuda.empty_cache()


# ---- What torch says of a full device, said as everywhere: with what was wanted and what to try.


@contextmanager
def named_when_full(what: object, cure: str) -> Iterator[None]:
    """Turn torch's error of a full device into `MemoryBudgetExceeded`.

    For what cannot be cut smaller, or was. Another program may have taken what was free.

    Parameters
    ----------
    what, cure : object, str
        What was wanted, and what to do about it, for the message.
    """
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        told = str(error).partition("\n")[0]
    else:
        return
    # Here the traceback, and with it what had been allocated, is gone.
    raise MemoryBudgetExceeded(
        f"{what}: the device has too little memory left ({told}). {cure}, or give arrays, "
        "X.cpu().numpy(), to compute in main memory.",
        0,
        0,
    )
