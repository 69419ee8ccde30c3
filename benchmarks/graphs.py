"""Kernels between graphs, from networkx graphs to the matrix: against GraKeL where installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import networkx as nx
import numpy as np
from timing import Row, best_of

from mercer import ShortestPath, WeisfeilerLehman
from mercer.domains import Graphs

__all__ = ["rows"]

FEW, MANY = 500, 4000


def rows() -> list[Row]:
    """Time 500 graphs of 15 to 40 nodes, and 4000."""
    graphs = sample(MANY)
    return [
        refinement(graphs[:FEW], "5", 3),
        refinement(graphs, "20", 1),
        shortest_paths(graphs[:FEW], 3),
    ]


def sample(n: int, density: float = 0.15, kinds: int = 6) -> list[nx.Graph]:
    """Return random graphs of 15 to 40 nodes with one of six labels on each node."""
    rng = np.random.default_rng(0)
    graphs = []
    for seed in range(n):
        G = nx.gnp_random_graph(int(rng.integers(15, 41)), density, seed=seed)
        labels = rng.integers(0, kinds, len(G)).tolist()
        nx.set_node_attributes(G, dict(zip(G, labels, strict=True)), "label")
        graphs.append(G)
    return graphs


def refinement(graphs: list[nx.Graph], target: str, rounds: int) -> Row:
    """Five rounds of refinement, reading included on both sides."""
    kernel = WeisfeilerLehman(5)
    kernel(graphs[:FEW])  # compiles
    ours, reading = best_of(3, lambda: kernel(graphs), lambda: Graphs().check(graphs))
    row = Row(f"WeisfeilerLehman(5), {len(graphs)} graphs", ours, note=f"target {target}×")
    row.note += f"; reading {reading / ours:.0%} of it"
    if find_spec("grakel") is not None:
        row.peer, row.peer_name = best_of(rounds, lambda: peer("wl", graphs))[0], "GraKeL"
        few = graphs[:FEW]
        row.note += f"; largest difference {abs(kernel(few) - peer('wl', few)).max():g}"
    return row


def shortest_paths(graphs: list[nx.Graph], rounds: int) -> Row:
    """Pairs of labels and their distances."""
    kernel = ShortestPath()
    kernel(graphs)  # compiles
    (ours,) = best_of(rounds, lambda: kernel(graphs))
    row = Row(f"ShortestPath, {len(graphs)} graphs", ours, note="target 10×")
    if find_spec("grakel") is not None:
        row.peer, row.peer_name = best_of(1, lambda: peer("sp", graphs))[0], "GraKeL"
        row.note += f"; largest difference {abs(kernel(graphs) - peer('sp', graphs)).max():g}"
    return row


def peer(name: str, graphs: list[nx.Graph]) -> Any:
    """Return GraKeL's matrix."""
    import grakel

    if name == "wl":
        k = grakel.WeisfeilerLehman(n_iter=5, base_graph_kernel=grakel.VertexHistogram)
    else:
        k = grakel.ShortestPath()
    return k.fit_transform(grakel.graph_from_networkx(graphs, node_labels_tag="label"))
