"""What bounds the work, measured in the same process: GEMM and exp in cache, new memory, LAPACK."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from mercer import get_config
from mercer.engines.tiles import CACHED_ENTRIES
from mercer.threads import single_threaded_blas

__all__ = ["first_touch", "gemm_exp", "potrf", "potri"]


def _on_threads(work) -> None:
    threads = get_config().threads
    with single_threaded_blas(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))


def gemm_exp(entries: float, d: int, columns: int = 0, symmetric: bool = False) -> None:
    """Compute so many kernel values in tiles that never leave the cache: product, exp in place.

    With ``columns`` the tile is multiplied by so many columns as well, from both sides when
    ``symmetric``.
    """
    edge = int(CACHED_ENTRIES**0.5)
    threads = get_config().threads
    tiles = max(1, round(entries / edge**2 / threads))
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, edge, d)) / d
    V = rng.standard_normal((edge, max(columns, 1)))

    def work(_: int) -> None:
        tile = np.empty((edge, edge))
        Bt = np.ascontiguousarray(B.T)
        for _ in range(tiles):
            np.matmul(A, Bt, out=tile)
            np.exp(tile, out=tile)
            if columns:
                tile @ V
                if symmetric:
                    tile.T @ V

    _on_threads(work)


def first_touch(n: int) -> np.ndarray:
    """Allocate an n × n float64 matrix and write every page of it."""
    out = np.empty((n, n))
    threads = get_config().threads
    cuts = np.linspace(0, n, threads + 1).astype(int)

    def work(i: int) -> None:
        out[cuts[i] : cuts[i + 1]] = 1.0

    _on_threads(work)
    return out


def potrf(K: np.ndarray) -> None:
    """Factorise in place, the way LAPACK likes it best."""
    _, info = dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
    if info:
        raise ValueError("the benchmark's matrix is not positive definite")


def potri(L: np.ndarray) -> None:
    """Turn a factor made by `potrf` into the inverse, in place."""
    dpotri(L.T, lower=1, overwrite_c=1)
