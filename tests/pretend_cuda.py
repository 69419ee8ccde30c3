"""A pretend CUDA device: tensors that compute on the CPU and refuse what CUDA tensors refuse.

Tensors of torch on the CPU mix with arrays without a word, so tests with them cannot see that a
tensor of a GPU was handed to NumPy, or met one in main memory. These say that they are on "cuda:0",
refuse both, and note what is copied to main memory. It is a model of CUDA, not CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["Log", "pretend_cuda", "to_cuda"]

Tensor = torch.Tensor
CUDA, CPU = torch.device("cuda:0"), torch.device("cpu")


class CudaTensor(Tensor):
    """A tensor that says that it is on a GPU."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return _call(function, list(args), dict(kwargs or {}))


CudaTensor.__module__ = "torch"  # as mercer recognises tensors


@dataclass
class Log:
    """What happened on the device: bytes of each copy to main memory, tensors refused."""

    copies: list[int] = field(default_factory=list)
    refused: int = 0  # tensors beyond the limit
    limit: float = float("inf")  # bytes of a tensor beyond which the device is full


_log = Log()


def to_cuda(A: Any) -> Any:
    """Return an array or tensor on the pretend device."""
    return _marked(torch.as_tensor(A).clone())


def _marked(A: Any) -> Any:
    return A.as_subclass(CudaTensor) if isinstance(A, Tensor) else A


def _plain(A: Any) -> Any:
    return Tensor.as_subclass(A, Tensor) if isinstance(A, CudaTensor) else A


def _mapped(f: Callable, A: Any) -> Any:
    if isinstance(A, list | tuple) and not isinstance(A, torch.Size):
        parts = [_mapped(f, a) for a in A]
        return type(A)(parts) if type(A) in (list, tuple) else type(A)(tuple(parts))
    return {k: _mapped(f, a) for k, a in A.items()} if isinstance(A, dict) else f(A)


def _tensors(A: Any) -> Iterator[Tensor]:
    if isinstance(A, dict):
        A = list(A.values())
    if isinstance(A, list | tuple):
        for a in A:
            yield from _tensors(a)
    elif isinstance(A, Tensor):
        yield A


def _asked_for(name: str, args: list, kwargs: dict) -> bool | None:
    """Whether the device is asked for by name, and in its place put the CPU; None without one."""
    asked = None
    if kwargs.get("device") is not None:
        asked = torch.device(kwargs["device"]).type == "cuda"
        kwargs["device"] = CPU
    for i, a in enumerate(args[1:], 1):
        if name == "to" and isinstance(a, str | torch.device):
            asked, args[i] = torch.device(a).type == "cuda", CPU
        elif name == "to" and isinstance(a, Tensor):
            asked = isinstance(a, CudaTensor)
    return asked


def _to_host(A: Tensor) -> Tensor:
    _log.copies.append(A.numel() * A.element_size())
    return _plain(A).clone()


def _call(function: Any, args: list, kwargs: dict) -> Any:
    name = getattr(function, "__name__", "")
    all_tensors = list(_tensors([args, kwargs]))
    remote = [A for A in all_tensors if isinstance(A, CudaTensor)]
    with torch._C.DisableTorchFunction():
        if name == "__get__" and remote:
            what = getattr(function.__self__, "__name__", "")
            known = {"device": CUDA, "is_cuda": True, "is_cpu": False}
            return known[what] if what in known else _marked(function(*args, **kwargs))
        if remote and name in ("numpy", "__array__"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()")
        if remote and name == "cpu":
            return _to_host(args[0])
        if remote and name == "get_device":
            return 0
        asked = _asked_for(name, args, kwargs)
        if name == "as_subclass" or (not remote and not asked):
            return function(*args, **kwargs)
        if name not in ("to", "as_tensor", "copy_") and not name.startswith("new_"):
            _require_one_device(name, args, all_tensors)
        there = bool(remote) if asked is None else asked
        out = function(*_mapped(_plain, args), **_mapped(_plain, kwargs))
        if name in ("to", "as_tensor") and isinstance(args[0], CudaTensor) != there:
            out = out.clone() if there else _to_host(out)
        if _too_large(out, all_tensors):
            _log.refused += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate too much.")
        if kwargs.get("out") is not None:
            return kwargs["out"]
        in_place = name.endswith("_") and not name.endswith("__")
        if in_place or name in ("__iadd__", "__isub__", "__imul__", "__itruediv__"):
            return args[0]
        return _mapped(_marked, out) if there else _mapped(_plain, out)


def _too_large(out: Any, given: list[Tensor]) -> bool:
    """Whether a tensor beyond the limit has been made, and is no view of another."""
    known = {A.untyped_storage().data_ptr() for A in given}
    return any(
        A.numel() * A.element_size() > _log.limit and A.untyped_storage().data_ptr() not in known
        for A in _tensors([out])
    )


def _require_one_device(name: str, args: list, tensors: list[Tensor]) -> None:
    """Refuse what CUDA does: tensors here and there, but for numbers and positions in main memory.

    Values may be written into rows from main memory as well.
    """
    for A in tensors:
        if isinstance(A, CudaTensor) or A.ndim == 0:
            continue
        position = name in ("__getitem__", "__setitem__") and A is not args[0]
        if not position:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"cuda:0 and cpu! ({name})"
            )


class _Everywhere(TorchFunctionMode):
    """Functions that make tensors, such as ``torch.zeros(3, device="cuda")``, make them there."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return _call(function, list(args), dict(kwargs or {}))


@contextmanager
def pretend_cuda(free: int = 2**37, limit: float = float("inf")) -> Iterator[Log]:
    """Let torch have one GPU for a while.

    Parameters
    ----------
    free : int, default=2**37
        Bytes that it says are free.
    limit : float, default=inf
        Bytes of one tensor for which it turns out to be too full.
    """
    generator = torch.Generator
    cuda = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "mem_get_info": lambda device=None: (free, 2**38),
        "memory_reserved": lambda device=None: 0,
        "memory_allocated": lambda device=None: 0,
        "empty_cache": lambda: None,
        "synchronize": lambda device=None: None,
        "get_device_properties": lambda device=None: SimpleNamespace(multi_processor_count=100),
    }
    _log.copies.clear()
    _log.limit, _log.refused = limit, 0
    with (
        mock.patch.multiple(torch.cuda, **cuda),
        mock.patch.object(torch, "Generator", lambda device="cpu": generator()),
        mock.patch("mercer.engines.device.fused._runs_on", lambda device: False),
        _Everywhere(),
    ):
        yield _log
    _log.limit = float("inf")
