"""Computing where the data are: the torch engine on the device of a tensor that was given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

import numpy as np

from mercer.domains.vectors import is_torch, to_host
from mercer.engines.device_guard import named_when_full
from mercer.engines.device_memory import free_memory
from mercer.engines.torch import TorchEngine
from mercer.settings import config, get_config

__all__ = ["computing_on", "follows_data", "room", "where_is"]


def computing_on(device: Any) -> AbstractContextManager:
    """Return options under which everything is computed on a device of torch; None changes nothing.

    ``config(engine="numpy")`` is a wish to stay in main memory, and stronger.

    Parameters
    ----------
    device : torch.device or None
        Where.
    """
    known = device is not None and device.type in ("cpu", "cuda")
    if not known or get_config().engine == "numpy":
        return nullcontext()
    return config(engine="torch", device=str(device))


def where_is(X: Any) -> AbstractContextManager:
    """Return options under which X is worked on: for a tensor, those of its device.

    The rows themselves, checked and in float64, may then be arrays: n × d numbers are little
    beside the n × n that are made of them on the device.

    Parameters
    ----------
    X : object
        Points as the user gave them.
    """
    return computing_on(X.device if is_torch(X) else None)


def room() -> int:
    """Return the bytes that may be allocated where the engine in force computes."""
    if get_config().engine != "torch":
        return get_config().memory
    return free_memory(TorchEngine().asarray(np.zeros(1)))


def follows_data(method: Callable) -> Callable:
    """Let a method compute where its first argument is; tensors come to it as arrays.

    Parameters
    ----------
    method : callable
        Of an estimator, whose first argument X holds points.
    """

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        guard = named_when_full(type(self).__name__, "Fit fewer rows")
        with guard, where_is(args[0] if args else kwargs.get("X")):
            named = {name: to_host(value, name) for name, value in kwargs.items()}
            return method(self, *map(to_host, args), **named)

    return call
