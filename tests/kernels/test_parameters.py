"""get_params, set_params, equality and printing: what scikit-learn's tools rely on."""

import copy
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ParameterGrid

from mercer import RBF, Constant, FromFunction, KernelRidge, Laplacian, Linear, Matern, Polynomial
from mercer.errors import InvalidInput
from mercer.kernels import Pairwise, Power, Product, Sum


def test_get_params_is_nested():
    k = 2.0 * RBF(0.5) + Linear()
    params = k.get_params()
    assert params["k1__k2__length_scale"] == 0.5
    assert params["k1__k1__value"] == 2.0
    assert set(k.get_params(deep=False)) == {"k1", "k2"}


def test_set_params_reaches_inside():
    k = 2.0 * RBF(0.5) + Polynomial(2)
    assert k.set_params(k1__k2__length_scale=3.0, k2__degree=4) is k
    assert k == 2.0 * RBF(3.0) + Polynomial(4)
    k.set_params(k2=Linear())
    assert k.k2 == Linear()
    k.set_params(k1=RBF(), k1__length_scale=7.0)  # the new kernel, then its parameter
    assert k.k1 == RBF(7.0)


@pytest.mark.parametrize(
    "bad",
    [
        {"length_scale": 2.0, "lengthscale": 1.0},
        {"length_scale": -1.0},
        {"length_scale": 2.0, "covariance": [[1.0, 2.0], [2.0, 1.0]]},
        {"length_scale__x": 1.0},
        {"length_scale": 2.0, "nothing__x": 1.0},
    ],
    ids=repr,
)
def test_set_params_is_all_or_nothing(bad):
    k = RBF(0.5)
    with pytest.raises(InvalidInput):
        k.set_params(**bad)
    assert k == RBF(0.5)


def test_set_params_is_all_or_nothing_inside():
    k = RBF(0.5) + Polynomial(2)
    inner = k.k1
    with pytest.raises(InvalidInput):
        k.set_params(k1__length_scale=3.0, k2__degree=-1)
    with pytest.raises(InvalidInput):
        k.set_params(k1__length_scale=3.0, k2=5.0)
    with pytest.raises(InvalidInput):
        k.set_params(k2__offset=3.0, k1__nu=1.0)
    assert k == RBF(0.5) + Polynomial(2) and k.k1 is inner


def test_kernels_that_share_a_part_do_not_change_together():
    part = RBF(1.0)
    k, other = part + Linear(), part * Linear()
    twice = part + part
    k.set_params(k1__length_scale=9.0)
    assert other.k1.length_scale == part.length_scale == 1.0
    twice.set_params(k1__length_scale=5.0)
    assert twice.k2.length_scale == 1.0


def test_unknown_parameters_are_named_with_those_there_are():
    with pytest.raises(InvalidInput, match=r"RBF.*'gamma'.*length_scale"):
        RBF().set_params(gamma=1.0)


def test_constructors_take_no_other_arguments():
    with pytest.raises(TypeError):
        RBF(gamma=1.0)


def test_first_arguments_by_position():
    assert RBF(2.0).length_scale == 2.0
    assert Matern(2.0, 0.5).nu == 0.5
    assert Polynomial(3, 0.5).offset == 0.5
    assert Constant(4.0).value == 4.0
    assert Laplacian(3.0).length_scale == 3.0


# -------------------------------------------------------------------- clone, grid search
def test_clone_of_arrays_and_functions():
    scales = np.array([1.0, 2.0])
    k = RBF(scales)
    copied = clone(k)
    copied.length_scale[0] = 9.0
    assert k.length_scale[0] == 1.0
    f = FromFunction(len)
    assert clone(f).function is len


def test_grid_search_over_a_nested_kernel(rng):
    X = rng.standard_normal((40, 2))
    y = np.sin(X[:, 0])
    kernel = 1.0 * RBF() + Linear()
    grid = {
        "kernel__k1__k2__length_scale": [0.01, 1.0, 100.0],
        "kernel__k2": [Linear(), Polynomial(2)],
    }
    search = GridSearchCV(KernelRidge(kernel, alpha=1e-3), grid, cv=3).fit(X, y)
    assert search.best_params_["kernel__k1__k2__length_scale"] == 1.0
    assert kernel == 1.0 * RBF() + Linear()  # the user's kernel is as it was
    assert len(search.cv_results_["params"]) == len(list(ParameterGrid(grid))) == 6


def test_pickle_and_copy():
    k = (RBF([1.0, 2.0]) * Polynomial(2)).normalized() + 3.0
    for again in (pickle.loads(pickle.dumps(k)), copy.deepcopy(k), copy.copy(k)):
        assert again == k and again is not k


# ------------------------------------------------------------------------------- equality
def test_equality_is_of_class_and_parameters():
    assert RBF(1.0) == RBF(1.0) == RBF(1)
    assert RBF(1.0) != RBF(1.0 + 1e-15)
    assert RBF() != Matern(nu=math.inf)
    assert RBF([1.0, 2.0]) == RBF(np.array([1.0, 2.0]))
    assert RBF([1.0, 2.0]) != RBF([1.0, 2.0, 3.0])
    assert RBF(2.0) != RBF("median") and RBF("median") == RBF("median")
    assert RBF() + Linear() != Linear() + RBF()
    assert RBF() != "rbf" and RBF() is not None
    with pytest.raises(TypeError):
        hash(RBF())  # mutable: no place in a set


# --------------------------------------------------------------------------------- printing
@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (RBF(), "RBF(length_scale=1.0)"),
        (RBF(np.float64(0.5)), "RBF(length_scale=0.5)"),
        (Matern(2.0, 0.5), "Matern(length_scale=2.0, nu=0.5)"),
        (2.0 * RBF() + Linear(), "2.0 * RBF(length_scale=1.0) + Linear()"),
        ((RBF() + Linear()) * Linear(), "(RBF(length_scale=1.0) + Linear()) * Linear()"),
        ((RBF() + Linear()) ** 2, "(RBF(length_scale=1.0) + Linear()) ** 2"),
        ((RBF() ** 2) ** 3, "(RBF(length_scale=1.0) ** 2) ** 3"),
        ((2.0 * RBF()).exp(), "(2.0 * RBF(length_scale=1.0)).exp()"),
        (Linear().on("age"), "Linear().on('age')"),
        (Linear().series(np.array([1.0, 0.5])), "Linear().series([1.0, 0.5])"),
        ((Linear() + Linear()).normalized(), "(Linear() + Linear()).normalized()"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_printed_forms(kernel, text):
    assert repr(kernel) == text


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(np.array([1 / 3, math.pi, 1e-7])),
        RBF(np.linspace(0.1, 9.9, 200)),
        RBF(covariance=np.array([[2.0, 1 / 3], [1 / 3, 1.0]])),
        Sum(RBF(), Sum(Linear(), RBF(2.0))),
        Product(RBF(), Product(Linear(), RBF(2.0))),
        Product(Constant(2.0), Constant(3.0)),
        Sum(Constant(2.0), Constant(3.0)),
        Power(Product(RBF(), Linear()), 2),
        Product(Sum(RBF(), Linear()), Sum(Linear(), RBF())),
        Matern(1.0, math.inf),
        RBF().on(slice(1, None)),
        RBF().on(np.array([0, 2])),
    ],
    ids=lambda k: repr(k)[:40],
)
def test_the_printed_form_is_an_expression(kernel):
    import mercer

    names = {n: getattr(mercer.kernels, n) for n in mercer.kernels.__all__}
    names |= {"inf": math.inf, "array": np.array, "slice": slice}
    assert eval(repr(kernel), {"__builtins__": {}}, names) == kernel


def test_a_kernel_without_a_constructor_of_its_own():
    class Same(Pairwise):
        def _pair(self, x, y):
            return float(x == y)

    assert repr(Same()) == "Same()"
    assert clone(Same()) == Same()
    np.testing.assert_array_equal(Same()(["a", "b"]), np.eye(2))


def test_a_parameter_of_a_kernel_inside_is_asked_for():
    from mercer import SVC, Spectrum

    for wrong, meant in (
        (Spectrum(3).normalized(), "Did you mean 'kernel__length'?"),
        (2.0 * Spectrum(3).normalized(), "Did you mean 'k2__kernel__length'?"),
        (Spectrum(3) + Spectrum(2), "Did you mean 'k1__length' or 'k2__length'?"),
    ):
        with pytest.raises(InvalidInput) as error:
            wrong.set_params(length=4)
        assert str(error.value).endswith(meant)
    with pytest.raises(InvalidInput, match="'kernel__length'"):
        SVC(Spectrum(3).normalized()).set_params(kernel__length=4)
    with pytest.raises(InvalidInput, match=r"it has \['kernel'\]\.$"):
        Spectrum(3).normalized().set_params(width=4)


def test_large_matrices_and_texts_are_named_only():
    from mercer import LocalAlignment, Spectrum

    letters = "ACDEFGHIKLMNPQRSTVWY"
    k = LocalAlignment(substitution=np.eye(20), alphabet=letters)
    assert "substitution=<20×20 array>" in repr(k) and "\n" not in repr(k)
    assert "covariance=<30×30 array>)" in repr(RBF(covariance=np.diag(np.arange(1.0, 31))))
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 3000)))
    assert repr(Spectrum(1, alphabet=many)) == "Spectrum(length=1, alphabet=<str of 3000>)"
