"""Every public class is on the list by reflection, and each goes through a file and back."""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

import mercer.features
import mercer.kernels
import mercer.models
from mercer.domains import Table
from mercer.errors import InvalidInput, ModelFileError
from mercer.io import load, register, registry, save
from mercer.kernels import (
    RBF,
    Constant,
    Dot,
    FromFeatures,
    FromFunction,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Minimum,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)
from mercer.rkhs import Function
from mercer.solvers.base import Solution

COMPOSITE = [
    RBF(np.array([1.0, 2.5])),
    RBF("median"),
    RBF("scale"),
    RBF(np.float64(2.0)),
    RBF(np.float32(2.0)),
    RBF(3),
    RBF(covariance=np.array([[2.0, 0.5], [0.5, 1.0]])),
    RBF([1.0, 2.0]),
    Linear(covariance=np.eye(2)),
    Matern(1.0, nu=np.inf),
    Matern("median", nu=0.7),
    Constant(0.0),
    RBF() + Linear(),
    2.5 * RBF() + 1,
    RBF() * Laplacian(2.0) * Matern(),
    Polynomial(3, 0.5) ** 2,
    (RBF() + White(0.1)).exp(),
    Linear().series([1, 0.5, 1 / 6]),
    Linear().series(np.array([1.0, 0.5])),
    RBF().on(0) * Linear().on([1, 2]),
    RBF().on(slice(0, 2)) + RBF().on(slice(None, None, 2)),
    RBF().on("age") * Matern().on(["site", "λ"]),
    RBF().on(np.int64(1)),
    RBF().on(("a", "b")),
    Polynomial().normalized(),
    (Periodic() * RationalQuadratic(2.0, 0.1)).normalized().exp() + 3.0 * Minimum().on(0),
]


def public(module, base):
    items = (getattr(module, name) for name in module.__all__)
    return [item for item in items if isinstance(item, type) and issubclass(item, base)]


def default(cls):
    """An instance of a public kernel; those made of kernels get one."""
    try:
        return cls()
    except TypeError:
        given = inspect.signature(cls).parameters.values()
        names = [p.name for p in given if p.default is p.empty]
    known = {"kernel": RBF(2.0), "k1": RBF(2.0), "k2": Linear(), "columns": [0, 1]}
    known |= {"matrix": np.array([[1.0, 0.5], [0.0, 2.0]])}
    known |= {"degree": 2, "coefficients": (1.0, 0.5), "function": np.abs}
    known |= {"graph": np.array([[0.0, 1.0], [1.0, 0.0]])}
    return cls(**{name: known[name] for name in names})


AUTHORS = {"Kernel", "Radial", "Dot", "Scalar", "Explicit", "Pairwise", "Counted"}
OF_FUNCTIONS = {"FromFunction", "FromFeatures", "Warped", "ScaledBy"}


@pytest.mark.parametrize("cls", public(mercer.kernels, Kernel), ids=lambda c: c.__name__)
def test_every_public_kernel(again, tmp_path, cls):
    if cls.__name__ in AUTHORS:
        assert cls.__name__ == "Scalar" or f"kernel:{cls.__name__}" not in registry.closed_list()
    elif cls.__name__ in OF_FUNCTIONS:
        with pytest.raises(InvalidInput, match=r"made of a Python function.*register"):
            save(default(cls), tmp_path / "k")
        assert not list(tmp_path.iterdir())
    else:
        kernel = default(cls)
        back = again(kernel)
        assert type(back) is cls and back == kernel and repr(back) == repr(kernel)


@pytest.mark.parametrize("kernel", COMPOSITE, ids=repr)
def test_expressions(again, kernel):
    back = again(kernel)
    assert back == kernel and repr(back) == repr(kernel)
    mine, theirs = kernel.get_params(), back.get_params()
    assert mine.keys() == theirs.keys()
    assert all(type(mine[name]) is type(theirs[name]) for name in mine)


def test_kernel_values_are_the_same_bits(again):
    X = np.random.default_rng(0).normal(size=(7, 3))
    table = Table(dict(zip(("age", "site", "λ", "a", "b"), X[:, [0, 1, 2, 0, 1]].T, strict=True)))
    for kernel in COMPOSITE:
        for data in (X, np.abs(X), X[:, :2], table):
            try:
                before = kernel(data)
            except InvalidInput:  # a metric of two columns, numbers ≥ 0, columns by name
                continue
            assert again(kernel)(data).tobytes() == before.tobytes()
            break
        else:
            pytest.fail(f"no data for {kernel!r}")


def test_long_sums(again):
    kernel = RBF()
    for column in range(60):
        kernel = kernel + RBF().on(column)
    assert again(kernel) == kernel


def test_every_public_estimator_is_listed():
    found = public(mercer.models, BaseEstimator) + public(mercer.features, BaseEstimator)
    listed = {form.cls for form in registry.closed_list().values()}
    missing = {cls for cls in found if hasattr(cls, "fit")} - listed
    assert not missing, "an estimator without _learned cannot be saved"
    assert len(listed) == len(registry.closed_list())


def test_functions_tables_and_solutions(again):
    f = Function(RBF(2.0), np.eye(3), np.array([1.0, -2.0, 0.5]), 0.25)
    g = again(f)
    X = np.random.default_rng(0).normal(size=(5, 3))
    assert g(X).tobytes() == f(X).tobytes()
    assert again(Function(RBF(), np.eye(3), np.ones((3, 2))))(X).shape == (5, 2)
    table = Table({"a": [1, 2], "λ": ["x", "y"], "c": np.array(["u", None], dtype=object)})
    assert again(table) == table and again(table).names == table.names
    levels = pytest.importorskip("pandas").Categorical(["lo", None], ["lo", "hi"], ordered=True)
    table = Table({"o": levels, "a": [1.0, 2.0]})
    assert again(table) == table and again(table).orders == {"o": ("lo", "hi")}
    assert len(again(Table({}))) == 0
    solution = Solution(np.ones(3), False, 7, np.float64(0.1), message="m", extra={"jitter": 0.0})
    back = again(solution)
    assert back.value is None and back.summary() == solution.summary()


@pytest.fixture
def own(monkeypatch):
    """Registrations of a test end with it."""
    monkeypatch.setattr(registry, "_own", {})


class Narrow(RBF):
    def __init__(self, length_scale=0.1):
        super().__init__(length_scale=length_scale)


class Shift(TransformerMixin, BaseEstimator):
    _learned = ("shift_",)

    def __init__(self, by="mean"):
        self.by = by

    def fit(self, X, y=None):
        self.shift_ = np.mean(X, axis=0)
        self._cache = object()
        return self

    def transform(self, X):
        return X - self.shift_

    def _check_state(self):
        if not np.isfinite(self.shift_).all():
            raise ValueError("not finite")


class Scale(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.scale_ = np.std(X, axis=0)
        return self

    def transform(self, X):
        return X / self.scale_


def test_classes_of_ones_own(own, again, tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    for model in (Narrow(), Shift().fit(X), Scale().fit(X)):
        with pytest.raises(InvalidInput, match=rf"register\({type(model).__name__}\)"):
            save(model, tmp_path / "m")
        assert register(type(model)) is type(model)
        back = again(model)
        assert type(back) is type(model)
        if isinstance(model, Kernel):
            assert back == model
        else:
            assert back.transform(X).tobytes() == model.transform(X).tobytes()
            assert not hasattr(back, "_cache")
    save(2.0 * Narrow(), tmp_path / "m")
    registry._own.clear()
    with pytest.raises(ModelFileError, match=r"own:Narrow.*register"):
        load(tmp_path / "m")


def test_a_kernel_without_a_constructor_of_its_own(own, again, forge):
    @register
    class Square(Dot):
        def _profile(self, s, xp):
            return s * s

    assert again(2.0 * Square()) == 2.0 * Square()
    with pytest.raises(ModelFileError, match="no parameter '_bind'"):
        load(forge.model([{"class": "own:Square", "params": {"_bind": 1}}]))


def test_the_hook_of_a_class_is_called(own, tmp_path):
    register(Shift)
    model = Shift().fit(np.zeros((2, 2)))
    model.shift_ = np.array([np.nan, 0.0])
    save(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="not finite") as caught:
        load(tmp_path / "m")
    assert isinstance(caught.value.__cause__, ValueError)


def test_registering_again(own):
    def define():
        class Mine(RBF):
            pass

        return Mine

    first, second = define(), define()
    register(first)
    register(first)
    register(second)  # as a notebook does
    assert registry.form_named("own:Mine").cls is second
    other = type("Mine", (RBF,), {"__module__": "elsewhere"})
    with pytest.raises(InvalidInput, match="'Mine' is taken"):
        register(other)


def test_mercers_own_names_cannot_be_taken(own):
    assert register(RBF) is RBF and not registry._own

    class Matern(RBF):
        pass

    register(Matern)
    assert registry.form_named("kernel:Matern").cls is not Matern
    assert registry.form_named("own:Matern").cls is Matern


@pytest.mark.parametrize("item", [RBF(), int, "RBF", None, Table, lambda: 0])
def test_what_cannot_be_registered(own, item):
    with pytest.raises(InvalidInput, match="register"):
        register(item)


def test_refusals_say_where(tmp_path):
    deep = RBF() + (Linear() * FromFunction(lambda a, b: 1.0)).normalized()
    with pytest.raises(InvalidInput, match=r"Sum\.k2\.kernel\.k2 .*FromFunction"):
        save(deep, tmp_path / "k")
    with pytest.raises(InvalidInput, match=r"FromFeatures"):
        save(FromFeatures(np.abs), tmp_path / "k")

    class Mine(Dot):
        def __init__(self):
            super().__init__()

    with pytest.raises(InvalidInput, match=r"register\(Mine\)"):
        save(Mine(), tmp_path / "k")
    assert not list(tmp_path.iterdir())


def test_a_function_that_is_no_kernel_gets_no_advice_about_kernels(tmp_path):
    model = mercer.KernelNeighborsRegressor("linear", 1, weights=lambda d: 1 / (1 + d))
    model.fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(InvalidInput, match=r"weights cannot be kept.*Python function") as error:
        mercer.save(model, tmp_path / "m")
    assert "named kernel" not in str(error.value)
    with pytest.raises(InvalidInput, match="named kernel"):
        mercer.save(model.set_params(kernel=lambda a, b: 1.0, weights="uniform"), tmp_path / "m")
