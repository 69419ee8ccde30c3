"""The kernels and the model of the page "How to add" obey the laws of mercer's own."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import cauchy
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator

import mercer
from mercer.errors import InvalidInput
from mercer.testing import estimator_laws, kernel_laws

CODE = Path(__file__).parents[2] / "docs" / "code"
KERNELS = {
    "cauchy": ("cauchy", lambda m: m.Cauchy()),
    "cauchy-columns": ("cauchy", lambda m: m.Cauchy([0.5, 2.0])),
    "cauchy-median": ("cauchy", lambda m: m.Cauchy("median")),
    "bridge": ("bridge", lambda m: m.BrownianBridge()),
    "harmonics": ("harmonics", lambda m: m.Harmonics()),
    "harmonics-slow": ("harmonics", lambda m: m.Harmonics(2, period=7.0)),
}


@pytest.mark.parametrize("law", [name for name, _ in kernel_laws()])
@pytest.mark.parametrize("case", KERNELS)
def test_law(case, law, code):
    name, make = KERNELS[case]
    dict(kernel_laws())[law](make(code(name)))


@pytest.mark.parametrize("law", [name for name, _ in kernel_laws()])
def test_law_of_objects(law, code):
    recipes = [
        {"flour": 500, "water": 350, "salt": 10},
        {"flour": 400, "egg": 4, "salt": 5},
        {},
        {"water": 250, "tea": 2},
        {"tea": 1},
    ]
    dict(kernel_laws())[law](code("recipes").Ingredients(0.5), recipes)


@pytest.mark.parametrize("name", ["cauchy", "recipes"])
def test_the_kernels_of_the_page_are_short(name):
    lines = (CODE / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 30


def test_cauchy_is_the_density_of_that_name(code):
    x = np.linspace(-5, 5, 11)
    k = code("cauchy").Cauchy(2.0)(x[:, None], [[0.0]])[:, 0]
    assert np.allclose(k, cauchy(scale=2.0).pdf(x) * np.pi * 2.0, rtol=1e-14)


def test_a_new_kernel_is_tuned_saved_and_combined(code, tmp_path):
    Cauchy = code("cauchy").Cauchy
    mercer.io.register(Cauchy)
    X, y = mercer.datasets.make_sine(60, noise=0.1, random_state=0)
    result = mercer.tune(mercer.KernelRidge(Cauchy("median") + mercer.Linear()), X, y)
    assert result.score < 0.02
    mercer.save(result.model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert (again.predict(X) == result.model.predict(X)).all()


def test_bridge_is_the_textbook_formula_and_knows_its_interval(code):
    x = np.array([0.0, 0.2, 0.7, 1.0])
    k = code("bridge").BrownianBridge()
    assert np.allclose(k(x), np.minimum.outer(x, x) - np.outer(x, x), atol=1e-15)
    with pytest.raises(InvalidInput, match=r"1\.5"):
        k([0.5, 1.5])


def test_harmonics_are_a_sum_of_cosines_over_columns(code):
    X = np.random.default_rng(0).uniform(0, 3, (7, 2))
    gap = X[:, None, :] - X[None, :, :]
    expected = sum(np.cos(2 * np.pi * j * gap / 1.5) for j in range(5)).sum(-1)
    assert np.allclose(code("harmonics").Harmonics(4, 1.5)(X), expected, atol=1e-12)


# ------------------------------------------------------------------------------ the model
@pytest.mark.parametrize("law", [name for name, _ in estimator_laws()])
def test_model_law(law, code):
    dict(estimator_laws())[law](code("nearest_mean").NearestMean())


# scikit-learn's own checks cast NaN on purpose, and skip what SciPy is not set up for
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_model_passes_the_checks_of_scikit_learn(code):
    check_estimator(code("nearest_mean").NearestMean())


@pytest.mark.parametrize("kernel", ["rbf", "linear", mercer.Polynomial(3), "precomputed"])
def test_nearest_mean_is_nearest_by_distance(kernel, code):
    X, y = load_iris(return_X_y=True)
    new, given = X[::3] + 0.05, X
    k = mercer.RBF("scale").fit_params(X) if kernel in ("rbf", "precomputed") else kernel
    model = code("nearest_mean").NearestMean(kernel)
    if kernel == "precomputed":
        given, asked = k(X), k(new, X)
    else:
        asked = new
    predicted = model.fit(given, y).predict(asked)
    to = [mercer.distance_to_set(k, new, X[y == c]) for c in range(3)]
    assert (predicted == np.argmin(to, axis=0)).all()
    assert model.score(asked, y[::3]) > 0.8


def test_nearest_mean_is_cloned_and_saved(code, tmp_path):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = code("nearest_mean").NearestMean(mercer.RBF("median") + 1.0).fit(X, names)
    mercer.save(model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert (again.predict(X) == model.predict(X)).all()
    assert again.kernel_ == model.kernel_
    assert not hasattr(clone(model), "kernel_")
