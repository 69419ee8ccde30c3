"""What torch says of a full device, said as everywhere: with what was wanted and what to try."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mercer.engines.device_memory import out_of_memory
from mercer.errors import MemoryBudgetExceeded

__all__ = ["named_when_full"]


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
