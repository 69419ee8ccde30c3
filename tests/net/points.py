"""Points of every kind as plain JSON and back: arrays, sparse rows, words, graphs, tables."""

import numpy as np
import scipy.sparse as sp

import mercer
from mercer.domains import Table

_GRAPH = {
    "indptr": np.int64,
    "indices": np.int64,
    "weights": np.float64,
    "node_labels": np.uint64,
    "edge_labels": np.uint64,
    "attributes": np.float64,
}


def encode(value):
    """Return a collection of points, or a part of one, as JSON can hold it."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, np.ndarray):
        entries = [encode(v) for v in value.ravel().tolist()]
        return {"array": entries, "dtype": _dtype(value), "shape": list(value.shape)}
    if sp.issparse(value):
        rows = value.tocoo()
        parts = {"row": rows.row.tolist(), "col": rows.col.tolist(), "data": rows.data.tolist()}
        return {"sparse": parts, "shape": list(value.shape)}
    if isinstance(value, mercer.Graph):
        held = {name: getattr(value, name) for name in _GRAPH}
        held = {name: None if A is None else A.tolist() for name, A in held.items()}
        plain = value.nodes == tuple(range(value.n_nodes))
        nodes = None if plain else list(value.nodes)
        return {"graph": {**held, "directed": value.directed, "nodes": nodes}}
    if isinstance(value, Table):
        return {"table": [[n, encode(value[n])] for n in value.names]}
    if isinstance(value, tuple):
        return {"tuple": [encode(v) for v in value]}
    if isinstance(value, list):
        return [encode(v) for v in value]
    raise TypeError(f"no points: {type(value).__name__}")


def decode(told):
    """Return what `encode` was given."""
    if isinstance(told, list):
        return [decode(v) for v in told]
    if not isinstance(told, dict):
        return told
    if "array" in told:
        flat = np.empty(len(told["array"]), dtype=told["dtype"])
        for i, entry in enumerate(told["array"]):
            flat[i] = decode(entry)
        return flat.reshape(told["shape"])
    if "sparse" in told:
        part = told["sparse"]
        entries = (np.array(part["data"]), (part["row"], part["col"]))
        return sp.coo_array(entries, shape=tuple(told["shape"])).tocsr()
    if "graph" in told:
        return _graph(dict(told["graph"]))
    if "table" in told:
        return Table({name: decode(column) for name, column in told["table"]})
    return tuple(decode(v) for v in told["tuple"])


def _graph(held):
    for name, dtype in _GRAPH.items():
        if held[name] is not None:
            held[name] = np.array(held[name], dtype=dtype)
    return mercer.Graph.from_arrays(**held)


def _dtype(array):
    return "object" if array.dtype.kind == "O" else array.dtype.str
