"""What the page "How to add" adds obeys the laws of mercer's own."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, cauchy
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator

import mercer
from mercer.errors import InvalidInput, NotConverged
from mercer.solvers import Linear
from mercer.testing import (
    check_nonvector_estimator,
    estimator_laws,
    kernel_laws,
    problem_examples,
    solver_laws,
)

CODE = Path(__file__).parents[2] / "docs" / "code"
KERNELS = {
    "cauchy": ("cauchy", lambda m: m.Cauchy()),
    "cauchy-columns": ("cauchy", lambda m: m.Cauchy([0.5, 2.0])),
    "cauchy-median": ("cauchy", lambda m: m.Cauchy("median")),
    "bridge": ("bridge", lambda m: m.BrownianBridge()),
    "harmonics": ("harmonics", lambda m: m.Harmonics()),
    "harmonics-slow": ("harmonics", lambda m: m.Harmonics(2, period=7.0)),
    "overlap": ("intervals", lambda m: m.Overlap()),
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


@pytest.mark.parametrize("path", sorted(CODE.glob("*.py")), ids=lambda p: p.stem)
def test_every_file_is_shown_on_the_page(path):
    page = (CODE.parent / "how-to-add.md").read_text(encoding="utf-8")
    assert f"{{literalinclude}} code/{path.name}" in page
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 90


# ------------------------------------------------------------------------------ the models
MODELS = {
    "nearest_mean": lambda m: m.NearestMean(),
    "expectile": lambda m: m.KernelExpectileRegressor(),
    "expectile-high": lambda m: m.KernelExpectileRegressor(mercer.RBF(1.5), 0.9, 0.1),
}


@pytest.fixture(params=MODELS)
def model(request, code):
    return MODELS[request.param](code(request.param.partition("-")[0]))


@pytest.mark.parametrize("law", [name for name, _ in estimator_laws()])
def test_model_law(law, model):
    dict(estimator_laws())[law](model)


# scikit-learn's own checks cast NaN on purpose, and skip what SciPy is not set up for
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_model_passes_the_checks_of_scikit_learn(model):
    check_estimator(model)


def test_model_on_words(model):
    words = ["banana", "bandana", "ban", "cabana", "ananas", "bank", "canal", "cab"]
    model.set_params(kernel=mercer.Spectrum((1, 2)).normalized())
    check_nonvector_estimator(model, words)


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


def test_an_expectile_of_one_half_is_ridge_to_the_bit(code):
    X, y = mercer.datasets.make_sine(60, noise=0.1, random_state=0)
    w = np.random.default_rng(0).uniform(0.5, 2.0, 60)
    settings = {"kernel": mercer.RBF(0.3), "alpha": 0.1}
    model = code("expectile").KernelExpectileRegressor(**settings).fit(X, y)
    assert (model.dual_coef_ == mercer.KernelRidge(**settings).fit(X, y).dual_coef_).all()
    model.fit(X, y, w)
    ridge = mercer.KernelRidge(**settings).fit(X, y, w)
    assert np.allclose(model.predict(X), ridge.predict(X), rtol=1e-10)


@pytest.mark.parametrize("level", [0.02, 0.3, 0.9])
def test_expectiles_are_where_the_slope_is_zero(level, code):
    X, y = mercer.datasets.make_sine(60, noise=0.3, random_state=0)
    w = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    k = mercer.RBF(0.5)
    model = code("expectile").KernelExpectileRegressor(k, level, 0.1).fit(X, y, w)
    error = y - model.predict(X)
    price = w * 2 * np.where(error > 0, level, 1 - level)
    assert np.allclose(price * error, 0.1 * model.dual_coef_, atol=1e-12)
    assert model.solution_.converged and model.solution_.n_iter > 1


def test_an_expectile_that_is_not_found_says_so(code, monkeypatch):
    module = code("expectile")
    monkeypatch.setattr(module, "MOST", 1)
    X, y = mercer.datasets.make_sine(60, noise=0.3, random_state=0)
    with pytest.warns(NotConverged, match="change their sign"):
        model = module.KernelExpectileRegressor("rbf", 0.9).fit(X, y)
    assert not model.solution_.converged
    with pytest.raises(InvalidInput, match="expectile=2"):
        model.set_params(expectile=2).fit(X, y)
    assert model.predict(X).shape == y.shape  # the fit that was refused left it as it was


# ------------------------------------------------------------------------------ the solver
SOLVERS = {"plain": {}, "tight": {"tol": 1e-10}, "starved": {"max_iter": 1}}


@pytest.mark.parametrize("law", [name for name, _ in solver_laws()])
@pytest.mark.parametrize("settings", SOLVERS)
def test_solver_law(settings, law, code):
    solver = code("conjugate_residuals").ConjugateResiduals(**SOLVERS[settings])
    for _, problem in problem_examples(Linear):
        dict(solver_laws())[law](solver, problem)


def test_residuals_never_grow_and_are_the_least(code):
    X = np.random.default_rng(0).standard_normal((40, 2))
    problem = Linear(mercer.RBF()(X), np.sin(X[:, 0]), 0.01)
    steps = [{"tol": 1e-12, "max_iter": count} for count in range(1, 8)]
    solvers = code("conjugate_residuals").ConjugateResiduals, mercer.solvers.ConjugateGradients
    least, others = ([how(**s).solve(problem).residual for s in steps] for how in solvers)
    assert (np.diff(least) <= 0).all()
    assert all(a <= b * (1 + 1e-9) for a, b in zip(least, others, strict=True))


# ------------------------------------------------------------------------------ the test
def test_level_of_the_test_of_spread(code):
    rng = np.random.default_rng(11)
    test = code("spread").spread_test
    draws = ((rng.normal(size=(12, 2)), rng.normal(size=(8, 2))) for _ in range(400))
    found = np.array([test(X, Y, mercer.RBF(1.0), 99, rng).pvalue for X, Y in draws])
    for level in (0.05, 0.2):
        low, high = binom.interval(0.99, 400, level)
        assert low <= (found <= level + 1e-12).sum() <= high


def test_spread_is_that_of_the_definition_and_found(code):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(50, 2)), 2.0 * rng.normal(size=(40, 2))
    test = code("spread").spread_test
    result = test(X, Y, mercer.Linear(), rng=0)
    spreads = [((Z - Z.mean(0)) ** 2).sum(1).mean() for Z in (X, Y)]
    assert np.allclose(result.extra["spreads"], spreads)
    assert np.isclose(result.statistic, abs(np.log(spreads[0] / spreads[1])))
    assert result.pvalue <= 0.01 and result.sizes == (50, 40)
    assert test(X, X + 5.0, mercer.Linear(), rng=0).pvalue > 0.05  # a shift is no spread
    assert test(["ab", "ba"], ["aa", "bb", "ab"], mercer.Spectrum(1), rng=0).pvalue > 0.05
    assert test([[1.0], [1.0]], [[2.0], [2.0]], rng=0).pvalue == 1.0
    with pytest.raises(InvalidInput, match="two or more"):
        test(X[:1], Y)


# ------------------------------------------------------------------------------ the domain
def test_intervals_in_models(code):
    intervals = code("intervals").Intervals().sample(np.random.default_rng(0), 12)
    check_nonvector_estimator(mercer.KernelRidge(code("intervals").Overlap(), 0.1), intervals)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([(0, 1), (3, 2)], r"\(3, 2\) at row 1; legal are finite ends"),
        ([(0, 1), (0, np.nan)], r"\(0, nan\) at row 1"),
        ([(0, 1), (0, 1, 2)], "no pairs of numbers"),
        (["ab", "cd"], "no pairs of numbers"),
        ([1.0, 2.0], "no pairs of numbers"),
    ],
)
def test_what_is_no_interval_is_refused(given, said, code):
    with pytest.raises(InvalidInput, match=said):
        code("intervals").Overlap()(given)


def test_overlap_is_the_integral_of_the_indicators(code):
    module, t = code("intervals"), np.linspace(0, 10, 100_001)
    X = module.Intervals().sample(np.random.default_rng(1), 6)
    inside = [(t >= a) & (t <= b) for a, b in X]
    integrals = [[(x & y).mean() * 10 for y in inside] for x in inside]
    assert np.allclose(module.Overlap()(X), integrals, atol=1e-3)
    assert (module.Overlap()(X.tolist()) == module.Overlap()(X)).all()
