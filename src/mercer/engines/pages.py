"""Memory of tiles that are made and freed in turn stays with the process."""

from __future__ import annotations

import ctypes
from functools import lru_cache

__all__ = ["keep_pages"]

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
LARGEST = 2**25  # bytes: the largest threshold that glibc takes


@lru_cache(maxsize=1)
def keep_pages() -> None:
    """Let glibc keep up to 64 MB of freed memory, once a process; elsewhere do nothing.

    Otherwise, by what was freed before or by the variable MALLOC_TRIM_THRESHOLD_ that dask sets for
    its workers, it may give every freed tile back to the system. The pages of the next tile are
    then found and cleared anew, and a pass over rows takes three times as long.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc
        return
    mallopt(ctypes.c_int(M_MMAP_THRESHOLD), ctypes.c_int(LARGEST))
    mallopt(ctypes.c_int(M_TRIM_THRESHOLD), ctypes.c_int(2 * LARGEST))
    # Threads other than the first have heaps of 64 MB. One whose only tile is freed goes back to
    # the system, unless the heap before it has less room left than this (heap_trim in arena.c).
    mallopt(ctypes.c_int(M_TOP_PAD), ctypes.c_int(LARGEST))
