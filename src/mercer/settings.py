"""The few options that concern execution: memory budget, engine, threads, progress."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, MemoryBudgetExceeded, naming

__all__ = ["Settings", "config", "get_config", "parse_memory"]

ENGINES = ("auto", "numpy", "torch", "dask")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_UNITS_SI = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_memory(value: int | float | str) -> int:
    """Bytes meant by a number or by text such as ``"500MB"``, ``"2GB"`` or ``"1.5GiB"``.

    Examples
    --------
    >>> parse_memory("2GB"), parse_memory("1KiB"), parse_memory(10)
    (2000000000, 1024, 10)
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)(I?)B?\s*", value.upper())
        if match:
            unit = match[2]
            scale = _UNITS[unit] if match[3] or not unit else _UNITS_SI[unit]
            value = float(match[1]) * scale
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**62:
        raise InvalidInput(
            f"config: memory={value!r} is not an amount of memory; "
            "give bytes or text such as '500MB', '2GB' or '1.5GiB'."
        )
    return int(value)


def _available_cores() -> int:
    """Cores this process may use: its affinity, its container's quota, the usual thread limits."""
    try:
        counts = [len(os.sched_getaffinity(0))]
    except AttributeError:  # macOS and Windows have no affinity call
        counts = [os.cpu_count() or 1]
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        counts.append(math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):  # no such file, or "max"
        pass
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        limit = os.environ.get(name, "")
        if limit.isdigit():
            counts.append(int(limit))
    return max(1, min(counts))


def _physical_memory() -> int:
    """Memory of the machine or of the container, whichever is smaller."""
    sizes = []
    try:
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        sizes.append(8 * 2**30)
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            sizes.append(int(Path(name).read_text()))
        except (OSError, ValueError):
            continue
    return min(sizes)


@dataclass(frozen=True)
class Settings:
    """The options in force: memory in bytes, engine, device, threads, progress on stderr."""

    memory: int
    engine: str = "auto"
    threads: int = 1
    progress: bool = False
    device: str = "auto"


_default = Settings(memory=int(0.7 * _physical_memory()), threads=_available_cores())
_current: ContextVar[Settings | None] = ContextVar("mercer_settings", default=None)


def get_config() -> Settings:
    """Return the options in force here.

    Examples
    --------
    >>> import mercer
    >>> with mercer.config(memory="2GB"):
    ...     mercer.get_config().memory
    2000000000
    """
    return _current.get() or _default


def _engine(value: Any) -> str:
    if value not in ENGINES:
        legal = ", ".join(map(repr, ENGINES))
        raise InvalidInput(f"config: engine={value!r}; legal: {legal}.")
    return str(value)


def _threads(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"config: threads={value!r}; give a whole number ≥ 1.")
    return value


def _progress(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):  # "no" is true
        raise InvalidInput(f"config: progress={value!r}; give True or False.")
    return bool(value)


def _device(value: Any) -> str:
    name = str(value) if type(value).__module__ == "torch" else value
    if not isinstance(name, str) or not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise InvalidInput(
            f"config: device={name!r}; legal: 'auto', 'cpu', 'cuda', 'cuda:1' and so on."
        )
    return name


_READERS: dict[str, Callable[[Any], Any]] = {
    "memory": parse_memory,
    "engine": _engine,
    "threads": _threads,
    "progress": _progress,
    "device": _device,
}


class _Unchanged:
    """Stands for an option that a call leaves as it is."""

    def __repr__(self) -> str:
        return "unchanged"


UNCHANGED: Any = _Unchanged()


class config:
    """Set options from here on, or inside a ``with`` block, at whose end they are as before.

    ``mercer.config(memory="2GB")`` acts at once and until the next call; ``with
    mercer.config(memory="2GB"):`` acts inside the block. Options that are not given stay, and None
    is the default again: ``mercer.config(memory=None)``. Both concern the thread, or the task of
    asyncio, that calls, and the threads that mercer starts for it. A thread of your own begins with
    the defaults: call `config` there, or start it with ``contextvars.copy_context().run``; so do
    processes of joblib.

    Parameters
    ----------
    memory : int, str or None, optional
        Budget for what mercer allocates, as bytes or text: ``"500MB"``, ``"2GB"``. The default is
        70 % of the memory of the machine or container. What cannot fit is refused before any work.
    engine : {"auto", "numpy", "torch", "dask"} or None, optional
        Where matrices are computed. "auto" follows the data: torch tensors stay on their device,
        dask collections on the workers of their client, everything else is NumPy. With "dask",
        passes over `RowBlocks` run on the workers of the current client as well.
    threads : int or None, optional
        Threads over tiles and, of large matrices, of BLAS; the default is the number of cores
        available to the process, or the limit in ``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS`` or
        ``MKL_NUM_THREADS`` if smaller.
    progress : bool or None, optional
        Report long work on stderr.
    device : str, torch.device or None, optional
        Where the torch engine brings data of NumPy: ``"cpu"``, ``"cuda"``, ``"cuda:1"``. "auto" is
        the first GPU, or the CPU where there is none. A device alone means engine="torch", and
        "auto" alone, after such a device, engine="auto" again.

    Examples
    --------
    >>> import mercer
    >>> with mercer.config(memory="500MB", threads=1):
    ...     K = mercer.RBF()([[0.0], [1.0]])
    >>> mercer.config(progress=False)  # from here on
    config(progress=False)
    """

    @naming
    def __init__(
        self,
        memory: int | str | None = UNCHANGED,
        engine: str | None = UNCHANGED,
        threads: int | None = UNCHANGED,
        progress: bool | None = UNCHANGED,
        device: Any = UNCHANGED,
    ):
        given = {
            "memory": memory,
            "engine": engine,
            "threads": threads,
            "progress": progress,
            "device": device,
        }
        changes: dict = {
            name: getattr(_default, name) if value is None else _READERS[name](value)
            for name, value in given.items()
            if value is not UNCHANGED
        }
        if "device" in changes and "engine" not in changes:
            now = get_config()
            if changes["device"] != "auto":
                changes["engine"] = "torch"
            elif now.device != "auto" and now.engine == "torch":
                changes["engine"] = _default.engine
        self._changes = changes
        self._before: list[Settings | None] = [_current.get()]
        self._made: Settings | None = replace(get_config(), **changes)
        _current.set(self._made)

    def __enter__(self) -> Settings:
        settings = self._made
        if settings is None or settings is not _current.get():  # entered again, or elsewhere
            self._before.append(_current.get())
            settings = replace(get_config(), **self._changes)
            _current.set(settings)
        self._made = None  # the call is a block now
        return settings

    def __exit__(self, *exc) -> None:
        _current.set(self._before.pop())

    def __repr__(self) -> str:
        return f"config({', '.join(f'{n}={v!r}' for n, v in self._changes.items())})"


# ---- What does not fit the budget ----


def human(n: float) -> str:
    """Bytes in words: ``human(2e9)`` is ``'2.0 GB'``."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


def round_up(memory: int) -> str:
    """Return a budget that holds so many bytes: ``round_up(1_500_000)`` is ``'2MB'``."""
    if memory < 10**9:
        return f"{memory // 10**6 + 1}MB"
    return f"{memory // 10**9 + 1}GB"


def require_budget(needed: int, what: str, cure: str) -> None:
    """Raise `MemoryBudgetExceeded` when ``needed`` bytes of main memory exceed the budget."""
    allowed = get_config().memory
    if needed > allowed:
        raise MemoryBudgetExceeded(
            f"{what} needs {human(needed)}, but the memory budget is {human(allowed)}. "
            f"{cure}, or raise it with `with mercer.config(memory={round_up(needed)!r}):`.",
            needed,
            allowed,
        )
