"""Labels have stable codes, equal for equal labels, and what is no label is named."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import networkx as nx
import numpy as np
import pytest

from mercer.domains import Graph, Graphs
from mercer.domains.labels import LabelCodes, code_of, mixed
from mercer.errors import InvalidInput

TRIANGLE = np.ones((3, 3)) - np.eye(3)


def test_equal_labels_have_one_code_and_others_another():
    same = [[1, 1.0, True, np.int64(1), np.float32(1), np.bool_(True)], ["a", np.str_("a")]]
    same += [[0, 0.0, -0.0, False], [0.5, np.float32(0.5)], [(1, "a"), (1.0, np.str_("a"))]]
    for labels in same:
        assert len({code_of(label) for label in labels}) == 1
    other = [1, "1", b"1", (1,), ("1",), 1.5, "", (), ((),), "1.0", -1, 2**70, float(2**70) * 2]
    other += [float("inf"), "é", "e\u0301", "\ud800", (1, 2), ((1, 2),), (1, (2,)), ("12",)]
    other += [("1", "2"), ("1s", "2")]
    assert len({code_of(label) for label in other}) == len(other)


def test_codes_do_not_depend_on_the_process():
    program = "from mercer.domains.labels import code_of; print(code_of('C'), code_of((1, 'x')))"
    outs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
        for path in [":".join(sys.path)]
    }  # fmt: skip
    assert outs == {f"{code_of('C')} {code_of((1, 'x'))}\n"}
    assert code_of("C") == 13365168099191852923  # models that were saved rely on it


def test_mixed_is_one_to_one_and_spreads():
    codes = np.arange(100_000, dtype=np.uint64)
    assert len(np.unique(mixed(codes))) == len(codes)
    bits = (mixed(codes)[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert abs(bits.mean(axis=0) - 0.5).max() < 0.01


@pytest.mark.parametrize("bad", [{1}, 1j, object(), np.datetime64("2020-01-01"), ("a", None)])
def test_illegal_labels_are_named(bad):
    with pytest.raises(InvalidInput, match="labels are text"):
        Graph(n_nodes=2, labels=["a", bad])


def test_vectors_are_no_labels():
    with pytest.raises(InvalidInput, match="attributes"):
        Graph(n_nodes=2, labels=[[1.0, 2.0], [0.0, 1.0]])


def test_labels_of_mixed_types_are_legal():
    graph = Graph(TRIANGLE, labels=["C", 1, ("a", 2.5)])
    assert len(set(graph.node_labels.tolist())) == 3
    assert Graph(TRIANGLE, labels=np.array([1, 2, 1])) == Graph(TRIANGLE, labels=[1, 2.0, True])


@pytest.mark.parametrize("none", [None, float("nan")])
def test_missing_labels_are_named(none):
    G = nx.path_graph(["u", "v", "w"])
    G.nodes["u"]["label"] = "C"
    G.nodes["w"]["label"] = "N"
    if none is not None:
        G.nodes["v"]["label"] = none
    with pytest.raises(InvalidInput, match=r"X\[1\]: 'v' has no label, while 'u' has 'C'"):
        Graphs().check([nx.Graph(), G])
    with pytest.raises(InvalidInput, match=r"Graph: 1 has no label"):
        Graph(n_nodes=2, labels=["C", none])
    G = nx.path_graph(3)
    G.edges[0, 1]["label"] = "single"
    with pytest.raises(InvalidInput, match=r"\(1, 2\) has no label"):
        Graphs().check([G])
    assert Graph(n_nodes=2, labels=[none, none]).node_labels is None


def test_label_codes_are_computed_once():
    codes = LabelCodes()
    assert codes.codes(["a", "b", "a"], "Graph", range(3)) == [code_of(x) for x in "aba"]
    assert dict(codes) == {"a": code_of("a"), "b": code_of("b")}
    assert codes.codes([], "Graph", []) is None


@pytest.mark.parametrize("bad", [Decimal(1), 1 + 0j, ("a", Decimal(1))])
def test_what_equals_a_label_is_none(bad):
    good = ("a", 1) if isinstance(bad, tuple) else 1
    assert bad == good and hash(bad) == hash(good)
    for labels in ([good, bad], [bad, good]):
        with pytest.raises(InvalidInput, match="labels are text"):
            Graph(n_nodes=2, labels=labels)
    graphs = [nx.empty_graph(1), nx.empty_graph(1)]
    for G, label in zip(graphs, (good, bad), strict=True):
        G.nodes[0]["label"] = label
    with pytest.raises(InvalidInput, match=r"X\[1\].*labels are text"):
        Graphs().check(graphs)
