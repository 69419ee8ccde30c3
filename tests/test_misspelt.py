"""Names that there are not: keywords, classes, words; each is told what was meant."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer.misspelt import CLASSES, name_meant, nearest

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
        ("xyzzy", "has no attribute 'xyzzy'$"),
        ("_xyzzy", "has no attribute '_xyzzy'$"),
    ],
)
def test_a_name_that_there_is_not(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(mercer, name)
    assert not hasattr(mercer, name)


def test_names_in_folders():
    with pytest.raises(AttributeError, match=r"module 'mercer.kernels'.*did you mean 'Laplacian'"):
        _ = mercer.kernels.Laplacain


def test_what_is_said_to_be_here_is():
    for name, own in CLASSES.items():
        assert name not in mercer.__all__
        assert own.partition("(")[0] in mercer.__all__
        assert own in name_meant(name, mercer.__all__)
    assert nearest("", ["a"]) == nearest("a", []) == ""
