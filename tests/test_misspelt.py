"""Names that there are not: keywords, classes, words; each is told what was meant."""

import importlib.util
import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer.misspelt import CLASSES, EXPRESSIONS, OTHERS, name_meant, nearest

CONSTRUCTORS = [
    getattr(mercer, name)
    for name in mercer.__all__
    if isinstance(getattr(mercer, name), type)
    and hasattr(getattr(mercer, name), "get_params")
    and name != "Kernel"  # the base of all
]
X, Y = np.random.default_rng(0).standard_normal((20, 2)), np.arange(20) % 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mercer.SVC(gamma=1), r"RBF\(length_scale=1/sqrt\(2·gamma\)\)"),
        (lambda: mercer.SVC(degree=2), r"Polynomial\(degree\)"),
        (lambda: mercer.SVC(cache_size=500), r"mercer\.config\(memory=\.\.\.\)"),
        (lambda: mercer.KernelPCA(n_jobs=2), r"mercer\.config\(threads=\.\.\.\)"),
        (lambda: mercer.RBF(lengthscale=1), "did you mean 'length_scale'"),
        (lambda: mercer.RBF(gamma=1), r"length_scale=1/sqrt\(2·gamma\)"),
        (lambda: mercer.Laplacian(gamma=1), "length_scale=1/gamma"),
        (lambda: mercer.Polynomial(coef0=1), "it is called offset"),
        (lambda: mercer.KernelRidge(lamda=1), "did you mean 'alpha'"),
        (lambda: mercer.KernelRidge(1.0, Alpha=1), "did you mean 'alpha'"),
        (lambda: mercer.KernelRidge(xyzzy=1), "it has kernel, alpha, "),
        (lambda: mercer.KernelERM(los="hinge"), "did you mean 'loss'"),
        (lambda: mercer.losses.Huber(detla=1), "did you mean 'delta'"),
        (lambda: mercer.TableRegressor(kernl="rbf"), "did you mean 'kernel'"),
        (lambda: mercer.TableClassifier(probabilty=True), "did you mean 'probability'"),
        (lambda: mercer.config(memmory="2GB"), "did you mean 'memory'"),
        (
            lambda: mercer.KernelDensity(metric_params={"p": 3}),
            "called metric, .* metric=3",
        ),
        (lambda: mercer.KernelDensity(algorithm="ball_tree"), "leave it out: the way is chosen"),
        (lambda: mercer.KernelRidge().fit(X, Y, sample_weigth=Y), "fit.*did you mean 'sample_wei"),
        (lambda: mercer.tune(mercer.KernelRidge(), X, Y, max_itr=3), "did you mean 'max_iter'"),
        (lambda: mercer.statistics.mmd_test(X, X, kernal="rbf"), "did you mean 'kernel'"),
    ],
)
def test_a_keyword_that_there_is_not(call, words):
    with pytest.raises(TypeError, match=words) as error:
        call()
    assert "there is no parameter" in str(error.value)


def refusal(cls, **options):
    """Return what a constructor says of its keywords; all together are too many for the net."""
    try:
        cls(**options)
    except TypeError as error:
        return str(error)
    raise AssertionError(f"{cls.__name__} takes {options}")


@pytest.mark.parametrize("cls", CONSTRUCTORS, ids=lambda cls: cls.__name__)
def test_every_constructor_names_the_nearest(cls):
    names = [n for n, p in inspect.signature(cls).parameters.items() if p.kind in (1, 3)]
    start = f"{cls.__name__}: there is no parameter "
    for name in names:
        wrong = name + name[-1]
        if wrong not in names and len(name) > 3:
            text = refusal(cls, **{wrong: 1})
            assert text.startswith(f"{start}{wrong!r} here; did you mean {name!r}?")
    assert refusal(cls, qqq=1).startswith(f"{start}'qqq' here; it has ")


def test_errors_of_the_work_itself_stay_as_they_are():
    class Odd(mercer.KernelRidge):
        def __init__(self, kernel="rbf", width=1.0):
            super().__init__(kernel)
            self.width = width + "1"  # a mistake of its author

    with pytest.raises(TypeError, match="unsupported operand"):
        Odd(width=2.0)
    with pytest.raises(
        TypeError, match=r"^Odd: there is no parameter 'widht' here; did you mean 'w"
    ):
        Odd(widht=2.0)
    with pytest.raises(TypeError, match="positional"):
        mercer.RBF(1.0, 2.0, 3.0, 4.0)
    with pytest.raises(TypeError, match="missing"):
        mercer.FromFunction()


def test_constructors_stay_what_they_were():
    signature = inspect.signature(mercer.SVC)
    assert list(signature.parameters)[:2] == ["kernel", "C"]
    model = clone(mercer.SVC(mercer.RBF(2.0), C=3.0))
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params() | {
        "kernel": mercer.RBF(2.0)
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("KernelRigde", "did you mean 'KernelRidge'"),
        ("Kernelridge", "did you mean 'KernelRidge'"),
        ("rbf", "did you mean 'RBF'"),
        ("LogisticRegression", "is KernelLogisticRegression here"),
        ("GridSearchCV", "is search here"),
        ("Ridge", r"is KernelRidge\('linear'\) here"),
        ("WhiteKernel", "scikit-learn's WhiteKernel is White here"),
        ("DotProduct", r"is Linear\(\) \+ Constant\(sigma_0\*\*2\) here"),
        ("ExpSineSquared", r"is Periodic\("),
        ("ConstantKernel", "is Constant here"),
        ("Exponentiation", r"is kernel \*\* degree here"),
        ("CompoundKernel", r"is one kernel, such as k1 \+ k2"),
        ("Sum", r"is k1 \+ k2 here"),
        ("pairwise_kernels", r"is kernel\(X, Y\) here"),
        ("rbf_kernel", r"is RBF\(length_scale=1/sqrt\(2·gamma\)\)\(X, Y\) here"),
        ("RBFKernel", "did you mean 'RBF'"),
        ("MaternKernel", "did you mean 'Matern'"),
        ("KernelSVM", "did you mean 'SVC'"),
        ("KernelSVR", "did you mean 'SVR'"),
        ("GPR", "did you mean 'GaussianProcessRegressor'"),
        ("GPC", "did you mean 'GaussianProcessClassifier'"),
        ("Rational", "did you mean 'RationalQuadratic'"),
        ("xyzzy", "has no attribute 'xyzzy'$"),
        ("_xyzzy", "has no attribute '_xyzzy'$"),
    ],
)
def test_a_name_that_there_is_not(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(mercer, name)
    assert not hasattr(mercer, name)


def test_expressions_that_are_said_to_be_the_same_are():
    from sklearn.gaussian_process import kernels as theirs
    from sklearn.metrics import pairwise

    gamma, degree, coef0, length_scale, period, sigma_0 = 0.7, 3, 1.5, 0.8, 1.3, 0.6
    expected = {
        "rbf_kernel": pairwise.rbf_kernel(X, X[:7], gamma),
        "laplacian_kernel": pairwise.laplacian_kernel(X, X[:7], gamma),
        "linear_kernel": pairwise.linear_kernel(X, X[:7]),
        "polynomial_kernel": pairwise.polynomial_kernel(X, X[:7], degree, 1.0, coef0),
        "cosine_similarity": pairwise.cosine_similarity(X, X[:7]),
        "DotProduct": theirs.DotProduct(sigma_0)(X, X[:7]),
        "ExpSineSquared": theirs.ExpSineSquared(length_scale, period)(X[:, :1], X[:7, :1]),
    }
    place = {**vars(np), **{name: getattr(mercer, name) for name in mercer.__all__}}
    for name, value in expected.items():
        call = CLASSES[name].replace("·", "*")
        here = dict(place, X=X, Y=X[:7], gamma=gamma, degree=degree, coef0=coef0, sigma_0=sigma_0)
        here.update(length_scale=length_scale, period=period)
        own = eval(call, here)
        if isinstance(own, mercer.Kernel):
            own = own(X[:, :1], X[:7, :1]) if name == "ExpSineSquared" else own(X, X[:7])
        np.testing.assert_allclose(own, value, atol=1e-12)


def test_a_name_that_there_is_not_to_import():
    with pytest.raises(ImportError, match=r"cannot import name.*did you mean 'KernelRidge'"):
        from mercer import KernelRige  # noqa: F401
    with pytest.raises(ImportError, match=r"'WhiteKernel' from 'mercer.kernels'.* is White here"):
        from mercer.kernels import WhiteKernel  # noqa: F401
    with pytest.raises(ImportError, match=r"^cannot import name 'xyzzy' from 'mercer' \("):
        from mercer import xyzzy  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'mercer.KernelRige'$"):
        importlib.import_module("mercer.KernelRige")
    assert importlib.util.find_spec("mercer.KernelRige") is None


def test_names_in_folders():
    with pytest.raises(AttributeError, match=r"module 'mercer.kernels'.*did you mean 'Laplacian'"):
        _ = mercer.kernels.Laplacain


def test_what_is_said_to_be_here_is():
    for name, own in CLASSES.items():
        assert name not in mercer.__all__
        assert own.partition("(")[0] in mercer.__all__
        assert own in name_meant(name, mercer.__all__)
    for name in [*EXPRESSIONS, *OTHERS]:
        assert name not in mercer.__all__ and name not in CLASSES
    assert set(OTHERS.values()) <= set(mercer.__all__)
    assert nearest("poly", ["rbf", "polynomial"]) == "polynomial"
    assert nearest("", ["a"]) == nearest("a", []) == ""


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            mercer.SpectralClustering(affinity="nearest_neighbor"),
            "did you mean 'nearest_neighbors'\\? Give",
        ),
        (mercer.SpectralClustering(affinity="rbf"), "a kernel is given as kernel='rbf'"),
        (mercer.SpectralClustering(affinity="nope"), "affinity='nope'; give 'kernel'"),
        (mercer.KernelDensity(metric="manhatan"), "did you mean 'manhattan'\\? Give"),
        (mercer.KernelDensity(metric="minkowski"), "metric='minkowski'; give"),
        (mercer.KernelDensity(metric="nope"), "metric='nope'; give"),
    ],
)
def test_a_word_that_there_is_not(model, words):
    with pytest.raises(mercer.errors.InvalidInput, match=words):
        model.fit(X)
