import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mercer
from mercer import RBF, Function, distance
from mercer.domains import Table
from mercer.errors import InvalidInput

rng = np.random.default_rng(5)
X = rng.standard_normal((9, 3))
Z = rng.standard_normal((7, 3))
NEW = rng.standard_normal((11, 3))
ALPHA = rng.standard_normal(9)
BETA = rng.standard_normal(7)


def rbf(x, y):
    return float(np.exp(-0.5 * ((x - y) ** 2).sum()))


def shared_letters(a, b):
    return float(len(set(a) & set(b)))


def double_loop(points, coef, new, k=rbf):
    return np.array([sum(c * k(p, x) for c, p in zip(coef, points, strict=True)) for x in new])


# ----------------------------------------------------------------------------------------- values
def test_values_are_the_double_loop():
    f = Function(RBF(), X, ALPHA, offset=0.5)
    np.testing.assert_allclose(f(NEW), double_loop(X, ALPHA, NEW) + 0.5, rtol=1e-12)
    assert len(f) == 9 and f.n_outputs == 1


def test_several_outputs_and_offsets():
    coef = rng.standard_normal((9, 4))
    offset = np.arange(4.0)
    f = Function(RBF(), X, coef, offset)
    want = np.column_stack([double_loop(X, c, NEW) for c in coef.T]) + offset
    np.testing.assert_allclose(f(NEW), want, rtol=1e-11)
    np.testing.assert_allclose(Function(RBF(), X, coef, 2.0)(NEW), want - offset + 2.0, rtol=1e-11)
    one = Function(RBF(), X, coef[:, :1])
    assert one(NEW).shape == (11, 1) and one.n_outputs == 1


@pytest.mark.parametrize(
    "make", [sp.csr_array, sp.csc_matrix, pd.DataFrame], ids=lambda m: m.__name__
)
def test_sparse_and_frames(make):
    f = Function(RBF(), make(X), ALPHA)
    np.testing.assert_allclose(f(make(NEW)), double_loop(X, ALPHA, NEW), rtol=1e-11)
    np.testing.assert_allclose(f(NEW), double_loop(X, ALPHA, NEW), rtol=1e-11)


def test_objects_and_tables():
    words = ["cat", "car", "dog"]
    f = Function(shared_letters, words, [1.0, -2.0, 0.5])
    assert f(["cart"])[0] == 3 - 2 * 3 + 0.5 * 0
    frame = pd.DataFrame({"a": [0.0, 1.0], "site": ["u", "v"]})
    same_site = mercer.FromFunction(lambda r, s: float(r[0] == s[0])).on("site")
    k = RBF().on("a") * same_site
    f = Function(k, frame, [1.0, 10.0])
    np.testing.assert_allclose(f(frame), [1.0, 10.0])
    np.testing.assert_allclose(f(Table({"site": ["v"], "a": [1.0]})), [10.0])
    np.testing.assert_allclose((f + f)(frame), [2.0, 20.0])


def test_float32_stays_float32():
    f = Function(RBF(), X.astype(np.float32), ALPHA, 0.25)
    values = f(NEW.astype(np.float32))
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, double_loop(X, ALPHA, NEW) + 0.25, atol=1e-5)
    assert f.norm() == pytest.approx(Function(RBF(), X, ALPHA).norm(), rel=1e-4)


def test_torch():
    torch = pytest.importorskip("torch")
    points, new = torch.as_tensor(X), torch.as_tensor(NEW)
    f = Function(RBF(), points, ALPHA, 1.0)
    values = f(new)
    assert isinstance(values, torch.Tensor)
    np.testing.assert_allclose(values.numpy(), double_loop(X, ALPHA, NEW) + 1, rtol=1e-11)
    g = Function(RBF(), torch.as_tensor(Z), BETA)
    plain = Function(RBF(), X, ALPHA) + Function(RBF(), Z, BETA)
    np.testing.assert_allclose((f + g)(new).numpy(), plain(NEW) + 1, rtol=1e-11)
    assert float((f + g).norm()) == pytest.approx(plain.norm())
    assert float(f.inner(g)) == pytest.approx(
        Function(RBF(), X, ALPHA).inner(Function(RBF(), Z, BETA))
    )
    assert float((f - f.compress(0.1)).norm()) <= 0.1 * float(f.norm())
    two = Function(RBF(), points, np.column_stack([ALPHA, ALPHA]))
    assert tuple(two.gradient(new).shape) == (11, 3, 2)
    moved = new.clone().requires_grad_(True)
    f(moved).sum().backward()
    np.testing.assert_allclose(moved.grad.numpy(), f.gradient(new).numpy(), rtol=1e-9)
    np.testing.assert_allclose(Function(RBF(), X, ALPHA)(new).numpy(), values.numpy() - 1)


def test_white_noise_belongs_to_the_observation_not_to_the_array():
    f = Function(RBF() + mercer.White(1.0), X, ALPHA)
    np.testing.assert_allclose(f(f.points), f(f.points.copy()))
    np.testing.assert_allclose(f(X), double_loop(X, ALPHA, X), rtol=1e-11)
    words = ("a", "b")
    g = Function(mercer.White(1.0), words, [1.0, 1.0])
    assert (g(g.points) == 0).all()


def test_words_are_resolved_on_the_points():
    f = Function(RBF("median"), X, ALPHA)
    assert f.kernel == RBF("median").fit_params(X)
    assert isinstance(Function("rbf", X, ALPHA).kernel.length_scale, float)


def test_evaluation_stores_no_matrix():
    big = np.linspace(-1, 1, 60_000)[:, None]
    f = Function(RBF(), np.linspace(-1, 1, 1500)[:, None], np.ones(1500) / 1500)
    f(big[:100])  # compile and import what is needed first
    with mercer.config(memory="24MB", threads=1):
        tracemalloc.start()
        f(big)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 40e6 < 60_000 * 1500 * 8


# --------------------------------------------------------------------------------------- geometry
def test_inner_product_and_norm_are_double_sums():
    f, g = Function(RBF(), X, ALPHA), Function(RBF(), Z, BETA)
    want = sum(
        a * b * rbf(x, z)
        for a, x in zip(ALPHA, X, strict=True)
        for b, z in zip(BETA, Z, strict=True)
    )
    assert f.inner(g) == pytest.approx(want, rel=1e-11)
    assert g.inner(f) == pytest.approx(want, rel=1e-11)
    assert isinstance(f.norm(), float)
    assert f.norm() ** 2 == pytest.approx(ALPHA @ RBF()(X) @ ALPHA, rel=1e-12)


def test_norm_of_linear_function_is_that_of_its_weight():
    w = X.T @ ALPHA
    assert Function(mercer.Linear(), X, ALPHA).norm() == pytest.approx(np.linalg.norm(w))


def test_geometry_ignores_offsets_and_takes_outputs_one_by_one():
    coef = rng.standard_normal((9, 3))
    f = Function(RBF(), X, coef, [1.0, 2.0, 3.0])
    K = RBF()(X)
    np.testing.assert_allclose(f.norm(), np.sqrt(np.einsum("it,ij,jt->t", coef, K, coef)))
    single = Function(RBF(), X, ALPHA, 9.0)
    np.testing.assert_allclose(f.inner(single), coef.T @ K @ ALPHA)
    np.testing.assert_allclose(single.inner(f), coef.T @ K @ ALPHA)
    with pytest.raises(InvalidInput, match="outputs"):
        f.inner(Function(RBF(), X, coef[:, :2]))


KERNELS = [
    RBF(0.8),
    mercer.Matern(nu=1.5),
    mercer.Polynomial(3),
    mercer.Linear(),
    mercer.Laplacian(),
]


@pytest.mark.parametrize("k", KERNELS, ids=repr)
def test_reproducing_property(k):
    f = Function(k, X, ALPHA)
    at = [f.inner(Function(k, x[None], [1.0])) for x in NEW]
    np.testing.assert_allclose(at, f(NEW), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("k", KERNELS, ids=repr)
def test_smoothness_bound(k):
    f = Function(k, X, ALPHA, 3.0)
    gap = np.abs(f(NEW)[:, None] - f(NEW)[None, :])
    assert (gap <= f.norm() * distance(k, NEW) * (1 + 1e-9) + 1e-12).all()
    # Tight for f = k(x, ·) − k(x′, ·), at x and x′.
    g = Function(k, NEW[:2], [1.0, -1.0])
    assert np.diff(-g(NEW[:2]))[0] == pytest.approx(g.norm() * distance(k, NEW[:2])[0, 1], rel=1e-8)


@pytest.mark.parametrize("k", KERNELS, ids=repr)
def test_parallelogram_and_cauchy_schwarz(k):
    f, g = Function(k, X, ALPHA), Function(k, Z, BETA)
    left = (f + g).norm() ** 2 + (f - g).norm() ** 2
    assert left == pytest.approx(2 * f.norm() ** 2 + 2 * g.norm() ** 2, rel=1e-10)
    assert abs(f.inner(g)) <= f.norm() * g.norm() * (1 + 1e-12)


# ------------------------------------------------------------------------------------- arithmetic
def test_arithmetic_is_pointwise():
    f, g = Function(RBF(), X, ALPHA, 1.0), Function(RBF(), Z, BETA, -3.0)
    a, b = f(NEW), g(NEW)
    for h, want in [
        (f + g, a + b),
        (f - g, a - b),
        (2 * f, 2 * a),
        (f * 2.5, 2.5 * a),
        (np.float64(2) * f, 2 * a),
        (np.int32(3) * f, 3 * a),
        (f / 4, a / 4),
        (-f, -a),
        (f + 2, a + 2),
        (1 - f, 1 - a),
        (f - 1.5, a - 1.5),
        (sum([f, g, f]), 2 * a + b),
    ]:
        assert isinstance(h, Function)
        np.testing.assert_allclose(h(NEW), want, rtol=1e-10, atol=1e-12)
    assert len(f + g) == 16


def test_same_points_are_merged():
    f = Function(RBF(), X, ALPHA)
    g = Function(f.kernel, f.points, 2 * ALPHA)
    assert len(f + g) == 9
    np.testing.assert_allclose((f + g).coef, 3 * ALPHA)
    assert (f - f).norm() == 0.0


def test_sums_of_mixed_storage():
    f, g = Function(RBF(), X, ALPHA), Function(RBF(), sp.csr_array(Z), BETA)
    want = double_loop(X, ALPHA, NEW) + double_loop(Z, BETA, NEW)
    np.testing.assert_allclose((f + g)(NEW), want, rtol=1e-10)
    np.testing.assert_allclose((g + f)(NEW), want, rtol=1e-10)
    h = Function(RBF(), X.astype(np.float32), ALPHA)
    np.testing.assert_allclose((h + g)(NEW), want, rtol=1e-5)
    kernel = mercer.FromFunction(shared_letters)
    s = Function(kernel, ["ab"], [1.0]) + Function(kernel, ["bc", "c"], [1.0, 2.0])
    assert s(["abc"])[0] == 2 + 2 + 2


def test_what_does_not_add():
    f = Function(RBF(), X, ALPHA)
    with pytest.raises(InvalidInput, match="kernels differ"):
        f + Function(RBF(2.0), X, ALPHA)
    with pytest.raises(InvalidInput, match="fit_params"):
        f.inner(Function(mercer.Linear(), X, ALPHA))
    with pytest.raises(InvalidInput, match="outputs"):
        f + Function(RBF(), X, np.ones((9, 2)))
    with pytest.raises(InvalidInput, match="columns"):
        f + Function(RBF(), X[:, :2], ALPHA)
    for other in ("text", None, [1.0], np.ones(2)):
        with pytest.raises(TypeError):
            f + other
        with pytest.raises(TypeError):
            f * other
    with pytest.raises(TypeError):
        f * f
    with pytest.raises(InvalidInput, match="zero"):
        f / 0
    with pytest.raises(InvalidInput, match="must be a Function"):
        f.inner(3.0)


# --------------------------------------------------------------------------------------- gradient
SMOOTH = [
    RBF(0.7),
    RBF(np.array([0.5, 1.0, 2.0])),
    RBF(covariance=np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.5]])),
    mercer.Matern(nu=1.5),
    mercer.Matern(nu=2.5),
    mercer.Matern(nu=1.8),
    mercer.RationalQuadratic(alpha=0.7),
    mercer.Laplacian(2.0),
    mercer.Linear(),
    mercer.Linear(covariance=np.diag([1.0, 2.0, 3.0])),
    mercer.Polynomial(3, 0.5),
    mercer.Exponential(2.0),
    mercer.Cosine(),
    mercer.Periodic(1.2, 3.0),
    mercer.CosineDifference(),
    mercer.ExpProduct(),
    mercer.RBF() + mercer.Linear(),
    mercer.RBF() * mercer.Polynomial(2),
    2.0 * mercer.RBF() + 1.0,
    mercer.RBF() + mercer.White(0.1),
    mercer.Polynomial(2) ** 2,
    (0.5 * mercer.RBF()).exp(),
    mercer.RBF().series([0.1, 1.0, 0.5]),
    mercer.Polynomial(2).normalized(),
    mercer.RBF().on([2, 0]),
    mercer.RBF().on(0) * mercer.Linear().on(slice(1, 3)),
]


@pytest.mark.parametrize("k", SMOOTH, ids=repr)
def test_gradient_is_the_limit_of_differences(k):
    f = Function(k, X, ALPHA, offset=2.0)
    h = 1e-6
    want = np.column_stack([(f(NEW + h * e) - f(NEW - h * e)) / (2 * h) for e in np.eye(3)])
    np.testing.assert_allclose(f.gradient(NEW), want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


def test_gradient_of_several_outputs_sparse_and_geometric():
    coef = rng.standard_normal((9, 2))
    f = Function(RBF(), X, coef)
    G = f.gradient(NEW)
    assert G.shape == (11, 3, 2)
    for t in range(2):
        np.testing.assert_allclose(G[:, :, t], Function(RBF(), X, coef[:, t]).gradient(NEW))
    np.testing.assert_allclose(Function(RBF(), sp.csr_array(X), ALPHA).gradient(sp.csr_array(NEW)),
                               Function(RBF(), X, ALPHA).gradient(NEW), rtol=1e-9)  # fmt: skip
    inside = rng.uniform(-0.8, 0.8, (6, 1))
    f = Function(mercer.Geometric(), inside, ALPHA[:6])
    want = (f(inside + 1e-6) - f(inside - 1e-6)) / 2e-6
    np.testing.assert_allclose(f.gradient(inside)[:, 0], want, rtol=1e-5)


def test_gradient_at_the_points_themselves():
    f = Function(RBF(), X, ALPHA)
    np.testing.assert_allclose(f.gradient(f.points), f.gradient(X.copy()), rtol=1e-10)


def test_gradient_where_there_is_none():
    for f in (
        Function(mercer.Minimum(), [1.0, 2.0], [1.0, 1.0]),
        Function(shared_letters, ["a"], [1.0]),
        Function(mercer.FromFunction(rbf), X, ALPHA),
        Function(RBF().warp(np.sin), X, ALPHA),
    ):
        with pytest.raises(InvalidInput):
            f.gradient(f.points)


# --------------------------------------------------------------------------------------- compress
@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-4])
@pytest.mark.parametrize("k", [RBF(), mercer.Matern(), mercer.Polynomial(2)], ids=repr)
def test_compress_keeps_its_promise(k, tol):
    rng = np.random.default_rng(0)  # its own: the draws must not depend on the tests before
    points = rng.standard_normal((120, 2))
    f = Function(k, points, rng.standard_normal(120), 1.5)
    g = f.compress(tol)
    assert len(g) < len(f) and g.offset == 1.5 and g.kernel == k
    assert (f - g).norm() <= tol * f.norm()
    gap = np.abs(f(NEW[:, :2]) - g(NEW[:, :2]))
    assert (gap <= tol * f.norm() * np.sqrt(k.diag(NEW[:, :2])) * (1 + 1e-9)).all()
    # Coefficients are those of the projection: f − g is orthogonal to every kept k(x, ·).
    residual = (f - g)(g.points)
    assert np.abs(residual).max() <= 1e-6 * f.norm() * np.sqrt(k.diag(g.points)).max()


def test_compress_finds_the_span():
    # Polynomials of degree 2 in one variable: three points suffice for any function.
    f = Function(mercer.Polynomial(2), rng.standard_normal((80, 1)), rng.standard_normal(80))
    assert len(f.compress(1e-5)) == 3


def test_compress_every_output():
    coef = rng.standard_normal((60, 3)) * [1.0, 1e-6, 0.0]
    f = Function(RBF(), rng.standard_normal((60, 2)), coef)
    g = f.compress(0.05)
    assert ((f - g).norm() <= 0.05 * f.norm()).all()
    assert g.coef.shape == (len(g), 3) and len(g) < 60


def test_compress_drops_zeros_and_merges_equal_points():
    points = np.array([[0.0], [1.0], [0.0], [5.0], [1.0]])
    f = Function(RBF(), points, [1.0, 2.0, 3.0, 0.0, -2.0])
    g = f.compress(0.0)
    assert g.points.tolist() == [[0.0]] and g.coef.tolist() == [4.0]
    f = Function(shared_letters, ["ab", "c", "ab"], [1.0, 1.0, 1.0])
    g = f.compress(0)
    assert g.points == ("ab", "c") and g.coef.tolist() == [2.0, 1.0]
    f = Function(mercer.White(1.0), points, np.ones(5))
    assert len(f.compress(0.0)) == 5  # five observations, whatever their coordinates


def test_compress_other_storage():
    coef = rng.standard_normal(40)
    points = rng.standard_normal((40, 2))
    for made in (sp.csr_array(points), Table({"a": points[:, 0], "b": points[:, 1]})):
        kernel = RBF() if sp.issparse(made) else RBF().on("a") * RBF().on("b")
        f = Function(kernel, made, coef)
        g = f.compress(0.05)
        assert len(g) < 40 and (f - g).norm() <= 0.05 * f.norm()
    single = Function(RBF(), points.astype(np.float32), coef.astype(np.float32))
    g = single.compress(0.05)
    assert g.points.dtype == g.coef.dtype == np.float32
    assert (single - g).norm() <= 0.05 * single.norm()


def test_compress_hard_cases():
    near = np.linspace(0, 1e-3, 30)[:, None]  # nearly collinear in feature space
    f = Function(RBF(), near, np.resize([1e3, -1e3], 30) + 1)
    g = f.compress(1e-2)
    assert (f - g).norm() <= 1e-2 * f.norm() * (1 + 1e-3)
    apart_ = Function(RBF(), 100.0 * np.arange(5.0)[:, None], np.ones(5))  # orthogonal: none can go
    assert len(apart_.compress(0.1)) == 5
    zero = Function(RBF(), X, np.zeros(9), 2.0).compress()
    assert len(zero) == 0 and (zero(NEW) == 2.0).all()
    for bad in (-0.1, 1.0, np.nan, "x", True):
        with pytest.raises(InvalidInput, match="tol"):
            f.compress(bad)


# ------------------------------------------------------------------------------------- degenerate
def test_no_points_one_point_and_constants():
    empty = Function(RBF(), np.empty((0, 3)), [], 4.0)
    assert (empty(NEW) == 4.0).all() and empty.norm() == 0.0 and len(empty) == 0
    assert (empty.gradient(NEW) == 0).all() and empty.gradient(NEW).shape == NEW.shape
    np.testing.assert_allclose(
        (empty + Function(RBF(), X, ALPHA))(NEW), double_loop(X, ALPHA, NEW) + 4
    )
    assert empty.inner(Function(RBF(), X, ALPHA)) == 0.0
    assert len(empty.compress()) == 0
    two = Function(RBF(), np.empty((0, 3)), np.empty((0, 2)), [1.0, 2.0])
    assert two(NEW).shape == (11, 2) and two.norm().shape == (2,)
    one = Function(RBF(), [[1.0]], [2.0])
    assert one([[1.0]])[0] == 2.0 and one.norm() == 2.0
    constant = Function(mercer.Constant(3.0), X, ALPHA)
    np.testing.assert_allclose(constant(NEW), 3 * ALPHA.sum())
    assert f"{Function(RBF(), X, ALPHA)([[0.0, 0, 0]]).shape}" == "(1,)"
    assert Function(RBF(), X, ALPHA)(np.empty((0, 3))).shape == (0,)


def test_precomputed():
    K = RBF()(X)
    f = Function(mercer.Precomputed(), K, ALPHA, 1.0)
    assert f.points.tolist() == list(range(9))
    np.testing.assert_allclose(f(RBF()(NEW, X)), double_loop(X, ALPHA, NEW) + 1)
    g = Function(mercer.Precomputed(), np.arange(9), ALPHA)
    np.testing.assert_allclose((f + g).coef, 2 * ALPHA)
    part = Function(mercer.Precomputed(), np.array([2, 4]), [1.0, 1.0])
    np.testing.assert_allclose(part(K), K[:, 2] + K[:, 4])
    np.testing.assert_allclose((f + part)(K), f(K) + part(K))
    assert (f + part).compress(0.0).points.tolist() == list(range(9))
    for work in (f.norm, lambda: f.inner(f), f.compress, lambda: f.gradient(K)):
        with pytest.raises(InvalidInput):
            work()
    with pytest.raises(InvalidInput, match="not kept"):
        f.norm()
    with pytest.raises(InvalidInput):
        f(np.ones((2, 8)))


@pytest.mark.parametrize(
    ("points", "coef", "offset", "words"),
    [
        (X, ALPHA[:-1], 0.0, "coef has shape"),
        (X, 1.0, 0.0, "coef has shape"),
        (X, np.ones((9, 2, 2)), 0.0, "coef has shape"),
        (X, np.ones((9, 0)), 0.0, "coef has shape"),
        (X, np.full(9, np.nan), 0.0, "not finite"),
        (X, ["a"] * 9, 0.0, "coef is not"),
        (X, ALPHA, np.inf, "offset is not finite"),
        (X, ALPHA, [1.0, 2.0], "offset has shape"),
        (X, np.ones((9, 3)), [1.0, 2.0], "offset has shape"),
        (X, ALPHA, "much", "offset is not"),
        (np.full((9, 3), np.nan), ALPHA, 0.0, "not finite"),
        (X[0], ALPHA, 0.0, "Reshape"),
    ],
)
def test_bad_input(points, coef, offset, words):
    with pytest.raises(InvalidInput, match=words):
        Function(RBF(), points, coef, offset)


def test_bad_new_points():
    f = Function(RBF(), X, ALPHA)
    with pytest.raises(InvalidInput, match="columns"):
        f(NEW[:, :2])
    with pytest.raises(InvalidInput, match="finite"):
        f(np.full((1, 3), np.inf))
    with pytest.raises(InvalidInput, match="columns"):
        f.gradient(NEW[:, :2])


def test_inputs_are_not_changed_and_repr_and_pickle():
    points, coef = X.copy(), ALPHA.copy()
    points.setflags(write=False)
    coef.setflags(write=False)
    f = Function(RBF(), points, coef, 0.5)
    (2 * f + f).compress(0.1)
    f(points)
    assert repr(f) == "Function(RBF(length_scale=1.0), 9 points, offset=0.5)"
    assert "2 outputs" in repr(Function(RBF(), X, np.ones((9, 2)), [1.0, 2.0]))
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(NEW), f(NEW))


def test_kernels_with_callable_objects_still_add():
    class Similarity:
        def __call__(self, x, y):
            return float(x == y)

    k = mercer.FromFunction(Similarity())
    assert len(Function(k, ["a"], [1.0]) + Function(k, ["b"], [1.0])) == 2


@pytest.mark.parametrize(
    "kernel",
    [
        mercer.Spectrum(2),
        mercer.Spectrum((1, 3), alphabet="ab"),
        mercer.GappedKmer(3, 2).normalized(),
        2.0 * mercer.Spectrum(2).normalized() + mercer.Subsequence(2, 0.5),
    ],
)
def test_kernels_that_differ_in_their_alphabets_only_share_a_space(kernel):
    A, B, new = ["ab", "ba", "abab"], ["xyx", "yxy", "ab"], ["abx", "xyab", "", "zz"]
    f, g = (mercer.mean_embedding(kernel, X) for X in (A, B))
    assert f.kernel != g.kernel
    h = f - g
    np.testing.assert_allclose(h(new), f(new) - g(new), atol=1e-12)
    np.testing.assert_allclose((h + f + g)(new), 2 * f(new), atol=1e-12)
    mixed = kernel(A, B).mean()
    assert f.inner(g) == pytest.approx(mixed, rel=1e-12)
    squared = kernel(A).mean() + kernel(B).mean() - 2 * mixed
    assert h.norm() ** 2 == pytest.approx(squared, rel=1e-12)


def test_models_on_strings_with_other_letters_subtract():
    A, B = ["ab", "ba", "bb", "aa"], ["xy", "yx", "aab", "ba"]
    f, g = (mercer.SVC(mercer.Spectrum(2)).fit(X, [0, 0, 1, 1]).function_ for X in (A, B))
    new = ["aab", "xyy", "bx"]
    np.testing.assert_allclose((f - g)(new), f(new) - g(new), atol=1e-12)


@pytest.mark.parametrize(
    ("k1", "k2"),
    [
        (mercer.Mismatch(2, 1, alphabet="ab"), mercer.Mismatch(2, 1, alphabet="abc")),
        (mercer.Spectrum(2, alphabet="ab"), mercer.Spectrum(3, alphabet="abc")),
        (mercer.Spectrum(2, alphabet="ab"), mercer.Spectrum(2, alphabet="abc").normalized()),
        (mercer.RBF(1.0), mercer.RBF(2.0)),
    ],
)
def test_parameters_on_which_values_depend_make_other_spaces(k1, k2):
    X = np.eye(2) if isinstance(k1, mercer.RBF) else ["ab", "ba"]
    with pytest.raises(InvalidInput, match="the kernels differ"):
        Function(k1, X, [1.0, 2.0]) + Function(k2, X, [1.0, 2.0])


# ------------------------------------------------------------------------------ agop
def differences(f, x, h=1e-6):
    """∇f at x by central differences, shape (d, t)."""
    steps = h * np.eye(len(x))
    slopes = [(f((x + e)[None]) - f((x - e)[None]))[0] / (2 * h) for e in steps]
    return np.array(slopes).reshape(len(x), -1)


@pytest.mark.parametrize(
    "kernel", [RBF(0.8), mercer.Matern(nu=0.5), mercer.Polynomial(2)], ids=repr
)
@pytest.mark.parametrize("outputs", [(), (2,)])
def test_agop_is_the_mean_of_products_of_differences(kernel, outputs):
    f = Function(kernel, X, rng.standard_normal((9, *outputs)), 3.0)
    slopes = [differences(f, x) for x in NEW]
    w = np.arange(11.0)
    for weight in (None, w):
        shares = np.full(11, 1 / 11) if weight is None else w / w.sum()
        expected = sum(s * G @ G.T for s, G in zip(shares, slopes, strict=True))
        found = f.agop(NEW, sample_weight=weight)
        np.testing.assert_allclose(found, expected, atol=1e-7)
        np.testing.assert_array_equal(found, found.T)
        diagonal = f.agop(NEW, diagonal=True, sample_weight=weight)
        np.testing.assert_allclose(diagonal, np.diag(expected), atol=1e-7)
    repeated = np.repeat(NEW, w.astype(int), axis=0)
    np.testing.assert_allclose(f.agop(repeated), f.agop(NEW, sample_weight=w), rtol=1e-12)
    sparse = f.agop(sp.csr_array(NEW))
    np.testing.assert_allclose(sparse, f.agop(NEW), rtol=1e-11)


def test_agop_leaves_out_terms_of_the_point_itself():
    for kernel in (mercer.Matern(nu=0.5), mercer.PowerExponential(1.0, 0.5, 0.8)):
        f = Function(kernel, X, ALPHA)
        parts = []
        for i in range(9):
            others = np.arange(9) != i
            parts.append(Function(kernel, X[others], ALPHA[others]).gradient(X[[i]])[0])
        expected = np.mean([np.outer(g, g) for g in parts], axis=0)
        np.testing.assert_allclose(f.agop(X), expected, rtol=1e-9)


def test_agop_in_blocks_and_of_little(monkeypatch):
    f = Function(RBF(), X, rng.standard_normal((9, 2)))
    whole = f.agop(NEW)
    monkeypatch.setattr("mercer.rkhs.function.ENTRIES", 12)  # two rows at a time
    np.testing.assert_allclose(f.agop(NEW), whole, rtol=1e-12)
    none = Function(RBF(), X[:0], np.zeros(0))
    np.testing.assert_array_equal(none.agop(NEW), np.zeros((3, 3)))
    torch = pytest.importorskip("torch")
    found = f.agop(torch.as_tensor(NEW))
    np.testing.assert_allclose(found.numpy(), whole, rtol=1e-12)


def test_agop_refuses():
    f = Function(RBF(), X, ALPHA)
    for weight, words in [
        (np.ones(3), r"weights have shape \(3,\), expected \(11,\)"),
        (-np.ones(11), "weights must be finite, ≥ 0"),
        (np.zeros(11), "not all zero"),
        (["a"] * 11, "weights are not numbers"),
    ]:
        with pytest.raises(InvalidInput, match=f"Function.agop: sample_weight: .*{words}"):
            f.agop(NEW, sample_weight=weight)
    with pytest.raises(InvalidInput, match="there are no points"):
        f.agop(NEW[:0])
    with pytest.raises(InvalidInput, match="a gradient needs points that are vectors"):
        Function(mercer.Spectrum(1), ["ab"], [1.0]).agop(["a"])
    wide = Function(RBF(), np.zeros((1, 3000)), [1.0])
    with mercer.config(memory="100MB"), pytest.raises(mercer.errors.MemoryBudgetExceeded):
        wide.agop(np.zeros((2, 3000)))
    with mercer.config(memory="100MB"):
        assert wide.agop(np.zeros((2, 3000)), diagonal=True).shape == (3000,)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
@pytest.mark.parametrize(
    "k",
    [mercer.Linear(), 2.0 * mercer.Linear(), mercer.Polynomial(1), RBF(1.0) + mercer.Linear()],
    ids=repr,
)
def test_a_difference_of_means_far_from_the_origin_has_the_values_that_it_has_near(k, offset):
    A = np.random.default_rng(5).normal(size=(55, 4))
    far = A + offset
    near = far - offset  # what is left of A
    f, g = (mercer.statistics.witness(Z[:30], Z[30:], k) for Z in (near, far))
    want, got = f(near), g(far)
    np.testing.assert_allclose(got - got[0], want - want[0], atol=1e-15 * offset + 1e-13)
    # all at once, or one by one
    np.testing.assert_allclose([g(far[i : i + 1])[0] for i in range(5)], got[:5], rtol=1e-15)
    both = Function(k, g.points, np.stack([g.coef, 2 * g.coef], axis=1))
    np.testing.assert_allclose(both(far), np.stack([got, 2 * got], axis=1), rtol=1e-14)
