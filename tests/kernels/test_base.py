"""k(X, Y), diag, matmul on every kind of storage: dense, sparse, frames, odd layouts, tensors."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    RBF,
    Constant,
    Cosine,
    Exponential,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    Polynomial,
)
from mercer.errors import InvalidInput
from mercer.kernels import Explicit, Kernel
from mercer.testing import double_loop

VECTOR = [
    RBF(),
    Matern(nu=0.5),
    Laplacian(),
    Linear(),
    Polynomial(),
    Cosine(),
    Periodic(),
    Exponential(3.0),
]


@pytest.fixture
def X(rng):
    X = rng.standard_normal((11, 4))
    X[np.abs(X) < 0.4] = 0
    return X


def layouts(X):
    yield "Fortran order", np.asfortranarray(X)
    yield "negative strides", X[::-1].copy()[::-1]
    yield "every second of a wide one", np.repeat(X, 2, axis=1)[:, ::2]
    yield "big endian", X.astype(">f8")
    yield "list", X.tolist()
    yield "list of arrays", list(X)
    yield "object", X.astype(object)
    yield "matrix", np.asmatrix(X)
    yield "masked, nothing masked", np.ma.masked_array(X)
    yield "csr", sp.csr_array(X)
    yield "csr_matrix", sp.csr_matrix(X)
    yield "csc", sp.csc_array(X)
    yield "coo", sp.coo_array(X)
    yield "lil", sp.lil_array(X)
    yield "dok", sp.dok_matrix(X)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    yield "csr with 64-bit indices", wide
    c = sp.coo_array(X)
    yield (
        "coo with duplicates",
        sp.coo_array(
            (np.r_[c.data / 2, c.data / 2], (np.r_[c.row, c.row], np.r_[c.col, c.col])),
            shape=X.shape,
        ),
    )
    unsorted = sp.csr_array(X)
    for i in range(len(X)):
        part = slice(unsorted.indptr[i], unsorted.indptr[i + 1])
        unsorted.indices[part] = unsorted.indices[part][::-1].copy()
        unsorted.data[part] = unsorted.data[part][::-1].copy()
    unsorted.has_sorted_indices = False
    yield "csr with unsorted indices", unsorted
    explicit = sp.csr_array(np.where(X == 0, 1.0, X))
    explicit.data[np.isclose(explicit.data, 1.0)] = 0.0
    yield "csr with stored zeros", explicit


NAMES = [name for name, _ in layouts(np.eye(11, 4))]


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("kernel", VECTOR, ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_every_layout_gives_the_same_values(name, kernel, X):
    Z = dict(layouts(X))[name]
    expected = double_loop(kernel, X)
    np.testing.assert_allclose(kernel(Z), expected, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(kernel(Z, X[:3]), expected[:, :3], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(kernel(X[:3], Z), expected[:3], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(kernel.diag(Z), np.diag(expected), rtol=1e-10)
    assert type(kernel(Z)) is np.ndarray


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float16, np.longdouble])
def test_other_number_types(dtype, rng):
    X = rng.integers(0, 2, (6, 3)).astype(dtype)
    K = RBF()(X)
    assert K.dtype == (np.float32 if dtype == np.float16 else np.float64)
    np.testing.assert_allclose(K, RBF()(X.astype(float)), atol=1e-6)


def test_types_meet_at_the_wider(X):
    single = X.astype(np.float32)
    assert RBF()(single, X).dtype == np.float64
    assert RBF()(single, single[:2].copy()).dtype == np.float32
    assert RBF()(sp.csr_array(single), X).dtype == np.float64


def test_sparse_rows_do_not_cancel_far_from_the_origin(rng):
    near = rng.integers(-3, 4, (8, 3)).astype(float)
    far = near + 2.0**27
    for kernel in (RBF(), Matern(nu=0.5), Laplacian()):
        expected = kernel(near)
        np.testing.assert_allclose(kernel(sp.csr_array(far)), expected, atol=1e-12)
        np.testing.assert_allclose(kernel(sp.csr_array(far), far[:2]), expected[:, :2], atol=1e-12)


def test_very_wide_sparse_rows(rng):
    X = sp.random_array((6, 5000), density=0.01, random_state=rng, format="csr")
    for kernel in (RBF(3.0), Matern(3.0, 0.5), Linear(), Cosine()):
        np.testing.assert_allclose(kernel(X), kernel(X.toarray()), atol=1e-12)
    far = X * 1e7
    np.testing.assert_allclose(RBF(1e7)(far), RBF(1.0)(X), atol=1e-10)


# --------------------------------------------------------------------------------- no points
def test_no_points_and_one_point():
    none, one = np.zeros((0, 3)), np.ones((1, 3))
    for kernel in VECTOR:
        assert kernel(none).shape == (0, 0)
        assert kernel(none, one).shape == (0, 1)
        assert kernel(one, none).shape == (1, 0)
        assert kernel.diag(none).shape == (0,)
        assert kernel.matmul(none, one, np.ones((1, 2))).shape == (0, 2)
        assert kernel.matmul(one, none, np.ones((0, 2))).shape == (1, 2)
        assert kernel.matmul(none, None, np.ones(0)).shape == (0,)
        assert kernel(one).shape == (1, 1)


# ---------------------------------------------------------------------------------- refusals
def test_widths_must_agree(X):
    with pytest.raises(InvalidInput, match="X has 4 columns and Y has 3"):
        RBF()(X, X[:, :3])
    with pytest.raises(InvalidInput, match="X has 3 columns and Y has 4"):
        RBF().matmul(X[:, :3], X, np.ones(11))


@pytest.mark.parametrize(
    "V", [np.ones(10), np.ones(22), np.ones((10, 2)), np.ones((11, 2, 2)), 1.0]
)
def test_products_need_a_row_for_each_column(V, X):
    with pytest.raises(InvalidInput, match="cannot multiply"):
        RBF().matmul(X, None, V)


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (Exponential(), [[0.0], [1e3]]),
        (Exponential(1e-3), [[1.0]]),
        (Polynomial(4), [[1e100], [1.0]]),
        (Linear(), [[1e200]]),
        (Linear().exp(), [[1e3]]),
        (Linear() ** 3, [[1e150]]),
        (2.0 * Polynomial(3), [[1e150]]),
    ],
    ids=repr,
)
def test_overflow_names_kernel_and_rows(kernel, X):
    with pytest.raises(InvalidInput, match=r"row . of X and row . of Y.*overflows"):
        kernel(X)
    with pytest.raises(InvalidInput, match="overflows"):
        kernel.matmul(X, None, np.ones(len(X)))
    for k in (kernel, kernel.normalized()):
        with pytest.raises(InvalidInput, match=r"k\(x, x\) is inf at row .*overflows"):
            k.diag(X)


def test_the_base_class_is_no_kernel():
    with pytest.raises(InvalidInput, match="derive from"):
        Kernel()(np.ones((2, 2)))


# ------------------------------------------------------------------------------------- torch
def test_tensors_in_tensors_out(torch, X):
    T = torch.as_tensor(X)
    for kernel in [*VECTOR, Constant(2.0), RBF() + 1.0, RBF().on([0, 2]), Linear().normalized()]:
        K = kernel(T)
        assert isinstance(K, torch.Tensor) and K.dtype == torch.float64 and K.device == T.device
        np.testing.assert_allclose(K.numpy(), kernel(X), atol=1e-12)
        single = kernel(T.float())
        assert single.dtype == torch.float32
        np.testing.assert_allclose(single.numpy(), kernel(X), rtol=1e-4, atol=1e-4)
        assert kernel.diag(T.float()).dtype == torch.float32


def test_tensors_of_whole_numbers_halves_and_truth_values(torch):
    T = torch.tensor([[0, 1], [2, 3]])
    assert RBF()(T).dtype == torch.float64
    assert RBF()(T.bool()).dtype == torch.float64
    assert RBF()(T.half()).dtype == torch.float32
    assert RBF()(T.to(torch.bfloat16)).dtype == torch.float32


def test_tensors_with_arrays(torch, X):
    T = torch.as_tensor(X)
    for K in (RBF()(T, X[:2]), RBF()(T, T[:2].float())):
        assert isinstance(K, torch.Tensor) and K.dtype == torch.float64
        np.testing.assert_allclose(K.numpy(), RBF()(X, X[:2].copy()), atol=1e-6)


@pytest.mark.parametrize(
    "bad",
    ["nan", "vector", "complex", "no columns"],
)
def test_bad_tensors(torch, bad):
    T = {
        "nan": torch.tensor([[float("nan")]]),
        "vector": torch.ones(3),
        "complex": torch.ones(2, 2, dtype=torch.complex64),
        "no columns": torch.ones(2, 0),
    }[bad]
    with pytest.raises(InvalidInput, match="X"):
        RBF()(T)


SMOOTH = [
    *VECTOR,
    Matern(),
    Matern(nu=2.5),
    Matern(nu=0.8),
    Matern(nu=3.3),
    RBF([1.0, 2.0, 0.5, 1.0]),
    RBF() + Linear(),
    RBF() * Polynomial(2),
    (RBF() + 1.0) ** 2,
    RBF().exp(),
    RBF().on([1, 3]),
    Polynomial(2).normalized(),
    RBF(covariance=np.eye(4) + 0.5),
]


@pytest.mark.parametrize("kernel", SMOOTH, ids=repr)
def test_autograd_is_our_gradient(kernel, torch, rng):
    X, Y = rng.standard_normal((5, 4)), rng.standard_normal((7, 4))
    c = rng.standard_normal(7)
    T = torch.tensor(X, requires_grad=True)
    (kernel(T, torch.as_tensor(Y)) @ torch.as_tensor(c)).sum().backward()
    np.testing.assert_allclose(T.grad.numpy(), kernel.gradient(X, Y, c), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kernel", SMOOTH, ids=repr)
def test_autograd_of_k_of_x_with_repeated_points_is_finite(kernel, torch, rng):
    X = rng.standard_normal((5, 4))
    X[3] = X[1]
    T = torch.tensor(X, requires_grad=True)
    W = torch.as_tensor(rng.standard_normal((5, 5)))
    (W * kernel(T)).sum().backward()
    assert bool(torch.isfinite(T.grad).all())
    h = 1e-6
    step = np.zeros_like(X)
    step[0, 2] = h  # a point that meets only itself
    difference = ((W.numpy() * (kernel(X + step) - kernel(X - step))).sum()) / (2 * h)
    assert T.grad[0, 2].item() == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_the_numpy_engine_refuses_tensors(torch):
    import mercer

    with mercer.config(engine="numpy"), pytest.raises(InvalidInput, match="engine='numpy'"):
        RBF()(torch.ones(2, 2))


def test_functions_of_two_objects_compute_in_main_memory(torch, rng):
    import mercer
    from mercer import FromFunction

    def inner(a, b):
        assert type(a) is type(b) is np.ndarray
        return float(a @ b)

    X, Y, V = rng.standard_normal((6, 2)), rng.standard_normal((4, 2)), rng.standard_normal(6)
    T = torch.tensor(X)
    for k in (FromFunction(inner), RBF() + 2.0 * FromFunction(inner)):
        assert isinstance(k(T), torch.Tensor) and isinstance(k.diag(T), torch.Tensor)
        np.testing.assert_allclose(k(T), k(X), rtol=1e-12)
        np.testing.assert_allclose(k(torch.tensor(Y), T), k(Y, X), rtol=1e-12)
        np.testing.assert_allclose(k.diag(T), k.diag(X), rtol=1e-12)
        with mercer.config(engine="torch", device="cpu"):
            assert isinstance(k(X), np.ndarray)
            np.testing.assert_allclose(k.matmul(Y, X, V), k_of(k, Y, X) @ V, rtol=1e-12)
            model = mercer.KernelRidge(k, alpha=0.1).fit(X, V)
            found = model.predict(Y)
        np.testing.assert_allclose(found, mercer.KernelRidge(k, alpha=0.1).fit(X, V).predict(Y))
    with pytest.raises(InvalidInput, match="does not run on torch"):
        FromFunction(inner)(T.requires_grad_())


def test_feature_maps_of_arrays_compute_in_main_memory(torch, rng):
    from mercer import FromFeatures

    X = rng.standard_normal((6, 2)).astype(np.float32)
    for f in (
        lambda X: np.hstack([X, X**2]),
        lambda X: sp.csr_array(np.asarray(X)),
        lambda X: torch.cat([X, X**2], 1) if hasattr(X, "detach") else np.hstack([X, X**2]),
    ):
        k = FromFeatures(f)
        K = k(torch.tensor(X))
        assert isinstance(K, torch.Tensor) and isinstance(k.diag(torch.tensor(X)), torch.Tensor)
        np.testing.assert_allclose(K, k(X), rtol=1e-6)


def k_of(k, X, Y):
    """Return the matrix by NumPy, whatever engine is asked for."""
    import mercer

    with mercer.config(engine="numpy"):
        return k(X, Y)


def test_a_missing_derivative_of_the_diagonal_is_an_error_and_not_zero(rng):
    class Weighted(Explicit):
        """k = w² xᵀy: k(x, x) depends on w, and nobody says how."""

        _tunable = ("w",)

        def __init__(self, w=2.0):
            super().__init__(w=w)

        def _features(self, X):
            return self.w * X

        def _bind(self, X, Y=None):
            bound = super()._bind(X, Y)
            bound.pull_theta = lambda rows, cols, C: np.array(
                [2 * (C * bound.tile(rows, cols)).sum()]
            )
            return bound

    X = rng.standard_normal((4, 2))
    assert Weighted().theta_vjp(X, np.eye(4))[0] == pytest.approx(8 * (X * X).sum())
    with pytest.raises(InvalidInput, match="_pull_diag"):
        Weighted().normalized().theta_vjp(X, np.eye(4))
    assert Linear().normalized().theta_vjp(X, np.eye(4)).shape == (0,)
