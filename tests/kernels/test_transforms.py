"""warp, in_metric, scale_by, on, normalized (K10): identities, frames of every kind, refusals."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime

from mercer import (
    RBF,
    Constant,
    Cosine,
    FromFunction,
    KernelRidge,
    Laplacian,
    Linear,
    Matern,
    Minimum,
    Polynomial,
    PowerExponential,
    Spectrum,
)
from mercer.domains import Table
from mercer.errors import InvalidInput

NUMBERS = {
    "age": [31.0, 47.0, 52.0, 31.0],
    "dose": [0.5, 1.5, 1.0, 2.0],
    "time": [1.0, 2.0, 3.0, 4.0],
}
MIXED = NUMBERS | {"site": ["a", "b", "a", "c"]}
ARRAY = np.column_stack(list(NUMBERS.values()))


def frames(columns):
    """The table in every form it may come."""
    yield "dict", columns
    yield "Table", Table(columns)
    for name in ("pandas", "polars"):
        try:
            library = __import__(name)
        except ImportError:
            continue
        yield name, library.DataFrame(columns)
    try:
        import pyarrow
    except ImportError:
        return
    yield "pyarrow", pyarrow.table(columns)
    yield "pyarrow batch", pyarrow.RecordBatch.from_pydict(columns)


ALL_FRAMES = [pytest.param(frame, id=name) for name, frame in frames(MIXED)]


# -------------------------------------------------------------------------------------- on
@pytest.mark.parametrize("frame", ALL_FRAMES)
def test_columns_by_name_position_slice_and_list(frame):
    expected = RBF(9.0)(ARRAY[:, [0]])
    for columns in ("age", ["age"], 0, [0], slice(0, 1), np.array([0]), ("age",), -4):
        np.testing.assert_allclose(RBF(9.0).on(columns)(frame), expected, atol=1e-15)
    two = RBF(9.0)(ARRAY[:, [2, 0]])
    np.testing.assert_allclose(RBF(9.0).on(["time", "age"])(frame), two, atol=1e-15)
    np.testing.assert_allclose(RBF(9.0).on(["time", 0])(frame), two, atol=1e-15)


@pytest.mark.parametrize("frame", ALL_FRAMES)
def test_the_product_over_columns_is_the_tensor_product(frame):
    kernel = RBF(5.0).on("age") * Linear().on("dose") + 0.5 * RBF().on(["dose", "time"])
    expected = RBF(5.0)(ARRAY[:, [0]]) * Linear()(ARRAY[:, [1]]) + 0.5 * RBF()(ARRAY[:, 1:])
    np.testing.assert_allclose(kernel(frame), expected, atol=1e-14)
    np.testing.assert_allclose(kernel.diag(frame), np.diag(expected), atol=1e-14)


@pytest.mark.parametrize("frame", ALL_FRAMES)
def test_a_kernel_on_text(frame):
    same = FromFunction(lambda a, b: float(a == b)).on("site")
    expected = [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(same(frame), expected)
    np.testing.assert_allclose(
        (same * RBF(9.0).on("age"))(frame), np.array(expected) * RBF(9.0)(ARRAY[:, [0]])
    )


@pytest.mark.parametrize("frame", ALL_FRAMES)
def test_a_text_column_where_numbers_belong_is_named(frame):
    with pytest.raises(InvalidInput, match=r"'site'.*numbers"):
        RBF().on(["age", "site"])(frame)


@pytest.mark.parametrize("frame", [p for p in ALL_FRAMES if p.id != "dict"])
def test_a_kernel_on_everything_names_the_text_column(frame):
    with pytest.raises(InvalidInput, match="column 'site' of X"):
        RBF()(frame)


@pytest.mark.parametrize("frame", ALL_FRAMES)
def test_an_unknown_column_is_named_with_those_there_are(frame):
    with pytest.raises(InvalidInput, match=r"no column 'weight'.*'age', 'dose'"):
        RBF().on("weight")(frame)
    for position in (4, -5):
        with pytest.raises(InvalidInput, match=f"no column {position}"):
            RBF().on(position)(frame)


@pytest.mark.parametrize(
    "frame", [pytest.param(f, id=n) for n, f in frames(NUMBERS) if n != "dict"]
)
def test_numeric_frames_are_vectors(frame):
    np.testing.assert_allclose(RBF()(frame), RBF()(ARRAY), atol=1e-14)
    np.testing.assert_allclose(RBF()(frame, ARRAY[:2]), RBF()(ARRAY, ARRAY[:2]), atol=1e-14)


def test_columns_in_another_order_are_refused_not_mixed_up():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(NUMBERS)
    with pytest.raises(InvalidInput, match="same columns in the same order"):
        RBF()(X, X[["dose", "age", "time"]])
    k = RBF(9.0).on("age")  # chosen by name, order does not matter
    np.testing.assert_allclose(
        k(X, X[["dose", "age", "time"]]), RBF(9.0)(ARRAY[:, [0]]), atol=1e-14
    )


def test_names_on_arrays_and_arrays_against_frames_are_refused():
    with pytest.raises(InvalidInput, match="without column names"):
        RBF().on("age")(ARRAY)
    with pytest.raises(InvalidInput, match="column names"):
        RBF().on(0)(Table(NUMBERS), ARRAY)
    with pytest.raises(InvalidInput, match="no column 3"):
        RBF().on(3)(ARRAY)


@pytest.mark.parametrize(
    "columns", [[], None, 1.5, [0, 0], ["age", "age"], [0.5], {}, True, [True]], ids=repr
)
def test_bad_choices_of_columns(columns):
    with pytest.raises(InvalidInput, match="on: "):
        RBF().on(columns)


def test_on_sparse_rows_and_float32():
    X = sp.csr_array(ARRAY.astype(np.float32))
    K = RBF(9.0).on([0, 2])(X)
    assert K.dtype == np.float32
    np.testing.assert_allclose(K, RBF(9.0)(ARRAY[:, [0, 2]]), atol=1e-4)


def test_on_gradient_is_zero_elsewhere(rng):
    X, Y, c = rng.standard_normal((4, 3)), rng.standard_normal((6, 3)), rng.standard_normal(6)
    G = RBF().on([2, 0]).gradient(X, Y, c)
    inner = RBF().gradient(X[:, [2, 0]], Y[:, [2, 0]], c)
    np.testing.assert_allclose(G[:, [2, 0]], inner, atol=1e-14)
    np.testing.assert_array_equal(G[:, 1], 0)
    table = Table(dict(zip("abc", X.T, strict=True)))
    other = Table(dict(zip("abc", Y.T, strict=True)))
    np.testing.assert_allclose(RBF().on(["c", "a"]).gradient(table, other, c), G, atol=1e-14)


def test_words_are_resolved_on_the_chosen_columns():
    k = (RBF("median").on("age") * RBF("scale").on("dose")).fit_params(Table(NUMBERS))
    expected = RBF("median").fit_params(ARRAY[:, [0]]).length_scale
    assert k.k1.kernel.length_scale == expected
    assert k.k2.kernel.length_scale == RBF("scale").fit_params(ARRAY[:, [1]]).length_scale


# ------------------------------------------------------------------------- warp, scale_by
def test_warp_is_the_kernel_of_the_images(rng):
    X, Y = rng.standard_normal((6, 2)), rng.standard_normal((4, 2))
    k = RBF().warp(np.tanh)
    np.testing.assert_allclose(k(X, Y), RBF()(np.tanh(X), np.tanh(Y)), atol=1e-15)
    np.testing.assert_allclose(k(X), RBF()(np.tanh(X)), atol=1e-15)
    words = Linear().warp(lambda ws: [[float(len(w))] for w in ws])
    np.testing.assert_array_equal(words(["a", "bb", ""]), np.outer([1, 2, 0], [1, 2, 0]))


def test_scale_by_is_f_k_f(rng):
    X, Y = rng.standard_normal((6, 2)), rng.standard_normal((4, 2))

    def f(Z):
        return Z[:, 0] - 0.5

    k = RBF().scale_by(f)
    np.testing.assert_allclose(k(X, Y), f(X)[:, None] * RBF()(X, Y) * f(Y), atol=1e-15)
    np.testing.assert_allclose(k.diag(X), f(X) ** 2, atol=1e-15)
    column = RBF().scale_by(lambda Z: Z[:, :1])
    np.testing.assert_allclose(column(X), X[:, :1] * RBF()(X) * X[:, 0], atol=1e-15)


def test_bad_maps(rng):
    X = rng.standard_normal((5, 2))
    with pytest.raises(InvalidInput, match="warp: f gave 4 points for 5"):
        RBF().warp(lambda Z: Z[1:])(X)
    with pytest.raises(InvalidInput, match=r"f\(X\)"):
        RBF().warp(lambda Z: Z * np.nan)(X)
    with pytest.raises(InvalidInput, match="scale_by: f gave shape"):
        RBF().scale_by(lambda Z: Z)(X)
    with pytest.raises(InvalidInput, match="scale_by: f gave shape"):
        RBF().scale_by(lambda Z: 1.0)(X)
    with pytest.raises(InvalidInput, match="not finite"):
        RBF().scale_by(lambda Z: np.full(len(Z), np.inf))(X)
    with pytest.raises(InvalidInput, match="not callable"):
        RBF().warp("tanh")
    with pytest.raises(InvalidInput, match="not callable"):
        RBF().scale_by(2.0)
    for k in (RBF().warp(np.tanh), RBF().scale_by(lambda Z: Z[:, 0])):
        with pytest.raises(InvalidInput, match="gradient"):
            k.gradient(X, X, np.ones(5))


# ---------------------------------------------------------------------------- normalized
def test_normalisation(rng):
    X, Y = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    k = Polynomial(2, 0.5)
    expected = k(X, Y) / np.sqrt(np.outer(k.diag(X), k.diag(Y)))
    np.testing.assert_allclose(k.normalized()(X, Y), expected, atol=1e-14)
    np.testing.assert_array_equal(np.diag(k.normalized()(X)), 1.0)
    np.testing.assert_allclose(k.normalized().normalized()(X), k.normalized()(X), atol=1e-14)


def test_normalisation_where_a_length_is_zero():
    X = [[0.0, 0.0], [1.0, 2.0]]
    np.testing.assert_allclose(Linear().normalized()(X), [[0, 0], [0, 1]], atol=1e-15)
    np.testing.assert_array_equal(Linear().normalized().diag(X), [0, 1])
    np.testing.assert_array_equal(Constant(0.0).normalized()(X), 0)
    np.testing.assert_array_equal(Minimum().normalized()([0.0, 4.0]), [[0, 0], [0, 1]])


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1e8, 1e100])
def test_normalisation_removes_every_multiple(scale, rng):
    X = rng.standard_normal((5, 2))
    np.testing.assert_allclose((scale * Linear()).normalized()(X), Cosine()(X), atol=1e-13)


def test_a_normalised_rbf_is_itself(rng):
    X = rng.standard_normal((5, 2))
    np.testing.assert_allclose((3.0 * RBF()).normalized()(X), RBF()(X), atol=1e-15)
    assert math.isclose((3.0 * RBF()).normalized().diag(X)[0], 1.0)


def test_strings_without_features_have_none_on_a_column_either():
    bare = Spectrum(1, alphabet="abc")
    seen = {"on": bare.on("s"), "warp": bare.warp(lambda X: [s.lower() for s in X])}
    for strings in (["c", "bd"], ["bd", "c"]):  # the first string says nothing of the others
        assert bare.n_features(strings) is None
        assert seen["on"].n_features({"s": strings}) is None
        assert seen["warp"].n_features(strings) is None
    assert seen["on"].n_features({"s": ["c", "b"]}) == 3


def test_ridge_on_a_column_of_strings_solves_the_problem_of_the_kernel():
    k, alpha = Spectrum(1, alphabet="ab"), 0.1
    X = ["", "abc", "ccb", "acc", "bcab", "cccc", "cab"] * 3
    y = np.arange(21.0) % 7
    for kernel in (k.on("s"), k.normalized().on("s") + 0.0 * k.on("s")):
        table = {"s": X}
        K = kernel(table)
        expected = K @ np.linalg.solve(K + alpha * np.eye(21), y)
        model = KernelRidge(kernel, alpha).fit(table, y)
        np.testing.assert_allclose(model.predict(table), expected, atol=1e-9)


# ------------------------------------------------------------------------------ in_metric
METRIC = np.array([[1.0, 0.5, 0.0], [0.2, -0.3, 2.0]])
INNER = [
    RBF(0.8),
    Matern(1.2, nu=0.5),
    PowerExponential([0.8, 1.5], 0.7, 1.3),
    Laplacian(2.0),
    Polynomial(2),
    2.0 * RBF() + Linear() * RBF(3.0),
    RBF().on([0]) * Matern().on([1]),
]


@pytest.mark.parametrize("k", INNER, ids=repr)
def test_a_kernel_in_a_metric_is_that_of_the_images(k, rng):
    X, Y = rng.standard_normal((12, 3)), rng.standard_normal((7, 3))
    m, Z, V = k.in_metric(METRIC), X @ METRIC.T, Y @ METRIC.T
    np.testing.assert_allclose(m(X, Y), k(Z, V), rtol=1e-12)
    np.testing.assert_allclose(m(X), k(Z), rtol=1e-12)
    np.testing.assert_allclose(m.diag(X), k.diag(Z), rtol=1e-12)
    sparse = m(sp.csr_array(X), sp.csr_array(Y))
    np.testing.assert_allclose(sparse, k(Z, V), rtol=1e-12, atol=1e-13)
    W = rng.standard_normal((12, 7))
    np.testing.assert_allclose(m.theta_vjp(X, W, Y), k.theta_vjp(Z, W, V), atol=1e-10)
    assert m.theta_names == [f"kernel__{name}" for name in k.theta_names]


@pytest.mark.parametrize("k", INNER, ids=repr)
def test_the_derivative_in_a_metric(k, rng):
    X, Y, W = rng.standard_normal((6, 3)), rng.standard_normal((5, 3)), rng.standard_normal((6, 5))
    X[2] = Y[1]  # here no matrix tells the points apart
    S = rng.standard_normal((6, 6))

    def total(a, *given):
        weights, *pair = given
        return float((weights * k.in_metric(a.reshape(2, 3))(*pair)).sum())

    m = k.in_metric(METRIC)
    for given, found in (
        ((W, X, Y), m.metric_vjp(X, W, Y)),
        ((S, X), m.metric_vjp(X, S)),
        ((W, X, Y), m.metric_vjp(sp.csr_array(X), W, sp.csr_array(Y))),
    ):
        expected = approx_fprime(METRIC.ravel(), total, 1e-7, *given).reshape(2, 3)
        np.testing.assert_allclose(found, expected, atol=3e-5)


def test_a_metric_with_tensors(rng):
    torch = pytest.importorskip("torch")
    X, Y = rng.standard_normal((6, 3)), rng.standard_normal((5, 3))
    k, W = RBF(0.7).in_metric(METRIC), rng.standard_normal((6, 5))
    T, U = torch.tensor(X, requires_grad=True), torch.tensor(Y)
    (k(T, U) * torch.tensor(W)).sum().backward()
    np.testing.assert_allclose(T.grad.numpy(), k.gradient(X, Y, W), atol=1e-12)
    found = k.metric_vjp(T.detach(), torch.tensor(W), U)
    np.testing.assert_allclose(found.numpy(), k.metric_vjp(X, W, Y), atol=1e-12)


def test_a_metric_far_from_the_origin(rng):
    X = 2.0**20 + np.round(rng.standard_normal((20, 3)) * 1024) / 1024  # whole when moved back
    near, W = X - 2.0**20, rng.standard_normal((20, 20))
    k = (2.0 * Matern(nu=0.5) + RBF(2.0)).in_metric(METRIC / 3)
    np.testing.assert_allclose(k(X), k(near), atol=1e-14)
    np.testing.assert_allclose(k(X, X[:5]), k(near, near[:5]), atol=1e-14)
    np.testing.assert_allclose(k.metric_vjp(X, W), k.metric_vjp(near, W), atol=1e-12)
    single = X.astype(np.float32)
    np.testing.assert_allclose(k(single), k(single.astype(float)), atol=2e-6)


def test_what_a_metric_hands_on(rng):
    X = rng.standard_normal((30, 3))
    words = RBF("median").in_metric(METRIC)
    assert words.fit_params(X).kernel == RBF("median").fit_params(X @ METRIC.T)
    phi = Polynomial(2).in_metric(METRIC)
    np.testing.assert_allclose(phi.features(X), Polynomial(2).features(X @ METRIC.T))
    assert phi.n_features(X) == 6
    square = rng.standard_normal((3, 3))
    assert RBF().in_metric(square).characteristic and not RBF().in_metric(METRIC).characteristic
    # the precision matrix of a covariance is AᵀA
    np.testing.assert_allclose(
        RBF(covariance=np.linalg.inv(square.T @ square))(X), RBF().in_metric(square)(X), atol=1e-9
    )
    k = RBF().in_metric(METRIC)
    assert k.set_params(kernel__length_scale=2.0, matrix=2 * METRIC).matrix[0, 0] == 2.0
    np.testing.assert_allclose(k(X), RBF().in_metric(METRIC)(X), rtol=1e-12)
    nested = RBF().in_metric([[1.0, 2.0]]).in_metric(METRIC)
    np.testing.assert_allclose(nested(X), RBF().in_metric([[1.0, 2.0]] @ METRIC)(X), rtol=1e-12)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([1.0, 2.0], r"matrix has shape \(2,\); give one of shape \(r, d\)"),
        (np.zeros((0, 3)), r"matrix has shape \(0, 3\)"),
        (np.zeros((1, 1, 1)), "matrix has shape"),
        ([[1.0, np.nan]], "matrix has entries that are not finite"),
        ([["a"]], "matrix is not one of numbers"),
        ([[1.0], [1.0, 2.0]], "matrix is not one of numbers"),
        (None, "matrix has shape"),
    ],
    ids=repr,
)
def test_a_matrix_that_is_none(matrix, words):
    with pytest.raises(InvalidInput, match=f"in_metric: {words}"):
        RBF().in_metric(matrix)
    k = RBF().in_metric(METRIC)
    with pytest.raises(InvalidInput):
        k.set_params(matrix=matrix)
    assert k.matrix is METRIC


def test_points_that_a_matrix_does_not_take(rng):
    with pytest.raises(InvalidInput, match=r"in_metric: the matrix is 2 × 3 and X has 4 columns"):
        RBF().in_metric(METRIC)(rng.standard_normal((5, 4)))
    with pytest.raises(InvalidInput, match=r"in_metric: A x overflows; .* Divide the matrix"):
        RBF().in_metric(5e307 * METRIC)(100 * rng.standard_normal((5, 3)))
    with pytest.raises(InvalidInput, match=r"in_metric: .*Spectrum.* compares strings"):
        Spectrum(2).in_metric(METRIC)
    with pytest.raises(InvalidInput, match="metric_vjp: W has shape"):
        RBF().in_metric(METRIC).metric_vjp(rng.standard_normal((5, 3)), np.ones((5, 4)))
