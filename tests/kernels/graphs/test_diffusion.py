"""Diffusion is the matrix exponential: of every small graph, and of large ones column by column."""

import gc
import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import expm
from scipy.special import ive
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mercer
from mercer import Diffusion, Graph, RegularizedLaplacian
from mercer.errors import InvalidInput
from mercer.kernels.graphs import nodes

ATLAS = [G for G in nx.graph_atlas_g() if len(G) and nx.is_connected(G) and len(G) <= 6]


@pytest.fixture
def by_columns(monkeypatch):
    """Let small graphs go the way of large ones."""
    monkeypatch.setattr(nodes, "DENSE_NODES", 0)


def laplacian(A, normalized=False):
    L = np.diag(A.sum(1)) - A
    if normalized:
        root = np.array([d**-0.5 if d > 0 else 0.0 for d in A.sum(1)])
        L = root[:, None] * L * root
    return L


def near(K, expected, tolerance=1e-12):
    assert K.shape == expected.shape
    assert np.abs(K - expected).max(initial=0.0) <= tolerance * np.abs(expected).max(initial=1e-300)


# ------------------------------------------------------------------------- the exponential
def check_atlas():
    rng = np.random.default_rng(0)
    for G in ATLAS:
        A = nx.to_numpy_array(G)
        decay = float(rng.choice([0.1, 1.0, 3.0]))
        X = np.arange(len(A))
        near(Diffusion(G, decay)(X), expm(decay * A), 1e-11)  # expm itself errs by 2e-12
        near(Diffusion(G, decay, True)(X), expm(-decay * laplacian(A)))
        k = Diffusion(G, decay, "normalized")
        near(k(X), expm(-decay * laplacian(A, normalized=True)))
        near(k.diag(X), np.diag(k(X)))


def test_all_connected_graphs_of_the_atlas_up_to_six_nodes():
    assert len(ATLAS) == 143
    check_atlas()


def test_all_of_them_by_columns(by_columns):
    check_atlas()


@pytest.mark.parametrize("way", ["eigenvectors", "columns"])
def test_random_similarities_of_any_sign(way, monkeypatch):
    if way == "columns":
        monkeypatch.setattr(nodes, "DENSE_NODES", 0)
    rng = np.random.default_rng(1)
    for n in (1, 2, 7, 90):
        B = rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.3)
        B = B + B.T + np.diag(rng.standard_normal(n))
        for form in (B, sp.csr_array(B), sp.coo_matrix(B), Graph(B)):
            near(Diffusion(form, 0.4)(np.arange(n)), expm(0.4 * B), 1e-11)
        near(Diffusion(B, 0.4, laplacian=True)(np.arange(n)), expm(-0.4 * laplacian(B)), 1e-11)


def test_rectangles_and_repeated_nodes(by_columns):
    G = nx.karate_club_graph()
    K = expm(0.3 * nx.to_numpy_array(G))
    k = Diffusion(G, 0.3)
    X, Y = [3, 3, 0, 33], [5, 1, 1, 30, 2, 7, 8]
    near(k(X, Y), K[np.ix_(X, Y)])
    near(k(Y, X), K[np.ix_(Y, X)])
    near(k.diag(X), np.diag(K)[X])
    assert k([]).shape == (0, 0) and k([], Y).shape == (0, 7) and k.diag([]).shape == (0,)


def test_parts_of_a_graph_do_not_see_each_other():
    G = nx.disjoint_union(nx.path_graph(3), nx.complete_graph(3))
    G.add_node("alone")
    for flavour in (False, True, "normalized"):
        K = Diffusion(G, 2.0, flavour)(list(G))
        assert np.abs(K[:3, 3:]).max() < 1e-15 and np.abs(K[6, :6]).max() < 1e-15
        assert K[6, 6] == pytest.approx(1.0, abs=1e-14)
    heat = Diffusion(G, 2.0, laplacian=True)(list(G))
    assert np.allclose(heat.sum(1), 1.0, atol=1e-14)  # nothing is lost


def test_no_edges_and_no_nodes():
    assert (Diffusion(Graph(n_nodes=3))([0, 1, 2]) == np.eye(3)).all()
    empty = Diffusion(Graph(n_nodes=0))
    assert empty([]).shape == (0, 0)
    with pytest.raises(InvalidInput, match="it has none"):
        empty([0])


def test_no_edges_by_columns(by_columns):
    near(Diffusion(Graph(n_nodes=3))([0, 1, 2]), np.eye(3))
    near(Diffusion(Graph(np.diag([1.0, 2.0])), 0.5)([0, 1]), np.diag(np.exp([0.5, 1.0])))


def test_renaming_nodes_changes_nothing():
    G = nx.karate_club_graph()
    names = {i: ("member", f"№{(7 * i) % 34}") for i in G}
    H = nx.Graph()
    H.add_nodes_from(names[i] for i in np.random.default_rng(0).permutation(34))
    H.add_weighted_edges_from((names[u], names[v], w) for u, v, w in G.edges(data="weight"))
    X = [0, 5, 33, 5]
    for flavour in (False, True, "normalized"):
        k, h = Diffusion(G, 0.2, flavour), Diffusion(H, 0.2, flavour)
        near(h([names[i] for i in X]), k(X))


# ----------------------------------------------------------------------------- large graphs
@pytest.mark.parametrize("decay", [0.5, 4.0])
def test_a_path_of_20000_nodes_has_bessel_functions(decay):
    n = 20000
    edges = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    X = np.array([9000, 9003, 10000, 10050])
    gaps = np.abs(X[:, None] - X)
    expected = ive(gaps, 2 * decay)  # far from the ends: exp(λA)ᵢⱼ = I(2λ) of order |i − j|
    path = Graph(edges=edges)
    near(Diffusion(path, decay, laplacian=True)(X), expected, 1e-14)
    near(Diffusion(path, decay)(X), np.exp(2 * decay) * expected, 1e-13)
    near(Diffusion(path, decay).diag(X), np.exp(2 * decay) * np.diag(expected), 1e-13)


def test_a_hub_of_5000_nodes_keeps_its_digits():
    # Gershgorin's bound is 5000 where the largest eigenvalue is √5000.
    n = 5001
    star = Graph(edges=np.column_stack([np.zeros(n - 1, dtype=int), np.arange(1, n)]))
    assert Diffusion(star)._matrix().largest == pytest.approx(np.sqrt(n - 1), rel=1e-3)
    s = np.sqrt(n - 1.0)
    K = Diffusion(star, 0.5)([0, 1, 2])
    c, h = np.cosh(0.5 * s), np.sinh(0.5 * s) / s
    near(K, np.array([[c, h, h], [h, 1 + (c - 1) / s**2, (c - 1) / s**2],
                      [h, (c - 1) / s**2, 1 + (c - 1) / s**2]]), 1e-11)  # fmt: skip


def test_a_bound_of_the_spectrum_is_one():
    rng = np.random.default_rng(3)
    for n in (1, 5, 80, 200):
        for density in (0.05, 0.5):
            for sign in (0.0, 1.0):
                B = np.triu(rng.random((n, n)) - 0.5 * sign, 0) * (rng.random((n, n)) < density)
                B = sp.csr_array(B + B.T)
                values = np.linalg.eigvalsh(B.toarray())
                low, high = nodes.NodeMatrix(B).interval
                width = max(values[-1] - values[0], 1e-9)
                assert low <= values[0] + 1e-9 * width and values[-1] - 1e-9 * width <= high
                if n > nodes.SMALL:
                    assert high - values[-1] <= 0.02 * width and values[0] - low <= 0.02 * width


def test_the_series_holds_every_function_to_rounding():
    x = np.linspace(-3.0, 2.0, 1001)
    for f in (lambda t: np.exp(3 * t), lambda t: 1 / (1 + 5 * (t + 3)), lambda t: 0 * t + 2):
        c = nodes.chebyshev(f, -3.0, 2.0)
        got = np.polynomial.chebyshev.chebval((2 * x + 1) / 5, c)
        near(got, f(x), 1e-14)
    with pytest.raises(InvalidInput, match="smaller decay"):
        nodes.chebyshev(lambda t: 1 / (1 + 1e9 * (t + 3)), -3.0, 2.0)


def test_little_memory_gives_the_same_values(by_columns):
    G = nx.random_regular_graph(4, 300, seed=1)
    X = np.arange(300)
    k = Diffusion(G, 0.4)
    K, V = expm(0.4 * nx.to_numpy_array(G, nodelist=list(G))), np.ones((300, 2))
    k = Diffusion(nx.to_scipy_sparse_array(G), 0.4)
    with mercer.config(memory="800kB"):
        assert not k._bind(k.domain.check(X))._small()
        near(k.matmul(X, None, V), K @ V)
        near(k.matmul(X[:40], X, V[:, 0]), K[:40] @ V[:, 0])
        near(k.matmul(np.repeat(X, 2), None, np.repeat(V, 2, 0)), np.repeat(2 * K @ V, 2, 0))
        bound = k._bind(k.domain.check(X))
        W = np.random.default_rng(0).standard_normal((300, 300))
        near(k.theta_vjp(X, W), np.array([(W * (0.4 * nx.to_numpy_array(G) @ K)).sum()]), 1e-10)
        near(bound.tile(slice(5, 9), slice(100, 300)), K[5:9, 100:300])
        near(k.diag(X), np.diag(K))
    with mercer.config(memory="10kB"), pytest.raises(mercer.errors.MemoryBudgetExceeded):
        k.diag(X)


def test_gradient_by_columns(by_columns):
    G = nx.karate_club_graph()
    X, rng = np.array([0, 3, 3, 20]), np.random.default_rng(0)
    for k in (Diffusion(G, 0.3), Diffusion(G, 0.3, True), RegularizedLaplacian(G, 0.3)):
        W, c, h = rng.standard_normal((4, 4)), rng.standard_normal(4), 1e-5
        up, down = k.with_theta(k.theta + h), k.with_theta(k.theta - h)
        slope = (W * (up(X) - down(X))).sum() / (2 * h)
        assert k.theta_vjp(X, W)[0] == pytest.approx(slope, rel=1e-7)
        slope = c @ (up.diag(X) - down.diag(X)) / (2 * h)
        assert k._pull_diag(k.domain.check(X), c)[0] == pytest.approx(slope, rel=1e-6)


# --------------------------------------------------------------------------------- the cache
def test_eigenvectors_are_found_once_and_forgotten_with_the_graph(monkeypatch):
    calls = []
    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda A: calls.append(1) or eigh(A))
    nodes._matrices.clear()
    A = np.diag(np.ones(6), 1)
    k = Diffusion(A + A.T, laplacian=True)
    k([0, 1]), k.with_theta([0.3])([2]), clone(k)([3]), k.diag([1])
    RegularizedLaplacian(k.graph)([0])
    assert len(calls) == 1
    data = pickle.dumps(k)
    assert pickle.loads(data) == k and len(data) < 4000
    assert len(nodes._matrices) == 1
    del k
    gc.collect()
    assert len(nodes._matrices) == 0


def test_a_graph_given_is_kept_itself():
    graph = Graph(edges=[(0, 1)])
    k = Diffusion(graph)
    assert k.graph is graph and isinstance(Diffusion(nx.path_graph(3)).graph, Graph)
    assert Diffusion(graph) == Diffusion(np.array([[0, 1], [1, 0]]))
    k.set_params(graph=nx.path_graph(3), decay=2.0)
    assert isinstance(k.graph, Graph) and len(k.domain) == 3
    with pytest.raises(InvalidInput):
        k.set_params(graph=np.array([[0, 1], [0, 0]]))
    assert len(k.domain) == 3 and k([2]).shape == (1, 1)


# ---------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (np.array([[0.0, 1.0], [2.0, 0.0]]), r"not symmetric.*\(A \+ A.T\) / 2"),
        (np.zeros((2, 3)), "not square"),
        (np.array([[0, np.nan], [np.nan, 0]]), "must be finite"),
        (nx.DiGraph([(0, 1)]), "to_undirected"),
        (Graph(edges=[(0, 1)], directed=True), "directed"),
        (None, "NoneType"),
        ("karate", "give a mercer.Graph"),
        ([[0, "a"], ["a", 0]], "numbers"),
    ],
    ids=range(8),
)
def test_what_is_no_symmetric_matrix_is_named(graph, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        Diffusion(graph)
    assert str(caught.value).startswith("Diffusion")


@pytest.mark.parametrize("decay", [0.0, -1.0, np.nan, np.inf, "fast", None, [1.0]])
def test_bad_decay(decay):
    with pytest.raises(InvalidInput, match="decay"):
        Diffusion(nx.path_graph(3), decay)


@pytest.mark.parametrize("word", [None, "yes", 2, "random walk"])
def test_bad_laplacian(word):
    with pytest.raises(InvalidInput, match="laplacian"):
        Diffusion(nx.path_graph(3), laplacian=word)


def test_negative_weights_have_no_normalized_laplacian():
    A = np.array([[0, -1], [-1, 0]])
    with pytest.raises(InvalidInput, match=r"negative weights.*laplacian=True"):
        Diffusion(A, laplacian="normalized")


@pytest.mark.parametrize("way", ["eigenvectors", "columns"])
def test_overflow_is_named_with_a_decay_that_works(way, monkeypatch):
    if way == "columns":
        monkeypatch.setattr(nodes, "DENSE_NODES", 0)
    G = nx.complete_graph(11)  # largest eigenvalue 10
    with pytest.raises(InvalidInput, match="decay below 70"):
        Diffusion(G, 100.0)([0, 1])
    with pytest.raises(InvalidInput, match="decay below 70"):
        Diffusion(G, 100.0).diag([0, 1])
    assert np.isfinite(Diffusion(G, 69.0)([0, 1])).all()
    assert np.allclose(Diffusion(G, 1e5, laplacian=True)([0, 1]), 1 / 11)
    high = Diffusion(G, 1.0).bounds[0, 1]
    assert np.isfinite(Diffusion(G, 1.0).with_theta([high - 1e-9])([0, 1])).all()
    # A multiple of the identity taken from B divides K by a number.
    shifted = nx.to_numpy_array(G) - 10 * np.eye(11)
    near(Diffusion(shifted, 2.0)([0, 1, 2]), np.exp(-20) * Diffusion(G, 2.0)([0, 1, 2]))


@pytest.mark.parametrize("way", ["eigenvectors", "columns"])
def test_a_signed_laplacian_overflows_too(way, monkeypatch):
    if way == "columns":
        monkeypatch.setattr(nodes, "DENSE_NODES", 0)
    rng = np.random.default_rng(0)
    B = rng.standard_normal((4, 4))
    B = B + B.T
    assert np.linalg.eigvalsh(-laplacian(B))[-1] > 0.1
    k = Diffusion(B, 1.0, laplacian=True)
    assert np.isfinite(k.with_theta(k.bounds[:, 1] - 1e-9)([0, 1])).all()
    with pytest.raises(InvalidInput, match="decay below 117, or weights ≥ 0") as caught:
        Diffusion([[0, -3.0], [-3, 0]], 200.0, laplacian=True)([0])
    assert "or laplacian=True" not in str(caught.value)
    plain = Diffusion(abs(B), 1.0, laplacian=True)
    assert np.exp(plain.bounds[0, 1]) == pytest.approx(1e5)
    large = Diffusion(1e9 * abs(B), 1e-9).bounds[0]
    assert large[0] < large[1]


def test_a_decay_too_large_for_a_series_is_named(by_columns):
    G = nx.path_graph(30)
    k = Diffusion(G, 1.0, laplacian=True)
    with pytest.raises(InvalidInput, match=r"^Diffusion.*use a decay below 2\.5"):
        k.with_theta([np.log(1e9)])([0])
    high = k.with_theta([np.log(2.4e6)])
    assert np.allclose(high([0, 1]), 1 / 30) and np.abs(high.theta_vjp([0], np.ones((1, 1)))) < 1e-9


# -------------------------------------------------------------------------------- in company
def test_the_order_in_which_nodes_came_does_not_matter():
    G, H = nx.Graph([(1, 0), (2, 1)]), nx.path_graph(3)
    assert list(G) == [1, 0, 2] and nx.utils.graphs_equal(G, H)
    near((Diffusion(G) + Diffusion(H))([0, 1, 2]), 2 * Diffusion(H)([0, 1, 2]))
    near((Diffusion(H) * Diffusion(G))([2, 0]), Diffusion(H)([2, 0]) ** 2)
    points = Diffusion(G).domain.check([2, 0])
    near(Diffusion(H)(points), Diffusion(G)(points))


def test_names_and_hashes_are_taken_once(monkeypatch):
    graph = Graph(edges=[(0, 1), (1, 2)], nodes="abc")
    k, calls = Diffusion(graph), []
    key = Graph._key
    monkeypatch.setattr(Graph, "_key", lambda self: calls.append(1) or key(self))
    for _ in range(3):
        assert k.with_theta([0.1]).domain is k.domain
        k(["a", "c"])
    assert not calls


def test_kernels_on_the_same_nodes_combine():
    G, H = nx.path_graph(5), nx.cycle_graph(5)
    K = (Diffusion(G) + 2.0 * RegularizedLaplacian(H) * Diffusion(G, 0.1))([0, 4, 2])
    A, B = nx.to_numpy_array(G), nx.to_numpy_array(H)
    full = expm(A) + 2 * np.linalg.inv(np.eye(5) + laplacian(B)) * expm(0.1 * A)
    near(K, full[np.ix_([0, 4, 2], [0, 4, 2])])
    with pytest.raises(InvalidInput, match="share no points"):
        Diffusion(G) + Diffusion(nx.path_graph(6))


def test_a_column_of_nodes():
    pandas = pytest.importorskip("pandas")
    G = nx.Graph([("here", "there"), ("there", "away")])
    frame = pandas.DataFrame({"site": ["here", "away", "here"], "dose": [0.0, 1.0, 2.0]})
    k = Diffusion(G).on("site") * mercer.RBF().on("dose")
    near(k(frame), Diffusion(G)(list(frame["site"])) * mercer.RBF()(frame[["dose"]]))


def test_few_labels_tell_the_two_clubs_of_a_school_apart():
    G = nx.karate_club_graph()
    club = np.array([G.nodes[i]["club"] for i in G])
    known, rest = [0, 33], [i for i in G if i not in (0, 33)]  # the two heads
    k = Diffusion(G, 0.3, laplacian=True)
    for model in (
        mercer.SVC(kernel=k, C=10.0),
        mercer.KernelRidgeClassifier(kernel=k, alpha=0.1),
        mercer.GaussianProcessClassifier(kernel=k),
        mercer.KernelLogisticRegression(kernel=RegularizedLaplacian(G, 1.0)),
    ):
        assert model.fit(known, club[known]).score(rest, club[rest]) > 0.9
    degree = np.array([d for _, d in G.degree()], dtype=float)
    gp = mercer.GaussianProcessRegressor(kernel=k).fit(known, degree[known])
    mean, std = gp.predict(rest, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    k = Diffusion(G, 3.0, laplacian="normalized")
    found = mercer.KernelKMeans(2, kernel=k, random_state=0).fit_predict(np.arange(34)) == 1
    share = np.mean(found == (club == "Officer"))
    assert max(share, 1 - share) > 0.9


def test_grid_search_and_saving(tmp_path):
    G = nx.relabel_nodes(nx.karate_club_graph(), lambda i: f"member {i}")
    club = [G.nodes[i]["club"] for i in G]
    search = GridSearchCV(
        mercer.SVC(kernel=Diffusion(G, 1.0, laplacian=True)), {"kernel__decay": [0.1, 1.0]}, cv=3
    ).fit(list(G), club)
    model = search.best_estimator_
    mercer.save(model, tmp_path / "club.mercer")
    again = mercer.load(tmp_path / "club.mercer")
    assert (again.decision_function(list(G)) == model.decision_function(list(G))).all()
    assert again.kernel_ == model.kernel_
    with pytest.raises(InvalidInput, match="'member 99' is no node"):
        again.predict(["member 99"])
    numbered = mercer.KernelRidge(kernel=Diffusion(nx.path_graph(9))).fit(np.arange(6), np.ones(6))
    mercer.save(numbered, tmp_path / "path.mercer")
    back = mercer.load(tmp_path / "path.mercer")
    assert (back.predict([7, 8]) == numbered.predict([7, 8])).all()
