import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mercer
from mercer import FromFunction, check_kernel
from mercer.errors import InvalidInput, MemoryBudgetExceeded, NotAKernel
from mercer.kernels import KernelReport, Pairwise

WHOLE = list(range(1, 30))
rng = np.random.default_rng(7)
REAL = rng.uniform(-6, 6, 40).tolist()
POSITIVE = rng.uniform(0.01, 9, 40).tolist()

# The thirteen functions of the quiz, with samples of their domain and the right answer.
QUIZ = [
    ("1/(1-xy)", lambda x, y: 1 / (1 - x * y), [list(np.linspace(-0.97, 0.97, 40))], True),
    ("2^(x+y)", lambda x, y: 2.0 ** (x + y), [WHOLE, range(0, 300, 7)], True),
    ("2^(xy)", lambda x, y: 2 ** (x * y), [WHOLE, range(32), np.linspace(0, 30, 40)], True),
    (
        "log(1+xy)",
        lambda x, y: math.log(1 + x * y),
        [POSITIVE, WHOLE, np.linspace(0, 1, 20), np.linspace(0, 1e3, 50), [0, 1, 2]],
        False,
    ),
    ("exp(-(x-y)^2)", lambda x, y: math.exp(-(abs(x - y) ** 2)), [REAL, WHOLE], True),
    ("cos(x+y)", lambda x, y: math.cos(x + y), [REAL, WHOLE, np.linspace(0, 7, 10)], False),
    ("cos(x-y)", lambda x, y: math.cos(x - y), [REAL, WHOLE, np.linspace(0, 1e6, 60)], True),
    ("min", min, [POSITIVE, WHOLE, np.linspace(0, 1, 50)], True),
    ("max", max, [POSITIVE, WHOLE, np.linspace(0, 1, 50), [0, 1]], False),
    ("min/max", lambda x, y: min(x, y) / max(x, y), [POSITIVE, WHOLE], True),
    ("gcd", math.gcd, [WHOLE, range(1, 120), np.arange(1, 40)], True),
    ("lcm", math.lcm, [WHOLE, range(1, 120), [2, 3]], False),
    ("gcd/lcm", lambda x, y: math.gcd(x, y) / math.lcm(x, y), [WHOLE, range(1, 120)], True),
]


def recomputed(k, counterexample) -> Fraction:
    """Σᵢⱼ aᵢaⱼk(xᵢ, xⱼ) in exact arithmetic from the values of k."""
    a = [Fraction(float(c)) for c in counterexample.coefficients]
    points = counterexample.points
    return sum(
        a[i] * a[j] * Fraction(float(k(points[i], points[j])))
        for i in range(len(a))
        for j in range(len(a))
    )


@pytest.mark.parametrize(("name", "k", "samples", "valid"), QUIZ, ids=[q[0] for q in QUIZ])
def test_the_quiz_is_judged_rightly(name, k, samples, valid):
    for X in samples:
        report = check_kernel(k, X)
        assert report.symmetric
        assert report.valid is valid is bool(report)
        assert report.n_points == len(X)
        if valid:
            assert report.counterexample is None
            assert report.raise_if_invalid() is report
            continue
        found = report.counterexample
        assert 1 <= len(found) <= 5
        assert found.value < 0
        exact = recomputed(k, found)
        assert exact < 0
        assert float(exact) == pytest.approx(found.value, rel=1e-9)
        assert np.linalg.norm(found.coefficients) == pytest.approx(1.0)
        assert all(X[i] == p for i, p in zip(found.indices, found.points, strict=True))
        with pytest.raises(NotAKernel, match="not positive semidefinite") as caught:
            report.raise_if_invalid()
        assert caught.value.counterexample is found


def test_smallest_eigenvalue_is_that_of_the_gram_matrix():
    K = np.array([[max(x, y) for x in WHOLE] for y in WHOLE], dtype=float)
    report = check_kernel(max, WHOLE)
    assert report.smallest_eigenvalue == pytest.approx(np.linalg.eigvalsh(K)[0])
    X = rng.standard_normal((12, 3))
    report = check_kernel(mercer.RBF(), X)
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1))
    assert report.smallest_eigenvalue == pytest.approx(np.linalg.eigvalsh(K)[0])


# ---------------------------------------------------------------- how small is the counterexample
def planted(n: int, m: int, excess: float, seed: int) -> tuple[np.ndarray, list[int]]:
    """A matrix whose only fault needs m chosen points: there, correlation just below −1/(m−1)."""
    local = np.random.default_rng(seed)
    Z = local.standard_normal((n, n))
    K = np.eye(n) + 0.05 * Z @ Z.T / n
    index = np.sort(local.choice(n, m, replace=False))
    t = (1 + excess) / (m - 1)
    K[np.ix_(index, index)] = (1 + t) * np.eye(m) - t
    return K, index.tolist()


@pytest.mark.parametrize(
    ("n", "m"), [(12, 2), (12, 3), (12, 4), (12, 5), (60, 2), (60, 3), (60, 4), (60, 5), (280, 4)]
)
def test_planted_fault_is_found_with_as_few_points(n, m):
    K, index = planted(n, m, 0.06, seed=n + m)
    report = check_kernel(mercer.Precomputed(), K)
    assert not report.valid
    assert report.counterexample.indices.tolist() == index
    assert report.counterexample.points == index


@pytest.mark.parametrize(("n", "m"), [(10, 6), (50, 8), (120, 40)])
def test_pruning_where_five_points_do_not_suffice(n, m):
    t = 1.02 / (m - 1)  # every m points show the fault, no m − 1 do
    K = (1 + t) * np.eye(n) - t
    found = check_kernel("precomputed", K).counterexample
    assert len(found) == m
    a, part = found.coefficients, K[np.ix_(found.indices, found.indices)]
    assert a @ part @ a == pytest.approx(found.value)
    assert found.value < 0


@pytest.mark.parametrize("seed", range(12))
def test_at_most_five_whenever_five_suffice_exhaustively(seed):
    from itertools import combinations

    local = np.random.default_rng(seed)
    Z = local.standard_normal((9, 9))
    K = Z @ Z.T / 9
    K -= local.uniform(0.05, 1.2) * np.outer(v := local.standard_normal(9), v)
    K /= np.sqrt(np.outer(d := np.abs(K.diagonal()), d))
    few = next(
        (
            m
            for m in range(1, 10)
            for c in combinations(range(9), m)
            if np.linalg.eigvalsh(K[np.ix_(c, c)])[0] < -1e-6
        ),
        None,
    )
    report = check_kernel(mercer.Precomputed(), K)
    assert report.valid == (few is None)
    if few is not None:
        assert len(report.counterexample) == few


def test_negative_diagonal_is_one_point():
    found = check_kernel(
        lambda x, y: -1.0 if x == y == 3 else float(x == y), [1, 2, 3]
    ).counterexample
    assert found.points == [3] and found.value == -1.0
    assert abs(found.coefficients[0]) == 1.0


def test_zero_diagonal_with_nonzero_value_is_two_points():
    found = check_kernel(lambda x, y: abs(x - y), [0.0, 1.0, 5.0]).counterexample
    assert len(found) == 2 and found.value < 0
    found = check_kernel(math.gcd, [0, 4]).counterexample  # gcd(0, 0) = 0, gcd(0, 4) = 4
    assert found.points == [0, 4]


# ------------------------------------------------------------------------------------ asymmetry
def test_asymmetry_names_the_pair():
    report = check_kernel(lambda x, y: x - 2.0 * y, [1.0, 4.0])
    assert not report and not report.symmetric
    found = report.counterexample
    assert found.points == [1.0, 4.0]
    assert found.matrix[0, 1] == -7.0 and found.matrix[1, 0] == 2.0
    assert found.coefficients is None and found.value is None
    assert "k(x, y) = -7" in str(report) and "k(y, x) = 2" in str(report)
    with pytest.raises(NotAKernel, match="not symmetric"):
        report.raise_if_invalid()


def test_asymmetry_in_one_pair_only_and_on_one_diagonal_tile():
    def k(x, y):
        return 1.0 * (x == y) + 0.3 * (x == 17 and y == 4)

    found = check_kernel(k, list(range(30))).counterexample
    assert sorted(found.points) == [4, 17]


def test_asymmetric_precomputed_is_reported_not_raised():
    K = np.eye(4)
    K[1, 3] = 0.5
    report = check_kernel(mercer.Precomputed(), K)
    assert not report.symmetric and report.counterexample.points == [1, 3]


def test_asymmetry_of_kernel_class():
    class Lopsided(Pairwise):
        def __init__(self):
            super().__init__()

        def _pair(self, x, y):
            return float(x * y + 0.1 * (x > y))

    assert not check_kernel(Lopsided(), [1.0, 2.0, 3.0]).symmetric


# ------------------------------------------------------------------------------ no false alarms
KERNELS = [
    mercer.RBF(),
    mercer.RBF(1e6),
    mercer.RBF(1e-6),
    mercer.Matern(nu=2.5),
    mercer.Matern(nu=0.7),
    mercer.RationalQuadratic(),
    mercer.Laplacian(),
    mercer.Linear(),
    mercer.Polynomial(3),
    mercer.Cosine(),
    mercer.Periodic(),
    mercer.RBF() + mercer.White(1e-3),
    mercer.RBF() * mercer.Polynomial(2),
    (20.0 * mercer.RBF()).exp(),
    mercer.RBF() ** 9,
    mercer.Polynomial(2).normalized(),
    mercer.Constant(0.0),
    mercer.White(),
]


@pytest.mark.parametrize("k", KERNELS, ids=repr)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_true_kernels_pass_at_every_scale(k, scale, dtype):
    X = (scale * np.random.default_rng(0).standard_normal((40, 3))).astype(dtype)
    X[20:] = X[:20] * dtype(1 + 1e-6)  # nearly coinciding points: singular up to rounding
    report = check_kernel(k, X)
    assert report.valid, report


@pytest.mark.parametrize("offset", [0.0, 300.0, 1e4, 1e9])
def test_no_alarm_far_from_the_origin(offset):
    X = offset + np.random.default_rng(1).uniform(-200, 200, (150, 2))
    assert check_kernel(mercer.RBF(), X)
    assert check_kernel(lambda x, y: math.exp(-0.5 * ((x - y) ** 2).sum()), X[:40])


def test_no_alarm_where_the_function_is_ill_conditioned():
    # 1 − xy cancels: for x = 1 − 1e-13 the value is right to three digits only.
    X = list(np.tanh(np.linspace(-15, 15, 60)))
    assert check_kernel(lambda x, y: 1 / (1 - x * y), X)
    assert check_kernel(mercer.Geometric(), X)
    # exp(−(x−y)²/2) written out cancels far from zero; a large angle is known to few digits.
    far = list(1e6 + np.linspace(0, 1, 40))
    assert check_kernel(lambda x, y: math.exp(-0.5 * (x * x + y * y - 2 * x * y)), far)
    assert check_kernel(lambda x, y: math.cos(x - y), list(np.linspace(0.1, 1e12, 40)))
    # A real fault of such a function is still seen.
    assert not check_kernel(lambda x, y: math.cos(x + y), list(np.linspace(0.1, 1e12, 40)))


@pytest.mark.parametrize("x0", [0.3, 2.0])
def test_no_alarm_from_residues_of_a_centred_kernel(x0):
    def rbf(x, y):
        return math.exp(-0.5 * (x - y) ** 2)

    def k(x, y):  # zero at x0, up to rounding residues with other points
        return rbf(x, y) - rbf(x, x0) - rbf(x0, y) + rbf(x0, x0)

    X = [x0, *(x0 + np.geomspace(1e-9, 3, 40)), *np.linspace(-3, 3, 20)]
    assert check_kernel(k, X)


def test_no_alarm_for_huge_and_tiny_values():
    assert check_kernel(lambda x, y: 1e-300 * min(x, y), POSITIVE)
    assert check_kernel(lambda x, y: 1e300 * min(x, y), POSITIVE)
    assert check_kernel(mercer.Exponential(), np.linspace(-26, 26, 60)[:, None])
    assert check_kernel(lambda x, y: 0.0, [1, 2])


@pytest.mark.parametrize("factor", [1e-300, 1e-9, 1e9, 1e300])
def test_verdict_does_not_depend_on_the_scale(factor):
    report = check_kernel(lambda x, y: factor * max(x, y), POSITIVE)
    assert not report.valid
    assert report.counterexample.value < 0
    assert report.counterexample.indices.tolist() == (
        check_kernel(max, POSITIVE).counterexample.indices.tolist()
    )


def test_values_at_the_edge_of_the_floating_numbers():
    top = np.finfo(float).max
    assert check_kernel(lambda x, y: top if x == y else 0.0, [1, 2, 3])
    found = check_kernel(lambda x, y: 0.5 * top if x == y else top, [1, 2]).counterexample
    assert found.value == pytest.approx(-0.5 * top)


@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_fault_between_points_of_different_scale(m):
    t = 1.02 / (m - 1)
    size = np.geomspace(1e-3, 1e3, m)
    K = ((1 + t) * np.eye(m) - t) * np.outer(size, size)
    found = check_kernel(mercer.Precomputed(), K).counterexample
    assert len(found) == m and found.value < 0


def test_fault_among_small_values_beside_large_ones():
    K = np.diag([1e12, 1e12, 1.0, 1.0])
    K[2, 3] = K[3, 2] = 1.5
    found = check_kernel(mercer.Precomputed(), K).counterexample
    assert found.indices.tolist() == [2, 3]


def test_tolerance_means_accuracy_of_values():
    K = np.array([[1.0, 1.0 + 1e-5], [1.0 + 1e-5, 1.0]])
    assert not check_kernel(mercer.Precomputed(), K)
    assert check_kernel(mercer.Precomputed(), K, tol=1e-4)
    assert check_kernel(mercer.Precomputed(), K.astype(np.float32))
    K = np.array([[1.0, 1.0 + 1e-11], [1.0 + 1e-11, 1.0]])
    assert check_kernel(mercer.Precomputed(), K)
    assert not check_kernel(mercer.Precomputed(), K, tol=1e-13)
    for bad in (-1.0, 1.0, math.nan, "small", True):
        with pytest.raises(InvalidInput, match="tol"):
            check_kernel(mercer.Precomputed(), K, tol=bad)


def test_float32_values_of_a_function_are_not_blamed():
    X = [np.float32(x) for x in np.linspace(0, 1, 40)]
    assert check_kernel(lambda x, y: np.exp(-((x - y) ** 2)), X)
    assert check_kernel(lambda x, y: np.float32(math.exp(-((x - y) ** 2))), np.linspace(0, 1, 40))
    assert not check_kernel(lambda x, y: np.float32(max(x, y)), POSITIVE)


# --------------------------------------------------------------------------------- kinds of input
def test_objects_of_any_kind():
    words = ["cat", "car", "cart", "", "dog"]
    assert check_kernel(lambda a, b: float(len(set(a) & set(b))), words)
    report = check_kernel(lambda a, b: -float(abs(len(a) - len(b))), words)
    assert not report and all(word in words for word in report.counterexample.points)
    assert "''" in str(check_kernel(lambda a, b: -1.0, [""]))
    sets = [frozenset(s) for s in ({1, 2}, {2, 3}, {1, 2, 3})]
    assert check_kernel(lambda a, b: len(a & b) / len(a | b), sets)
    # The union is not a kernel: |A ∪ B| is like max.
    assert not check_kernel(lambda a, b: len(a | b), sets)


def test_names_frames_sparse_and_numbers():
    X = rng.standard_normal((20, 3))
    assert check_kernel("rbf", X)
    assert check_kernel(mercer.RBF("median"), X)
    assert check_kernel("rbf", pd.DataFrame(X, columns=list("abc")))
    assert check_kernel("laplacian", sp.csr_array(X))
    assert check_kernel(mercer.GCD(), WHOLE)
    assert check_kernel(mercer.RBF().on("b"), pd.DataFrame(X, columns=list("abc")))
    bad = check_kernel(lambda r, s: abs(r[0] - s[0]), pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]}))
    assert bad.counterexample.points[0] == {"x": 1.0, "y": 0}
    assert not check_kernel(lambda r, s: float(max(r[0], s[0])), sp.csr_array(np.abs(X)))


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    X = torch.randn(15, 2, dtype=torch.float32, requires_grad=True)
    report = check_kernel(mercer.RBF(), X)
    assert report.valid and isinstance(report.smallest_eigenvalue, float)


def test_one_point():
    report = check_kernel(lambda x, y: 2.0, ["only"])
    assert report.valid and report.smallest_eigenvalue == 2.0 and report.n_points == 1


def test_duplicates_are_harmless():
    assert check_kernel(min, [1.0, 1.0, 1.0, 2.0])
    assert not check_kernel(max, [1.0, 1.0, 3.0, 3.0])


# -------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize("X", [[], np.empty((0, 2)), np.empty(0)])
def test_no_points(X):
    with pytest.raises(InvalidInput, match="no points"):
        check_kernel(min, X)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite(value):
    with pytest.raises(InvalidInput, match="finite"):
        check_kernel(lambda x, y: value if x != y else 1.0, [1, 2])


def test_a_kernel_that_overflows():
    with pytest.raises(InvalidInput, match="finite"):
        check_kernel(mercer.Exponential(), [[30.0], [1.0]])


def test_matrix_that_is_not_square_and_nan():
    with pytest.raises(InvalidInput, match="square"):
        check_kernel(mercer.Precomputed(), np.ones((2, 3)))
    with pytest.raises(InvalidInput):
        check_kernel(mercer.Precomputed(), [[math.nan]])
    with pytest.raises(InvalidInput):
        check_kernel(mercer.RBF(), [[math.nan]])


def test_not_a_function():
    with pytest.raises(InvalidInput):
        check_kernel(3.0, [1, 2])
    with pytest.raises(InvalidInput):
        check_kernel("no such kernel", [1, 2])
    with pytest.raises(InvalidInput, match="not a number"):
        check_kernel(lambda x, y: "text", [1, 2])


def test_error_of_the_function_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        check_kernel(lambda x, y: 1 / (x - y), [1, 2])


def test_too_large_for_the_budget():
    with (
        mercer.config(memory="1MB"),
        pytest.raises(MemoryBudgetExceeded, match="fewer points"),
    ):
        check_kernel(mercer.RBF(), np.zeros((1000, 1)))


# ------------------------------------------------------------------------------------- the report
def test_report_is_frozen_readable_and_can_be_pickled():
    report = check_kernel(max, WHOLE)
    with pytest.raises(AttributeError):
        report.valid = True
    text = str(report)
    assert text.startswith("max is not a kernel")
    assert "smallest eigenvalue" in text and "a = " in text and "x = 1" in text
    again = pickle.loads(pickle.dumps(report))
    assert (
        isinstance(again, KernelReport)
        and again.counterexample.value == report.counterexample.value
    )
    assert "up to rounding" in str(check_kernel(min, POSITIVE))
    with pytest.raises(NotAKernel) as caught:
        report.raise_if_invalid()
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.counterexample.value == report.counterexample.value


def test_same_state_same_answer_and_inputs_unchanged():
    K, _ = planted(80, 4, 0.1, seed=0)
    before = K.copy()
    K.setflags(write=False)
    first = check_kernel("precomputed", K, random_state=3)
    second = check_kernel("precomputed", K, random_state=3)
    assert (K == before).all()
    assert first.counterexample.value == second.counterexample.value


def test_the_function_is_called_on_the_points_themselves():
    seen = set()

    def k(x, y):
        seen.update((id(x), id(y)))
        return float(x is y)

    points = [object(), object(), object()]
    assert check_kernel(k, points)
    assert check_kernel(FromFunction(k), points)
    assert seen == {id(p) for p in points}


def test_a_callable_object_is_used_and_not_copied():
    class Similarity:
        calls = 0

        def __call__(self, x, y):
            self.calls += 1
            return float(x == y)

    k = Similarity()
    assert check_kernel(FromFunction(k), ["a", "b", "c"])
    assert k.calls >= 9
