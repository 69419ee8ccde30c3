"""Collections of graphs of several kinds: what may stand side by side, and who refuses it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import mercer
from mercer.domains import Graph, GraphCollection, Graphs
from mercer.errors import InvalidInput, ModelFileError

check = Graphs().check
TRIANGLE = np.ones((3, 3)) - np.eye(3)


def refusal(X) -> str:
    with pytest.raises(InvalidInput) as caught:
        check(X)
    return str(caught.value)


def test_attributes_of_several_lengths_stay_with_their_graphs():
    two, three = (Graph(n_nodes=2, attributes=np.ones((2, d))) for d in (2, 3))
    graphs = [two, Graph(n_nodes=1), three, Graph()]
    X = check(graphs)
    assert list(X) == graphs and X == check(graphs) and check(graphs[:2]) == X.take([0, 1])
    assert X.take([0, 3]).attributes.shape == (2, 2) and X.take([1]).attributes.shape == (1, 0)
    assert check([two, Graph()]).joined(check([three])) == check([two, Graph(), three])
    arrays = {name: getattr(X, name) for name in X._arrays}
    assert GraphCollection.from_arrays(**arrays) == X
    for row, column, value in ((0, 0, np.inf), (0, 2, 1.0), (2, 1, -np.inf), (3, 2, np.nan)):
        spoilt = X.attributes.copy()
        spoilt[row, column] = value
        with pytest.raises(ModelFileError, match="attributes"):
            GraphCollection.from_arrays(**{**arrays, "attributes": spoilt})
    with pytest.raises(ModelFileError, match="attributes"):
        wide = np.column_stack([X.attributes, np.full(5, np.inf)])
        GraphCollection.from_arrays(**{**arrays, "attributes": wide})
    with pytest.raises(ModelFileError, match="attributes"):
        Graph.from_arrays(**{**two._arrays(), "attributes": np.array([[1, np.inf], [1, np.inf]])})


def test_kernels_that_do_not_look_at_attributes_take_all():
    bare, two = Graph(edges=[(0, 1)]), Graph(edges=[(0, 1)], attributes=np.eye(2))
    one = Graph(edges=[(0, 1)], attributes=[[1.0], [2.0]])
    graphs = [bare, two, one]
    kernels = [
        mercer.VertexHistogram(), mercer.WeisfeilerLehman(1), mercer.ShortestPath(),
        mercer.NeighborhoodHash(1), mercer.Graphlet(3), mercer.RandomWalk(0.1),
    ]  # fmt: skip
    for k in kernels:
        K = k([bare] * 3)
        np.testing.assert_array_equal(k(graphs), K)
        np.testing.assert_array_equal(k(graphs[:1], graphs[1:]), K[:1, 1:])
    paths = mercer.AttributedPath(mercer.RBF(1.0))
    K = paths([two, two]) + mercer.WeisfeilerLehman(1)([two, two])
    np.testing.assert_array_equal((mercer.WeisfeilerLehman(1) + paths)([two, two]), K)
    model = mercer.SVC(mercer.WeisfeilerLehman(1)).fit([bare, two, Graph(), Graph()], [0, 0, 1, 1])
    assert model.predict([one]).tolist() == [0]


@pytest.mark.parametrize(
    "graphs",
    [
        [Graph(TRIANGLE), Graph(TRIANGLE, labels=[1, 2, 3])],
        [Graph(edges=[(0, 1)]), Graph(edges=[(0, 1)], edge_labels=["x"])],
        [nx.path_graph(2), nx.DiGraph([(0, 1)])],
    ],
)
def test_messages_name_their_owner_once(graphs):
    text = refusal(graphs)
    assert text.startswith("Graphs: X[") and text.count("Graphs:") == 1
    assert "X[0]" in text and "X[1]" in text


def test_predictions_speak_of_training_graphs():
    G = nx.path_graph(3)
    nx.set_node_attributes(G, dict(enumerate("OCO")), "element")
    labelled = Graph.from_networkx(G, label="element")
    graphs = [labelled, labelled, Graph(n_nodes=1, labels="C"), Graph(n_nodes=1, labels="O")]
    model = mercer.SVC(mercer.WeisfeilerLehman(1)).fit(graphs, [0, 0, 1, 1])
    with pytest.raises(InvalidInput, match=r"the training graphs.*from_networkx\(G, label="):
        model.predict([G])
