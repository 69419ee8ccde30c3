"""Kernels of one's own (K16): functions of two objects, feature maps, and wrong ones of both."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import RBF, FromFeatures, FromFunction, Linear, check_kernel
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import Explicit, Pairwise


def test_points_may_be_anything():
    k = FromFunction(lambda a, b: float(len(a & b)))
    sets = [{1, 2}, {2, 3}, set()]
    np.testing.assert_array_equal(k(sets), [[2, 1, 0], [1, 2, 0], [0, 0, 0]])
    np.testing.assert_array_equal(k(sets, [{2}]), [[1], [1], [0]])
    np.testing.assert_array_equal(k.diag(sets), [2, 2, 0])
    dicts = FromFunction(lambda a, b: a["x"] * b["x"])
    assert dicts([{"x": 2.0}])[0, 0] == 4.0


def test_rows_of_arrays_sparse_rows_and_frames(rng):
    X = rng.standard_normal((5, 3))
    k = FromFunction(lambda a, b: float(np.dot(a, b)))
    np.testing.assert_allclose(k(X), X @ X.T, atol=1e-14)
    np.testing.assert_allclose(k(sp.csr_array(X)), X @ X.T, atol=1e-14)
    pd = pytest.importorskip("pandas")
    np.testing.assert_allclose(k(pd.DataFrame(X, columns=list("abc"))), X @ X.T, atol=1e-14)


def test_each_pair_is_asked_once():
    calls = []

    def count(a, b):
        calls.append((a, b))
        return float(a == b)

    FromFunction(count)(list(range(7)))
    pairs = 7 * 6 // 2  # beforehand each is asked both ways, to see that they agree
    assert len(calls) == 7 + pairs + 2 * pairs
    calls.clear()
    FromFunction(count)(list(range(100)))
    assert 100 * 101 // 2 < len(calls) <= 100 * 101 // 2 + 2 * 64


@pytest.mark.parametrize("n", [2, 3, 11, 12, 13, 65, 200])
def test_a_function_that_is_not_symmetric_is_refused(n):
    k = FromFunction(lambda a, b: float(a - b))
    points = list(range(n))
    for call in (
        k,
        2.0 * k,
        (k + FromFunction(lambda a, b: 1.0)).warp(lambda Z: Z),
        lambda Z: k.matmul(Z, None, np.ones(n)),
    ):
        with pytest.raises(NotAKernel, match=r"k\(point 0, point 1\) = -1.0 but .* = 1.0") as info:
            call(points)
        assert info.value.counterexample.indices.tolist() == [0, 1]
    np.testing.assert_array_equal(k(points[:1], points), -np.arange(n)[None, :])  # K(X, Y) may be
    report = check_kernel(k, points)
    assert not report and not report.symmetric


def test_asymmetry_far_from_the_first_points_and_at_the_far_end():
    end = FromFunction(lambda a, b: 1.0 + 0.5 * (a < 5 and b > 95))
    with pytest.raises(NotAKernel, match="symmetric"):
        end(list(range(100)))


def test_rounding_is_not_asymmetry(rng):
    X = 1e3 * rng.standard_normal((40, 3))

    def rounded(a, b):  # ‖a‖² − aᵀ(a − b) is aᵀb up to rounding, and not symmetric in its bits
        return float(a @ a - a @ (a - b))

    assert FromFunction(rounded)(X).shape == (40, 40)
    X -= np.outer(X @ np.ones(3), np.ones(3)) / 3
    Z = np.vstack([X[:5], 1e4 * np.ones((5, 3))])  # orthogonal: their values are all rounding
    assert FromFunction(rounded)(Z).shape == (10, 10)
    single = FromFunction(lambda a, b: np.float32(a @ a) - np.float32(a @ (a - b)))
    assert single(X).shape == (40, 40)


@pytest.mark.parametrize(
    "answer",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        None,
        "1",
        "x",
        [1.0],
        np.ones(2),
        np.ones((1, 1)),
        1j,
    ],
    ids=repr,
)
def test_an_answer_that_is_no_number_is_named_with_its_points(answer):
    def bad(a, b):
        return answer if (a, b) == ("p", "r") else 1.0

    if isinstance(answer, str) and answer == "1":
        assert FromFunction(bad)(["p", "q", "r"]).shape == (3, 3)  # text that reads as a number
        return
    with pytest.raises(InvalidInput, match=r"bad\): k\(point 0, point 2\) is"):
        FromFunction(bad)(["p", "q", "r"])
    with pytest.raises(InvalidInput, match=r"k\(point 0, point 1\)"):
        FromFunction(bad)(["p"], ["q", "r"])


def test_exceptions_of_the_function_pass_through():
    def broken(a, b):
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing"):
        FromFunction(broken)(["a"])


@pytest.mark.parametrize("value", [None, 3, "rbf", RBF()], ids=repr)
def test_what_is_not_callable_is_refused(value):
    for cls in (FromFunction, FromFeatures):
        if callable(value):
            continue
        with pytest.raises(InvalidInput, match="function"):
            cls(value)


@pytest.mark.parametrize(
    "X",
    ["abc", b"abc", None, 5.0, {1, 2}, iter([1]), {"a": [1]}, np.array(3.0)],
    ids=["text", "bytes", "None", "number", "set", "iterator", "dict", "0-d array"],
)
def test_what_is_no_collection_is_refused(X):
    with pytest.raises(InvalidInput, match="X is a"):
        FromFunction(lambda a, b: 1.0)(X)


def test_harmless_overflow_inside_a_users_function_is_the_users():
    def logistic(a, b):
        with np.errstate(over="ignore"):
            return 1 / (1 + float(np.exp(np.float64(1000.0))))

    assert FromFunction(logistic)([1, 2])[0, 0] == 0.0


# --------------------------------------------------------------------------------- features
def test_feature_maps_dense_and_sparse(rng):
    X = rng.standard_normal((6, 2))
    dense = FromFeatures(lambda Z: np.hstack([Z, Z**2]))
    sparse = FromFeatures(lambda Z: sp.csr_matrix(np.hstack([Z, Z**2])))
    phi = np.hstack([X, X**2])
    for k in (dense, sparse):
        np.testing.assert_allclose(k(X), phi @ phi.T, atol=1e-14)
        np.testing.assert_allclose(k(X, X[:2].copy()), phi @ phi[:2].T, atol=1e-14)
        np.testing.assert_allclose(k.diag(X), (phi**2).sum(1), atol=1e-14)
        assert k.n_features(X) == 4
    words = FromFeatures(lambda ws: [[len(w), w.count("a")] for w in ws])
    assert words(["abc", "aa"])[0, 1] == 3 * 2 + 1 * 2


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (lambda X: np.ones((len(X) + 1, 2)), "one row for each point"),
        (lambda X: np.ones(len(X)), "one row for each point"),
        (lambda X: np.ones((len(X), 2, 2)), "one row for each point"),
        (lambda X: 3.0, "one row for each point"),
        (lambda X: np.full((len(X), 2), np.nan), "not finite"),
        (lambda X: np.full((len(X), 2), np.inf), "not finite"),
        (lambda X: [["a"]] * len(X), "real numbers"),
        (lambda X: [[1.0], [1.0, 2.0]], "real numbers"),
        (lambda X: np.ones((len(X), 2)) * 1j, "real numbers"),
        (lambda X: None, "real numbers|one row"),
    ],
    ids=["rows", "vector", "cube", "number", "nan", "inf", "text", "ragged", "complex", "None"],
)
def test_bad_feature_maps(phi, message):
    with pytest.raises(InvalidInput, match=message):
        FromFeatures(phi)(["a", "b"])
    with pytest.raises(InvalidInput):
        FromFeatures(phi).diag(["a", "b"])


def test_features_that_depend_on_the_collection_are_refused():
    with pytest.raises(InvalidInput, match="must not depend on the collection"):
        FromFeatures(lambda X: np.ones((len(X), len(X))))(["a", "b"], ["c"])


# ----------------------------------------------------------------------------- author's hooks
def test_an_explicit_kernel_of_ones_own(rng):
    class Doubled(Explicit):
        def _features(self, X):
            return 2 * X

    X = rng.standard_normal((4, 3))
    np.testing.assert_allclose(Doubled()(X), 4 * Linear()(X), atol=1e-14)
    assert Doubled().n_features(X) == 3
    assert Doubled()(X.astype(np.float32)).dtype == np.float32


def test_a_hook_that_was_not_written_is_named():
    class Nothing(Pairwise):
        pass

    with pytest.raises(InvalidInput, match=r"Nothing: define _pair"):
        Nothing()(["a"])


def test_the_judge_of_kernels_takes_a_function_of_objects():
    assert check_kernel(lambda a, b: float(len(set(a) & set(b))), ["ab", "bc", ""]).valid
    assert not check_kernel(lambda a, b: float(max(a, b)), [1.0, 2.0, 3.0]).valid
