"""Short names, and what an estimator takes for a kernel."""

import numpy as np
import pytest

from mercer import RBF, FromFunction, Periodic, Polynomial, White
from mercer.errors import InvalidInput
from mercer.kernels import Kernel, as_kernel, names_in_words
from mercer.kernels.names import SHORT_NAMES


@pytest.mark.parametrize("name", SHORT_NAMES)
def test_every_name_gives_a_kernel_of_its_own(name, rng):
    kernel = as_kernel(name)
    assert isinstance(kernel, Kernel) and kernel is not as_kernel(name)
    X = rng.standard_normal((4, 2))
    X = X @ X.T if name == "precomputed" else X
    assert kernel(X).shape == (4, 4)


def test_names_take_scales_from_the_data():
    assert as_kernel("rbf") == RBF("scale")
    assert as_kernel("poly") == as_kernel("polynomial") == Polynomial(3, 1.0, "scale")
    assert as_kernel("poly", 0.0) == Polynomial(3, 0.0, "scale")


def test_a_kernel_is_copied_and_a_function_wrapped():
    kernel = RBF(2.0)
    assert as_kernel(kernel) == kernel and as_kernel(kernel) is not kernel

    def f(a, b):
        return 1.0

    assert as_kernel(f) == FromFunction(f)


@pytest.mark.parametrize("bad", ["gaussian", "", 3, None, np.eye(2), ["rbf"]], ids=repr)
def test_what_is_no_kernel_is_refused(bad):
    with pytest.raises(InvalidInput, match="kernel="):
        as_kernel(bad)


def test_an_unknown_name_is_answered_with_the_known():
    with pytest.raises(InvalidInput, match=r"'gauss'.*rbf, matern"):
        as_kernel("gauss")


def test_a_class_instead_of_an_instance():
    with pytest.raises(InvalidInput, match=r"write RBF\(\)"):
        as_kernel(RBF)


def test_a_function_of_no_module():
    space = {}
    exec("def same(a, b):\n    return float(a == b)", space)  # as a notebook or a worker may do
    space["same"].__module__ = None
    assert as_kernel(space["same"])(["a", "b"]).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_word_that_there_is_not():
    with pytest.raises(InvalidInput, match=r"kernel='rfb' .*\('rbf'\?\); legal are"):
        as_kernel("rfb")
    for word in ("sigmoid", "chi2", "additive_chi2"):
        with pytest.raises(InvalidInput, match=f"kernel='{word}' is not to be had by its name: "):
            as_kernel(word)


# -------------------------------------------------------------------------- parameters in words
def test_parameters_are_told_by_their_kernels():
    k = 1.0 * RBF(40.0) + 1.0 * RBF(60.0) * Periodic(period=1.0) + 0.1 * RBF([1.0, 2.0])
    assert names_in_words(k) == [
        "value of the first Constant",
        "length_scale of the first RBF",
        "value of the second Constant",
        "length_scale of the second RBF",
        "length_scale of Periodic",
        "period of Periodic",
        "value of the third Constant",
        "length_scale[0] of the third RBF",
        "length_scale[1] of the third RBF",
    ]


def test_columns_tell_kernels_apart():
    k = RBF().on("age") * RBF().on("hour") + RBF().on(["age"]).normalized()
    assert names_in_words(k) == [
        "length_scale of RBF on 'age'",
        "length_scale of RBF on 'hour'",
        "length_scale of RBF on ['age']",
    ]


def test_a_kernel_alone_has_names_that_say_enough():
    assert names_in_words(RBF([1.0, 2.0])) == ["length_scale[0]", "length_scale[1]"]
    assert names_in_words(White(0.1)) == ["noise of White"]
    many = sum([RBF() for _ in range(11)], RBF())
    assert names_in_words(many)[-1] == "length_scale of the 12th RBF"
