"""Quadratic forms of symmetric matrices on a device, and sums over shuffled matrices there.

The twins of `many` and `joint` for tensors. A device wants few large products: matrices are made
in bands of rows, all columns from the diagonal on at once, and no loop runs over vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mercer.engines.budget import require_memory
from mercer.engines.device_memory import free_memory, run_within_memory
from mercer.engines.precision import full_precision

__all__ = ["device_forms", "gathered_sums", "shuffled_products"]

ROWS = 2048  # of a band: long products, and little below the diagonal is computed in vain
LEAST = 16  # rows that a band is not cut below
ENTRIES = 2**26  # of shuffled matrices at a time


@full_precision()
def device_forms(
    sources: Sequence[Any],
    n: int,
    V: Any,
    t: Any = None,
    *,
    places: Sequence[tuple[int, int, float]] = ((0, 0, 1.0),),
) -> tuple[Any, Any, Any]:
    """Return vᵀTv for every column v of V, T t and the diagonal of T, of each matrix in turn.

    As `many_forms`: the diagonal is left out of the forms and of T t; products are in the dtype of
    V, sums in float64.

    Parameters
    ----------
    sources : sequence
        What makes tiles: with `count`, `workspace` and `tiles(rows, cols, dtype)`, which yields
        tensors that may be written to.
    n : int
        T is n × n.
    V : tensor of shape (n, b)
        The vectors.
    t : tensor of shape (n, c), optional
        Further vectors, of which T t is wanted.
    places : sequence of (int, int, float)
        T is the sum of blocks of the matrices of the sources that begin at a row and a column,
        times a number; T must be symmetric.

    Returns
    -------
    forms : tensor of shape (q, b)
    sums : tensor of shape (q, n, c)
    diagonals : tensor of shape (q, n)
    """
    import torch

    b, c = V.shape[1], 0 if t is None else t.shape[1]
    q = sum(source.count for source in sources)
    wide: dict[str, Any] = {"dtype": torch.float64, "device": V.device}
    forms, sums = torch.zeros((q, b), **wide), torch.zeros((q, n, c), **wide)
    diagonals = torch.zeros((q, n), **wide)
    t = None if t is None else t.to(V.dtype)
    workspace = max(source.workspace for source in sources) + 2
    row = V.element_size() * (len(places) * workspace * n + 3 * b)

    def work(rows: slice) -> None:
        # On and below the diagonal of its first columns a band is 0.
        cols, corner = slice(rows.start, n), slice(0, rows.stop - rows.start)
        found = []
        for source in sources:
            streams = [
                source.tiles(_moved(rows, i), _moved(cols, j), V.dtype) for i, j, _ in places
            ]
            for tiles in zip(*streams, strict=True):
                T = _combined(tiles, places)
                own = T.diagonal().to(torch.float64, copy=True)
                T[:, corner] = T[:, corner].triu(1)
                P = (T @ V[cols]).mul_(V[rows]).sum(0, dtype=torch.float64) if b else forms[0]
                right = below = None
                if t is not None:
                    right, below = (T @ t[cols]).double(), (T.T @ t[rows]).double()
                found.append((own, P, right, below))
        # A band for which there was no memory has left nothing behind.
        for k, (own, P, right, below) in enumerate(found):
            diagonals[k, rows] = own
            forms[k].add_(P, alpha=2.0)
            if t is not None:
                sums[k, rows].add_(right)
                sums[k, cols].add_(below)

    run_within_memory(work, n, _band(n, row, V), LEAST, f"{n} × {n} quadratic forms", V)
    return forms, sums, diagonals


def _band(n: int, row: int, like: Any) -> int:
    """Return the rows of a band, of so many bytes a row."""
    rows = min(n, ROWS, free_memory(like) // (2 * row))
    if rows < min(n, LEAST):
        require_memory(
            2 * min(n, LEAST) * row,
            f"quadratic forms of {like.shape[1]} vectors of {n} numbers",
            "Use fewer permutations, or a rank",
            like,
        )
    return int(max(1, rows))


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)


def _combined(tiles: Sequence[Any], places: Sequence[tuple[int, int, float]]) -> Any:
    total = tiles[0]
    if places[0][2] != 1.0:
        total *= places[0][2]
    for tile, (_, _, factor) in zip(tiles[1:], places[1:], strict=True):
        total.add_(tile, alpha=factor)
    return total


def gathered_sums(A: Sequence[Any], L: Any, P: Any) -> Any:
    """Return Σᵢⱼ Aᵢⱼ L[pᵢ, pⱼ] for every permutation p, a row of P, and every matrix A.

    Parameters
    ----------
    A : sequence of q tensors of shape (n, n)
        What is multiplied with.
    L : tensor of shape (n, n)
        What is shuffled.
    P : tensor of int of shape (b, n)
        The permutations.

    Returns
    -------
    tensor of shape (b, q), float64
    """
    import torch

    n = len(L)
    out = torch.zeros((len(P), len(A)), dtype=torch.float64, device=L.device)

    def work(part: slice) -> None:
        p = P[part]
        if len(p) == 1:  # rows, then columns: both are read in the order they lie
            moved = L.index_select(0, p[0]).index_select(1, p[0])[None]
        else:
            moved = L[p[:, :, None], p[:, None, :]]
        for k, a in enumerate(A):
            out[part, k] = (moved * a).sum((1, 2), dtype=torch.float64)

    step = max(1, ENTRIES // max(1, n * n))
    run_within_memory(work, len(P), step, 1, f"{n} × {n} matrices, shuffled", L)
    return out


@full_precision()
def shuffled_products(F: Any, G: Any, P: Any) -> Any:
    """Return ‖Fᵀ G[p]‖² for every permutation p, a row of P.

    Parameters
    ----------
    F, G : tensors of shapes (n, r) and (n, s)
        Features.
    P : tensor of int of shape (b, n)
        The permutations.
    """
    import torch

    out = torch.zeros(len(P), dtype=torch.float64, device=F.device)

    def work(part: slice) -> None:
        C = F.T @ G[P[part]]
        out[part] = (C * C).sum((1, 2), dtype=torch.float64)

    step = max(1, ENTRIES // max(1, G.numel()))
    run_within_memory(work, len(P), step, 1, f"{G.shape[1]} features of {len(G)} rows, shuffled", G)
    return out
