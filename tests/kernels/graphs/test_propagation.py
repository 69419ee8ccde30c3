"""`Propagation`: bins by the definition, the same in every process, and what they keep."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest

import mercer
from mercer import Graph, Propagation, VertexHistogram
from mercer.domains import Graphs
from mercer.errors import InvalidInput
from mercer.features import SparseCounts
from mercer.kernels.graphs import uniforms
from mercer.testing import double_loop
from mercer.testing.examples.graphs import sample_graphs
from tests.kernels.graphs.test_weisfeiler_lehman import permuted

WATER = Graph(edges=[(0, 1), (0, 2)], labels=["O", "H", "H"])


@pytest.mark.parametrize("metric", ["tv", "hellinger"])
@pytest.mark.parametrize(
    "kind",
    [{}, {"labelled": False}, {"directed": True, "lengths": (0.0, 0.3, 2.0)}, {"width": 2}],
)
def test_against_distributions_over_labels(kind, metric):
    rng = np.random.default_rng(3)
    graphs, new = sample_graphs(rng, 25, **kind), sample_graphs(rng, 6, **kind)
    for width in (1e-3, 0.7):
        k = Propagation(3, width, 2.0 if "width" in kind else None, metric, 5)
        K = k(graphs)
        assert np.array_equal(K, double_loop(k, graphs))
        assert np.array_equal(k(new, graphs), double_loop(k, new, graphs))
        assert np.array_equal(np.diag(K), k.diag(graphs))
        Z = SparseCounts(k).fit_transform(graphs)
        assert np.array_equal((Z @ Z.T).toarray(), K)


def test_small_bins_at_step_zero_are_labels():
    graphs = sample_graphs(np.random.default_rng(0), 30)
    assert np.array_equal(Propagation(0, 1e-9)(graphs), VertexHistogram()(graphs))


def test_wide_bins_tell_only_sizes():
    graphs = sample_graphs(np.random.default_rng(1), 30)
    n = np.array([g.n_nodes for g in graphs])
    assert np.array_equal(Propagation(4, 1e12)(graphs), 5.0 * np.outer(n, n))


def test_by_hand():
    # O and H swap places in water: one O and two H, then one H for sure and two O for sure.
    swapped = Graph(edges=[(0, 1), (0, 2)], labels=["H", "O", "O"])
    assert Propagation(1)([WATER, swapped]).tolist() == [[5 + 5, 4 + 4], [4 + 4, 5 + 5]]
    alone = Graph(edges=[], n_nodes=1, labels=["O"])
    none = Graph(edges=[], n_nodes=0, labels=[])
    assert Propagation(3)([alone, none]).tolist() == [[4, 0], [0, 0]]


def test_order_of_nodes_and_of_graphs_does_not_matter():
    rng = np.random.default_rng(3)
    graphs = sample_graphs(rng, 20)
    plain = [permuted(graph, np.arange(graph.n_nodes)) for graph in graphs]
    shuffled = [permuted(graph, rng.permutation(graph.n_nodes)) for graph in graphs]
    for metric in ("tv", "hellinger"):
        k = Propagation(3, metric=metric)
        assert np.array_equal(k(shuffled, plain), k(plain))
        assert np.array_equal(k([plain[4], plain[7]]), k(plain)[np.ix_([4, 7], [4, 7])])


def test_bins_join_near_distributions_as_a_cauchy_number_does():
    # ⟨p − q, v⟩ is ‖p − q‖₁ times a Cauchy number c: one bin with probability E(1 − |c|·d/w)₊.
    p, q = (Graph(edges=[(0, 1), (0, 2), (0, 3)], labels=names) for names in ("aaab", "aabb"))
    X, n = Graphs().check([p, q]), 1500
    bins = [Propagation(1, 1.0, random_state=i)._counts(X).codes.reshape(8, 2) for i in range(n)]
    share = np.mean([codes[0, 1] == codes[4, 1] for codes in bins])  # the centres after a step
    # d = 2/3 (a third of the mass moves), so ∫₀^{3/2} 2/(π(1 + c²)) (1 − 2c/3) dc
    inside = 2 / np.pi * (np.arctan(1.5) - np.log(1 + 1.5**2) / 3)
    assert abs(share - inside) < 3.5 * np.sqrt(inside * (1 - inside) / n)


def test_uniforms_are_uniform_and_differ_by_all_that_they_depend_on():
    from scipy.stats import kstest

    codes = np.arange(5000, dtype=np.uint64)
    u = uniforms(0, 0, codes, 3)
    assert (u > 0).all() and (u < 1).all() and len(np.unique(u)) == u.size
    assert kstest(u.ravel(), "uniform").pvalue > 1e-3
    assert (
        abs(np.corrcoef(np.column_stack([u, uniforms(1, 0, codes, 3)]).T) - np.eye(6)).max() < 0.06
    )
    assert not np.isin(uniforms(0, 1, codes, 3), u).any()
    assert np.array_equal(uniforms(0, 0, codes[7:9], 2), u[7:9, :2])
    assert np.isfinite(uniforms(2**64 - 1, 2, codes, 1)).all()


def test_another_seed_is_another_kernel_and_the_same_one_stays(tmp_path):
    graphs, y = mercer.datasets.make_molecules(30, random_state=0)
    k = Propagation(3, 0.3, random_state=1)
    assert not np.array_equal(k(graphs), Propagation(3, 0.3, random_state=2)(graphs))
    assert np.array_equal(pickle.loads(pickle.dumps(k))(graphs), k(graphs))
    new = [*graphs[:3], Graph(edges=[(0, 1)], labels=["C", "never seen"], edge_labels=["?"])]
    model = mercer.KernelRidgeClassifier(k.normalized()).fit(graphs[5:], y[5:])
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert np.array_equal(again.decision_function(new), model.decision_function(new))


@pytest.mark.filterwarnings("error")
def test_extreme_weights_and_bins():
    huge = Graph(edges=[(0, 1, 1.7e308), (0, 2, 1.7e308)], labels=["O", "H", "H"])
    assert Propagation(3)([huge], [WATER]).tolist() == Propagation(3)([WATER]).tolist()
    zero = Graph(edges=[(0, 1, 0.0)], labels=["O", "H"])
    assert Propagation(2)([zero]).tolist() == [[6.0]]  # an edge of weight 0 leads nowhere
    assert np.isfinite(Propagation(2, 5e-324)([huge, WATER])).all()


@pytest.mark.parametrize("bad", [-1, 2.0, None, True])
def test_parameters(bad):
    for name in ("iterations", "random_state"):
        with pytest.raises(InvalidInput, match=f"Propagation: {name}="):
            Propagation(**{name: bad})
    if bad != 2.0:
        with pytest.raises(InvalidInput, match="Propagation: width="):
            Propagation(width=None if bad is None else -1.0)
    with pytest.raises(InvalidInput, match=r"attribute_width=0"):
        Propagation(attribute_width=0)
    with pytest.raises(InvalidInput, match="legal are 'tv' and 'hellinger'"):
        Propagation(metric="l2")


def test_graphs_that_are_refused():
    with pytest.raises(InvalidInput, match="graph 1 has an edge of weight -1"):
        Propagation()([nx.path_graph(2), Graph(edges=[(0, 1, -1.0)])])
    with pytest.raises(InvalidInput, match=r"no attributes; .* leave attribute_width out"):
        Propagation(attribute_width=1.0)([WATER])
    two, three = (Graph(edges=[(0, 1)], attributes=np.ones((2, d))) for d in (2, 3))
    k = Propagation(attribute_width=1.0)
    with pytest.raises(InvalidInput, match=r"nodes of X have 2 attributes .* 3; give both"):
        k([two], [three])
    with pytest.raises(InvalidInput, match="Propagation: graph 0 has 2 attributes a node"):
        k.diag([two, three])
    with pytest.raises(InvalidInput, match="beyond the range of floats"):
        k([Graph(edges=[(0, 1)], attributes=np.full((2, 9), 1.7e308))])
