"""Adjacency matrices and arrays of edges, read into the plain parts of a graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer.domains.base import check_structure
from mercer.domains.graphs.rows import by_name, is_number
from mercer.domains.labels import LabelCodes, is_hashable, is_missing
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.settings import get_config

NEARLY = 1e-10  # |A − Aᵀ| against max|A|: rounding, not a direction
NODE_BYTES = 24  # for a node: degrees, rows and a copy
MOST = 2**53  # numbers of nodes that floats tell apart


class Part(NamedTuple):
    """One graph as rows of neighbours; None stands for weights of one, no labels, no attributes."""

    n: int
    degrees: Any  # of here on lists or arrays, as they were come by
    indices: Any
    weights: Any = None
    labels: Any = None
    edge_labels: Any = None
    attributes: np.ndarray | None = None
    directed: bool = False


def is_networkx(item: Any) -> bool:
    """Whether an object is a graph of networkx, which is not imported for that."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(item, networkx.Graph)


def attribute_rows(rows: Any, where: str, names: Sequence[Any]) -> np.ndarray:
    """Return attributes as n rows of d finite numbers, or say which node is different."""
    if not (isinstance(rows, np.ndarray) and rows.ndim == 2):
        rows = [np.ravel(row) for row in rows]
        for i, row in enumerate(rows):
            if len(row) != len(rows[0]):
                raise InvalidInput(
                    f"{where}: node {names[i]!r} has {len(row)} attributes and node {names[0]!r} "
                    f"has {len(rows[0])}; give every node a vector of one length."
                )
        rows = np.array(rows).reshape(len(rows), -1)
    if rows.dtype.kind not in "fiub" and not (rows.dtype.kind == "O" or rows.size == 0):
        raise InvalidInput(f"{where}: attributes of type {rows.dtype}; they must be numbers.")
    try:
        rows = rows.astype(np.float64) + 0.0
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{where}: attributes must be numbers, a vector for each node."
        ) from None
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidInput(
            f"{where}: the attributes of node {names[i]!r} hold NaN or infinity; fill them in or "
            "leave the node out."
        )
    return rows


# ---------------------------------------------------------------------------------- matrices
def part_of_matrix(A: Any, where: str, directed: bool = False) -> Part:
    """Read a square matrix, dense or sparse: entry (i, j) is the weight of i → j, 0 is no edge."""
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise InvalidInput(
            f"{where}: an adjacency of shape {tuple(A.shape)} is not square; for an array of edges "
            "use mercer.Graph(edges=...)."
        )
    if A.dtype.kind not in "fiub":
        raise InvalidInput(f"{where}: an adjacency of type {A.dtype}; its entries must be numbers.")
    if sp.issparse(A):
        A = check_structure(A, where, "the adjacency")
    A = sp.csr_array(A, dtype=np.float64)
    if not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    if (A.data == 0).any():
        A = A.copy()
        A.eliminate_zeros()
    if not np.isfinite(A.data).all():
        at = int(np.argmin(np.isfinite(A.data)))
        i = int(np.searchsorted(A.indptr, at, side="right")) - 1
        raise InvalidInput(
            f"{where}: the weight of edge ({i}, {A.indices[at]}) is {A.data[at]}; weights must be "
            "finite."
        )
    if not directed:
        A = _symmetric(A, where)
    return Part(A.shape[0], np.diff(A.indptr), A.indices, A.data, directed=directed)


def _symmetric(A: sp.csr_array, where: str) -> sp.csr_array:
    """Return A, made symmetric to the bit, or name an entry that differs from its mirror image."""
    gap = abs(A - A.T).tocoo()
    if gap.nnz == 0 or not gap.data.any():
        return A
    worst = int(np.argmax(gap.data))
    i, j = sorted((int(gap.coords[0][worst]), int(gap.coords[1][worst])))
    if gap.data[worst] > NEARLY * float(abs(A.data).max()):
        raise InvalidInput(
            f"{where}: the adjacency is not symmetric: entry ({i}, {j}) is {A[i, j]:g} and "
            f"({j}, {i}) is {A[j, i]:g}. For a directed graph say "
            "mercer.Graph(A, directed=True); for an array of edges, mercer.Graph(edges=...)."
        )
    half = (0.5 * (A + A.T)).tocsr()
    half.sort_indices()
    return half


# ------------------------------------------------------------------------------------- edges
def part_of_edges(
    edges: Any,
    where: str,
    n_nodes: int | None = None,
    weights: Any = None,
    edge_labels: Any = None,
    directed: bool = False,
) -> Part:
    """Read rows (u, v) or (u, v, weight) of node numbers; parallel edges add their weights."""
    u, v, weights = _columns(edges, weights, where)
    top = int(max(u.max(), v.max())) + 1 if len(u) else 0
    if n_nodes is None:
        n_nodes = top
        if top > 1000 * (len(u) + 1000):
            raise InvalidInput(
                f"{where}: {len(u)} edges with a node {top - 1}. Nodes are numbered from 0; say "
                "n_nodes, or number the nodes anew and give their names as nodes=..."
            )
    elif top > n_nodes:
        raise InvalidInput(f"{where}: edges hold the node {top - 1}, of {n_nodes} nodes from 0.")
    _check_memory(n_nodes, where)
    codes = None
    if edge_labels is not None:
        names = list(zip(u.tolist(), v.tolist(), strict=True))
        edge_labels = by_name(edge_labels, names, "edge_labels", mirrored=not directed)
        if len(edge_labels) != len(u):
            raise InvalidInput(f"{where}: {len(edge_labels)} edge labels for {len(u)} edges.")
        codes = LabelCodes().codes(list(edge_labels), where, names)
    return _merged(u, v, weights, codes, n_nodes, directed, where)


def _check_memory(n: int, where: str) -> None:
    """Refuse more nodes than the budget has place for, before arrays of them are made."""
    needed, allowed = NODE_BYTES * n, get_config().memory
    if needed > allowed:
        raise MemoryBudgetExceeded(
            f"{where}: {n} nodes need {needed / 1e9:.1f} GB, but the memory budget is "
            f"{allowed / 1e9:.1f} GB. Give the nodes that edges join numbers of their own, or "
            "raise it with `with mercer.config(memory=...):`.",
            needed,
            allowed,
        )


def _columns(edges: Any, weights: Any, where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    try:
        E = np.asarray(edges)
    except ValueError:
        E = np.zeros((1, 0))  # rows of several lengths
    if E.size == 0 and E.shape[:1] == (0,):
        E = np.zeros((0, 2), dtype=np.int64)
    if E.ndim != 2 or E.shape[1] not in (2, 3) or E.dtype.kind not in "fiu":
        raise InvalidInput(
            f"{where}: edges must be rows (u, v) or (u, v, weight) of numbers, one for each edge; "
            f"got an array of shape {E.shape} and type {E.dtype}."
        )
    ends = E[:, :2]
    if E.dtype.kind == "f" and not (np.isfinite(ends).all() and (ends == np.floor(ends)).all()):
        raise InvalidInput(f"{where}: edges hold a node that is no whole number.")
    if len(ends) and ends.min() < 0:
        raise InvalidInput(f"{where}: edges hold the node {ends.min():g}; count from 0.")
    if len(ends) and ends.max() >= MOST:
        raise InvalidInput(
            f"{where}: edges hold the node {ends.max():g}. Number the nodes from 0, and give their "
            "names as nodes=..."
        )
    u, v = np.ascontiguousarray(ends.T.astype(np.int64))
    if weights is None:
        weights = E[:, 2] if E.shape[1] == 3 else np.ones(len(E))
    elif E.shape[1] == 3:
        raise InvalidInput(f"{where}: weights are given twice, in edges and in weights.")
    try:
        weights = np.asarray(weights, dtype=np.float64)
    except (OverflowError, TypeError, ValueError):
        raise InvalidInput(f"{where}: weights must be numbers, one for each edge.") from None
    if weights.shape != (len(E),):
        raise InvalidInput(
            f"{where}: weights of shape {weights.shape} for {len(E)} edges; give one for each."
        )
    if not np.isfinite(weights).all():
        at = int(np.argmin(np.isfinite(weights)))
        raise InvalidInput(
            f"{where}: the weight of edge ({u[at]}, {v[at]}) is {weights[at]}; weights must be "
            "finite."
        )
    return u, v, weights


def _merged(
    u: np.ndarray,
    v: np.ndarray,
    weights: np.ndarray,
    codes: Any,
    n: int,
    directed: bool,
    where: str,
) -> Part:
    """Put undirected edges into both rows, and parallel ones together."""
    labels = None if codes is None else np.array(codes, dtype=np.uint64)
    if not directed:
        keys = np.minimum(u, v) * n + np.maximum(u, v)
        twice = np.intersect1d(keys[u < v], keys[u > v])
        if len(twice):
            a, b = divmod(int(twice[0]), n)
            raise InvalidInput(
                f"{where}: edges hold ({a}, {b}) and ({b}, {a}); an undirected edge is given once. "
                "Keep the rows with u <= v, or say directed=True."
            )
        back = np.flatnonzero(u != v)
        u, v = np.concatenate([u, v[back]]), np.concatenate([v, u[back]])
        weights = np.concatenate([weights, weights[back]])
        labels = None if labels is None else np.concatenate([labels, labels[back]])
    keys = u * n + v
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    sums = np.add.reduceat(weights[order], first) if len(first) else weights[:0]
    if labels is not None:
        labels = labels[order]
        same = labels == np.repeat(labels[first], np.diff(first, append=len(labels)))
        if not same.all():
            a, b = divmod(int(keys[np.argmin(same)]), n)
            raise InvalidInput(
                f"{where}: parallel edges ({a}, {b}) have different labels; parallel edges become "
                "one edge, so give them one label."
            )
        labels = labels[first]
    rows, columns = np.divmod(keys[first], max(n, 1))
    return Part(
        n, np.bincount(rows, minlength=n), columns, sums, edge_labels=labels, directed=directed
    )


# ---- Graphs of networkx, read into plain parts: which attributes say what ----


SHOWN = 8  # names of attributes in a message


def part_of_networkx(
    G: Any,
    where: str,
    codes: LabelCodes,
    label: Any = "label",
    attributes: Any = None,
    weight: Any = "weight",
    edge_label: Any = "label",
) -> Part:
    """Read a Graph, DiGraph, MultiGraph or MultiDiGraph; parallel edges add their weights."""
    around = dict(G.adjacency())
    names = list(around)
    data = dict(G.nodes(data=True))
    if list(data) != names:
        data = {name: data[name] for name in names}
    rows = around.values()
    indices = list(chain.from_iterable(rows))
    if names != list(range(len(names))):
        position = dict(zip(names, range(len(names)), strict=True))
        indices = list(map(position.__getitem__, indices))
    weights = edge_codes = None
    said = any(chain.from_iterable([row.values() for row in rows]))  # more than that they are
    if said or (weight, edge_label) != ("weight", "label"):
        weights, edge_codes = _edge_data(G, around, where, codes, weight, edge_label)
    if label != "label":
        _check_known(data.values(), label, f"{where}: no node")
    labels = _labels(data.values(), label, where, names)
    node_codes = None
    if labels and (labels[0] is not None or any(x is not None for x in labels)):
        node_codes = codes.codes(labels, where, names)
    vectors = (
        None if attributes is None else _vectors(list(data.values()), attributes, where, names)
    )
    degrees = list(map(len, rows))
    directed = G.is_directed()
    return Part(len(names), degrees, indices, weights, node_codes, edge_codes, vectors, directed)


def _edge_data(
    G: Any, around: dict, where: str, codes: LabelCodes, weight: Any, edge_label: Any
) -> tuple[list, list[int] | None]:
    """Return the weights and the codes of the labels of all edges, row by row."""
    ends = [(u, v) for u, row in around.items() for v in row]
    edges = [edge for row in around.values() for edge in row.values()]
    several = G.is_multigraph()
    data = [d for edge in edges for d in edge.values()] if several else edges
    for key, default in ((weight, "weight"), (edge_label, "label")):
        if key != default:
            _check_known(data, key, f"{where}: no edge", whole=default == "weight")
    if several:
        weights = [_total([d.get(weight, 1.0) for d in edge.values()], where) for edge in edges]
        bundles = [
            _labels(edge.values(), edge_label, where, [end] * len(edge))
            for edge, end in zip(edges, ends, strict=True)
        ]
        labels = _one_label(bundles, ends, where)
    else:
        weights = [edge.get(weight, 1.0) for edge in edges]
        labels = _labels(edges, edge_label, where, ends)
    return weights, codes.codes(labels, where, ends)


def _check_known(data: Iterable[dict], key: Any, nobody: str, whole: bool = False) -> None:
    """Refuse a name that a user chose and nothing has; None chooses none."""
    data = list(data)
    if key is None or not data:
        return
    for name in [key] if whole or not isinstance(key, list | tuple) else key:
        if not is_hashable(name) or not any(name in d for d in data):
            raise InvalidInput(f"{nobody} has the attribute {name!r}; {_known(data)}.")


def _known(data: Iterable[Mapping]) -> str:
    """Return the names that there are, for messages."""
    names = list(dict.fromkeys(chain.from_iterable(data)))
    more = ", …" if len(names) > SHOWN else ""
    return f"there are {', '.join(map(repr, names[:SHOWN]))}{more}" if names else "there are none"


def _labels(data: Iterable[dict], key: Any, where: str, owners: list) -> list:
    """Return the label of each node or edge, the tuple of all where several names are given."""
    if not isinstance(key, list | tuple):
        return [d.get(key) for d in data]
    rows = [tuple(d.get(name) for name in key) for d in data]
    for owner, row in zip(owners, rows, strict=True):
        gone = [is_missing(value) for value in row]
        if any(gone) and not all(gone):
            raise InvalidInput(
                f"{where}: {owner!r} has no {key[gone.index(True)]!r}, which is a part of its "
                "label; give it one, for example 'none'."
            )
    return [None if all(map(is_missing, row)) else row for row in rows]


def _total(weights: list, where: str) -> float:
    """Return the weight of parallel edges together."""
    bad = [weight for weight in weights if not is_number(weight)]
    if bad:
        raise InvalidInput(
            f"{where}: the weight {repr(bad[0])[:60]} of an edge is a {type(bad[0]).__name__}; "
            "weights must be real numbers that a float can hold."
        )
    return float(sum(map(float, weights)))


def _one_label(bundles: list[list], ends: list[tuple], where: str) -> list:
    """Return the label that parallel edges share."""
    for bundle, (u, v) in zip(bundles, ends, strict=True):
        for label in bundle[1:]:
            if not _same_label(label, bundle[0]):
                raise InvalidInput(
                    f"{where}: the parallel edges between {u!r} and {v!r} have the labels "
                    f"{bundle[0]!r} and {label!r}; parallel edges become one edge, so give them "
                    "one label, or take labels away."
                )
    return [bundle[0] for bundle in bundles]


def _same_label(a: Any, b: Any) -> bool:
    if is_missing(a) or is_missing(b):
        return is_missing(a) and is_missing(b)
    if not (is_hashable(a) and is_hashable(b)):
        return not (is_hashable(a) or is_hashable(b))  # neither is a label, which is said later
    return bool(a == b)


def _vectors(data: list[dict], keys: Any, where: str, names: list) -> np.ndarray:
    """Return the named attributes of every node, side by side."""
    keys = [keys] if isinstance(keys, str) or not isinstance(keys, list | tuple) else list(keys)
    for i, d in enumerate(data):
        for key in keys:
            if key not in d:
                raise InvalidInput(
                    f"{where}: node {names[i]!r} has no attribute {key!r}; {_known(data)}."
                )
    rows = [[x for key in keys for x in np.ravel(d[key])] for d in data]
    return attribute_rows(rows, where, names)
