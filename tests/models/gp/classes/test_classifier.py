"""Gaussian process classification: scikit-learn's numbers, all combinations, files, odd data."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.stats as st
from scipy.special import erf, expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier as Peer
from sklearn.gaussian_process._gpc import COEFS, LAMBDAS
from sklearn.gaussian_process.kernels import RBF as PeerRBF, ConstantKernel

import mercer
import mercer.models.gp.classes.laplace as laplace_file
import mercer.models.gp.regression.evidence as evidence_file
from mercer import RBF, FromFunction, GaussianProcessClassifier, Linear, Matern, White, threads
from mercer.errors import InvalidInput, NotConverged
from mercer.models.gp.classes import sites
from mercer.models.gp.classes.expectations import binary_probability, softmax_probability
from mercer.threads import single_threaded_blas

METHODS = ["laplace", "ep", "vi"]


def data(n=60, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    f = X[:, 0] + 0.4 * rng.standard_normal(n)
    codes = np.digitize(f, np.linspace(-0.8, 0.8, classes + 1)[1:-1]) if classes > 2 else f > 0
    return X, np.array(["ape", "bee", "cat", "dog"])[codes.astype(int)]


def new_points(m=9, seed=7):
    return 1.5 * np.random.default_rng(seed).standard_normal((m, 3))


def their_integral(mean, var):
    """Return scikit-learn's five error functions in place of the logistic one."""
    alpha = 1 / (2 * var)
    gamma = LAMBDAS * mean
    spread = np.sqrt(np.pi / alpha) * erf(gamma * np.sqrt(alpha / (alpha + LAMBDAS**2)))
    integrals = spread / (2 * np.sqrt(var * 2 * np.pi))
    return (COEFS * integrals).sum(axis=0) + 0.5 * COEFS.sum()


# -- against scikit-learn ------------------------------------------------------------------------
def test_scikit_learn_says_the_same():
    X, y = data(80)
    kernel = 2.5 * RBF([1.0, 2.0, 0.7])
    peer = Peer(ConstantKernel(2.5) * PeerRBF([1.0, 2.0, 0.7]), optimizer=None).fit(X, y)
    model = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    theta = kernel.theta + 0.1
    for at in (None, theta):
        theirs = peer.log_marginal_likelihood(peer.kernel_.theta if at is None else at, True)
        ours = model.log_marginal_likelihood(at, eval_gradient=True)
        assert ours[0] == pytest.approx(theirs[0], abs=1e-6)
        np.testing.assert_allclose(ours[1], theirs[1], atol=1e-6)
    assert model.log_marginal_likelihood() == pytest.approx(peer.log_marginal_likelihood_value_)
    new = new_points()
    mean, var = model.latent_mean_and_variance(new)
    theirs = peer.predict_proba(new)
    np.testing.assert_allclose(their_integral(mean, var), theirs[:, 1], atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(new), theirs, atol=5e-4)
    np.testing.assert_array_equal(model.predict(new), peer.predict(new))
    np.testing.assert_array_equal(model.classes_, peer.classes_)


def test_the_search_ends_where_scikit_learn_does():
    X, y = data(80)
    peer = Peer(1.0 * PeerRBF(1.0)).fit(X, y)
    model = GaussianProcessClassifier(1.0 * RBF(1.0)).fit(X, y)
    assert model.log_marginal_likelihood_value_ >= peer.log_marginal_likelihood_value_ - 2e-3
    assert model.search_.converged and model.theta_names_ == ["k1__value", "k2__length_scale"]
    np.testing.assert_allclose(np.exp(model.theta_), [model.kernel_.k1.value, *_scales(model)])


def _scales(model):
    return np.atleast_1d(model.kernel_.k2.length_scale)


def test_a_search_over_parts_of_many_rows():
    X, y = data(700, seed=3)
    model = GaussianProcessClassifier(1.0 * RBF(1.0)).fit(X, y)
    value, gradient = model.log_marginal_likelihood(model.theta_, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-8)
    assert np.abs(gradient).max() < 0.5 and model.search_.n_coarse > 0
    assert model.n_iter_ == model.search_.n_evaluations < 15


# -- methods, links, classes ---------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_combination(method, link, classes):
    X, y = data(45, classes)
    model = GaussianProcessClassifier(4.0 * RBF(1.5), method, link, optimizer=None).fit(X, y)
    kind = "binary" if classes == 2 else "softmax"
    if classes > 2 and (method == "ep" or link == "probit"):
        kind = "one_vs_rest"
    assert model.multi_class_ == kind
    new = new_points()
    mean, cov = model.latent_mean_and_covariance(new)
    shares = model.predict_proba(new)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.log(shares), model.predict_log_proba(new))
    if kind == "binary":
        np.testing.assert_allclose(shares[:, 1], binary_probability(mean, cov, link), atol=1e-12)
    elif kind == "softmax":
        np.testing.assert_allclose(shares, softmax_probability(mean, cov), atol=1e-12)
    else:
        each = binary_probability(mean, np.einsum("icc->ic", cov), link)
        np.testing.assert_allclose(shares, each / each.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(model.predict(new), model.classes_[shares.argmax(axis=1)])
    np.testing.assert_array_equal(model.decision_function(new), mean)
    np.testing.assert_allclose(np.squeeze(model.function_(new)), mean, atol=1e-10)
    assert model.score(X, y) > 0.75
    assert (np.diagonal(cov, axis1=-2, axis2=-1) if classes > 2 else cov).min() > 0
    far = model.predict_proba(np.full((1, 3), 1e3))
    np.testing.assert_allclose(far, 1 / classes, atol=0.1 if kind == "one_vs_rest" else 1e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [2, 3])
def test_gradient_of_the_evidence_by_differences(method, classes):
    X, y = data(25, classes)
    w = np.random.default_rng(0).uniform(0.5, 2, 25)
    model = GaussianProcessClassifier(2.0 * Matern([1.0, 2.0, 3.0]), method, optimizer=None)
    model.fit(X, y, sample_weight=w)
    value, got = model.log_marginal_likelihood(model.theta_, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-7)
    for i, e in enumerate(1e-3 * np.eye(4)):
        up, down = (model.log_marginal_likelihood(model.theta_ + s * e) for s in (1, -1))
        assert got[i] == pytest.approx((up - down) / 2e-3, abs=2e-5)


def test_one_vs_rest_adds_the_evidence_of_its_problems():
    X, y = data(50, 3)
    kernel = 3.0 * RBF(1.2)
    model = GaussianProcessClassifier(kernel, optimizer=None, multi_class="one_vs_rest").fit(X, y)
    total = 0.0
    for c, label in enumerate(model.classes_):
        one = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y == label)
        total += one.log_marginal_likelihood_value_
        peer = Peer(ConstantKernel(3.0) * PeerRBF(1.2), optimizer=None).fit(X, y == label)
        assert one.log_marginal_likelihood_value_ == pytest.approx(
            peer.log_marginal_likelihood_value_, abs=1e-6
        )
        mean, var = one.latent_mean_and_variance(X)
        np.testing.assert_allclose(model.decision_function(X)[:, c], mean, atol=1e-9)
        np.testing.assert_allclose(model.latent_mean_and_variance(X)[1][:, c], var, atol=1e-9)
    assert model.log_marginal_likelihood_value_ == pytest.approx(total, abs=1e-8)


def test_softmax_of_classes_in_another_order():
    X, y = data(40, 3)
    names = {"ape": "z", "bee": "y", "cat": "x"}
    model = GaussianProcessClassifier(2.0 * RBF(), optimizer=None)
    one = clone(model).fit(X, y).predict_proba(new_points())
    other = clone(model).fit(X, [names[label] for label in y]).predict_proba(new_points())
    np.testing.assert_allclose(other[:, ::-1], one, atol=1e-9)


def test_illegal_combinations_name_a_legal_one():
    X, y = data(30, 3)
    for options, text in [
        ({"method": "ep", "multi_class": "softmax"}, "one_vs_rest"),
        ({"link": "probit", "multi_class": "softmax"}, "link='logit'"),
        ({"method": "mcmc"}, "'laplace', 'ep' or 'vi'"),
        ({"method": None}, "'laplace'"),
        ({"link": "cauchit"}, "'logit' or 'probit'"),
        ({"multi_class": "ovo"}, "'softmax' or 'one_vs_rest'"),
        ({"optimizer": "adam"}, "'lbfgs', None, or a function"),
        ({"optimizer": lambda f, theta, bounds: theta}, "optimizer returned"),
        ({"n_restarts": -1}, "n_restarts"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": "small"}, "tol"),
        ({"fixed": ("length",)}, "no parameter to tune"),
        ({"bounds": {"k2__length_scale": (3, 1)}}, "low"),
    ]:
        with pytest.raises(InvalidInput, match=text) as error:
            GaussianProcessClassifier(**options).fit(X, y)
        assert str(error.value).startswith("GaussianProcessClassifier")
    two = GaussianProcessClassifier(method="ep", multi_class="softmax", optimizer=None)
    assert two.fit(X, y == "ape").multi_class_ == "binary"  # nothing to join


# -- parameters ----------------------------------------------------------------------------------
def test_fixed_bounds_and_priors():
    X, y = data(50)
    kernel = 1.0 * RBF(1.0)
    held = GaussianProcessClassifier(kernel, fixed=("length_scale",)).fit(X, y)
    assert _scales(held)[0] == 1.0 and held.theta_names_ == ["k1__value"]
    inside = GaussianProcessClassifier(kernel, bounds={"length_scale": (0.1, 0.5)}).fit(X, y)
    assert _scales(inside)[0] == pytest.approx(0.5)
    assert "upper bound: length_scale of RBF" in inside.search_.message
    narrow = GaussianProcessClassifier(kernel, priors={"length_scale": st.lognorm(0.01)}).fit(X, y)
    assert _scales(narrow)[0] == pytest.approx(1.0, abs=0.05)
    free = GaussianProcessClassifier(kernel).fit(X, y)
    assert narrow.log_marginal_likelihood_value_ < free.log_marginal_likelihood_value_
    nothing = GaussianProcessClassifier(kernel, fixed="kernel").fit(X, y)
    assert nothing.search_ is None and nothing.theta_.shape == (0,)
    value, gradient = nothing.log_marginal_likelihood(eval_gradient=True)
    assert gradient.shape == (0,) and value == nothing.log_marginal_likelihood_value_


def test_the_default_kernel_and_its_parameters():
    X, y = data(40)
    model = GaussianProcessClassifier().fit(X, y)
    assert isinstance(model.kernel_.k2, RBF)
    model = GaussianProcessClassifier(optimizer=None).set_params(kernel__k2__length_scale=0.3)
    assert _scales(model.fit(X, y))[0] == 0.3
    assert "kernel" in repr(GaussianProcessClassifier(RBF(2.0)))


# -- weights and labels --------------------------------------------------------------------------
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_repeat_and_leave_out(classes):
    X, y = data(30, classes)
    w = np.random.default_rng(1).integers(0, 3, 30)
    again = np.repeat(np.arange(30), w)
    model = GaussianProcessClassifier(2.0 * RBF(1.2), optimizer=None)
    one, many = clone(model).fit(X, y, sample_weight=w), clone(model).fit(X[again], y[again])
    new = new_points()
    np.testing.assert_allclose(one.predict_proba(new), many.predict_proba(new), atol=1e-9)
    assert one.log_marginal_likelihood_value_ == pytest.approx(
        many.log_marginal_likelihood_value_, abs=1e-9
    )
    assert len(one.y_fit_) == (w > 0).sum() == len(one.X_fit_)


def test_a_class_of_weight_zero_is_none():
    X, y = data(30, 3)
    model = GaussianProcessClassifier(RBF(), optimizer=None)
    model.fit(X, y, sample_weight=(y != "bee").astype(float))
    assert model.classes_.tolist() == ["ape", "cat"] and model.predict_proba(X).shape == (30, 2)
    with pytest.raises(InvalidInput, match="at least 2 classes"):
        model.fit(X, y, sample_weight=(y == "bee").astype(float))
    assert model.classes_.tolist() == ["ape", "cat"]  # the earlier fit is back


@pytest.mark.parametrize(
    "labels", [[True, False], [-1, 1], [3.0, 7.0], ["no", "yes"], [np.int8(4), np.int8(9)]]
)
def test_labels_of_any_kind(labels):
    X, y = data(20)
    y = np.array(labels)[(y == "bee").astype(int)]
    model = GaussianProcessClassifier(RBF(), optimizer=None).fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.predict(X).dtype == y.dtype and model.score(X, y) > 0.8


def test_data_that_cannot_be_fitted():
    X, y = data(20)
    model = GaussianProcessClassifier()
    with pytest.raises(InvalidInput, match="one class"):
        model.fit(X, np.ones(20))
    with pytest.raises(InvalidInput, match="inconsistent"):
        model.fit(X, y[:5])
    with pytest.raises(InvalidInput, match="NaN"):
        model.fit(np.where(X > 2, np.nan, np.nan), y)
    with pytest.raises(InvalidInput, match="negative"):
        model.fit(X, y, sample_weight=-np.ones(20))
    with pytest.raises((InvalidInput, ValueError), match=r"0 sample|at least"):
        model.fit(X[:0], y[:0])
    for verb in ("predict", "predict_proba", "decision_function", "latent_mean_and_variance"):
        with pytest.raises(NotFittedError):
            getattr(model, verb)(X)
    with pytest.raises(NotFittedError):
        model.log_marginal_likelihood()


# -- odd data ------------------------------------------------------------------------------------
@pytest.mark.parametrize("method", METHODS)
def test_two_rows_duplicates_and_constants(method):
    model = GaussianProcessClassifier(method=method)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConverged)
        model.fit([[0.0], [1.0]], [0, 1])
        assert model.predict([[0.0], [1.0]]).tolist() == [0, 1]
        model.fit(np.zeros((6, 2)), [0, 1, 0, 1, 0, 1])  # the same point with both labels
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 2))), 0.5, atol=1e-6)
    X, y = data(20)
    twice = GaussianProcessClassifier(RBF(), method, optimizer=None)
    twice.fit(np.vstack([X, X]), np.concatenate([y, y]))
    assert twice.solution_.converged and twice.solution_.residual < 1e-6


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_of_the_points_do_not_matter(scale):
    X, y = data(40)
    one = GaussianProcessClassifier().fit(X, y)
    other = GaussianProcessClassifier().fit(scale * X, y)
    new = new_points()
    np.testing.assert_allclose(one.predict_proba(new), other.predict_proba(scale * new), atol=2e-3)


def test_single_precision_and_sparse_points():
    import scipy.sparse as sp

    X, y = data(40)
    model = GaussianProcessClassifier(2.0 * RBF(), optimizer=None)
    want = clone(model).fit(X, y).predict_proba(X)
    got = clone(model).fit(X.astype(np.float32), y).predict_proba(X.astype(np.float32))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, atol=1e-5)
    rows = sp.csr_array(X)
    np.testing.assert_allclose(clone(model).fit(rows, y).predict_proba(rows), want, atol=1e-9)


def test_separated_classes_do_not_frighten_the_search():
    X = np.linspace(-1, 1, 40)[:, None]
    y = X[:, 0] > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GaussianProcessClassifier().fit(X, y)
    assert model.score(X, y) == 1.0 and np.isfinite(model.predict_log_proba(X)).all()


def test_points_that_are_not_vectors():
    words = ["aab", "aba", "baa", "aaab", "bbc", "bcb", "cbb", "bbbc"]
    y = [0, 0, 0, 0, 1, 1, 1, 1]

    def shared(a, b):
        return float(sum(a.count(letter) * b.count(letter) for letter in "abc"))

    model = GaussianProcessClassifier(FromFunction(shared)).fit(words, y)
    assert model.predict(["aa", "bbcc"]).tolist() == [0, 1]
    assert model.predict_proba(["aa"]).shape == (1, 2)


def test_sums_of_kernels_with_noise():
    X, y = data(40)
    model = GaussianProcessClassifier(1.0 * RBF() + Linear() + White(0.1)).fit(X, y)
    mean, var = model.latent_mean_and_variance(X)
    assert (var > 0).all() and len(mean) == 40


# -- precomputed ---------------------------------------------------------------------------------
@pytest.mark.parametrize("classes", [2, 3])
def test_a_precomputed_kernel(classes):
    X, y = data(30, classes)
    new, kernel = new_points(), 2.0 * RBF(1.3)
    want = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    model = GaussianProcessClassifier("precomputed").fit(kernel(X), y)
    cross = kernel(new, X)
    np.testing.assert_allclose(model.predict_proba(cross), want.predict_proba(new), atol=1e-9)
    np.testing.assert_array_equal(model.predict(cross), want.predict(new))
    assert model.theta_.shape == (0,) and model.search_ is None
    w = np.random.default_rng(0).integers(0, 2, 30)
    w[:4] = 1
    some = GaussianProcessClassifier("precomputed").fit(kernel(X), y, sample_weight=w)
    kept = GaussianProcessClassifier(kernel, optimizer=None).fit(X[w > 0], y[w > 0])
    np.testing.assert_allclose(some.predict_proba(cross), kept.predict_proba(new), atol=1e-9)


def test_a_precomputed_kernel_of_any_diagonal():
    X, y = data(30)
    new, kernel = new_points(), 1.0 * Linear() + 0.5
    want = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    model = GaussianProcessClassifier("precomputed").fit(kernel(X), y)
    cross = kernel(new, X)
    given = model.predict_proba(cross, diag=kernel.diag(new))
    np.testing.assert_allclose(given, want.predict_proba(new), atol=1e-9)
    guessed = model.predict_proba(cross)
    np.testing.assert_array_equal(guessed.argmax(axis=1), given.argmax(axis=1))
    for wrong in (np.ones(3), -np.ones(9), np.full(9, np.nan), "no", ["a"] * 9):
        with pytest.raises(InvalidInput, match=r"k\(x, x\)"):
            model.predict_proba(cross, diag=wrong)
    with pytest.raises(InvalidInput, match="precomputed kernel only"):
        want.predict_proba(new, diag=np.ones(9))


# -- copies and files ----------------------------------------------------------------------------
@pytest.mark.parametrize("kernel", [1.0 * RBF(), "precomputed"])
@pytest.mark.parametrize("options", [{}, {"method": "ep"}, {"method": "vi"}])
@pytest.mark.parametrize("classes", [2, 3])
def test_copies_and_files_say_the_same(tmp_path, kernel, options, classes):
    X, y = data(25, classes)
    rows = X if kernel != "precomputed" else RBF()(X)
    model = GaussianProcessClassifier(kernel, max_iter=20, **options)
    model.fit(rows, y, sample_weight=np.linspace(0, 2, 25))
    want = model.predict_proba(rows)
    mercer.save(model, tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), mercer.load(tmp_path / "model")):
        np.testing.assert_array_equal(again.predict_proba(rows), want)
        assert again.log_marginal_likelihood() == model.log_marginal_likelihood()
        np.testing.assert_allclose(
            again.log_marginal_likelihood(again.theta_), model.log_marginal_likelihood(), atol=1e-7
        )
    assert "_covariance_cache" not in model.__getstate__()


def test_a_state_that_does_not_fit_is_refused():
    X, y = data(25)
    model = GaussianProcessClassifier(RBF(), optimizer=None).fit(X, y)
    for name, value in [
        ("sites_", model.sites_[:-1]),
        ("sites_", -model.sites_ - 1),
        ("dual_coef_", np.full(25, np.nan)),
        ("y_fit_", model.y_fit_ + 5),
        ("multi_class_", "softmax"),
        ("gram_fit_", np.eye(25)),
        ("sample_weight_", np.zeros(25)),
    ]:
        other = pickle.loads(pickle.dumps(model))
        setattr(other, name, value)
        with pytest.raises(mercer.errors.ModelFileError):
            other._check_state()


# -- what probabilities are for ------------------------------------------------------------------
def test_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 1))
    chance = expit(3 * np.sin(X[:, 0]))
    y = rng.uniform(size=300) < chance
    model = GaussianProcessClassifier().fit(X, y)
    new = np.linspace(-2.8, 2.8, 50)[:, None]
    truth = expit(3 * np.sin(new[:, 0]))
    assert np.abs(model.predict_proba(new)[:, 1] - truth).mean() < 0.06


def test_a_matrix_that_no_kernel_has_is_refused():
    X, y = data(20)
    K = RBF()(X)
    K[0, 1] = K[1, 0] = 3.0
    with pytest.raises(mercer.errors.NotPositiveDefinite, match="smallest eigenvalue"):
        GaussianProcessClassifier("precomputed").fit(K, y)


@pytest.fixture
def factored(monkeypatch):
    """Every factorisation: the size of its matrix, how many there are, and if BLAS is held."""
    calls = []

    def spy(module, name):
        whole = getattr(module, name)

        def counted(A, *args, **options):
            held = single_threaded_blas.limit == 1
            calls.append((name, A.shape[-1], A.size // max(1, A.shape[-1]) ** 2, held))
            return whole(A, *args, **options)

        monkeypatch.setattr(module, name, counted)

    for module in (sites, laplace_file):
        spy(module, "potrf")
    spy(evidence_file, "factor")
    spy(np.linalg, "eigh")
    return calls


def test_the_work_is_linear_in_classes_and_in_rows(factored):
    """C + 1 factors of n × n for a step of Newton's; a spectrum for a class and a new row."""
    rng = np.random.default_rng(0)
    spent = {}
    for C in (6, 24):
        X, y = rng.standard_normal((48, 2)), np.arange(48) % C
        factored.clear()
        model = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, y)
        large = [call for call in factored if call[1] == 48]
        spent[C] = len(large) / (C + 1)
        factored.clear()
        model.predict_proba(X[:5])
        spectra = sum(count for name, _, count, _ in factored if name == "eigh")
        assert 0 < spectra <= 5 * C * (2 if C <= 10 else 1)
        assert not any(name == "potrf" for name, *_ in factored)
        assert all(held for *_, held in [*large, *factored])
    assert spent[24] <= 1.5 * spent[6] < 60


def test_large_matrices_leave_blas_its_threads(factored, monkeypatch):
    X = np.random.default_rng(0).standard_normal((30, 2))
    monkeypatch.setattr(threads, "is_crowded", lambda: False)
    for few in (20, 30):
        monkeypatch.setattr(threads, "ALONE", few)
        plain = {"kernel": RBF(1.0), "optimizer": None}
        regressor = mercer.GaussianProcessRegressor(noise=0.1, **plain)
        for model in (GaussianProcessClassifier(**plain), regressor):
            factored.clear()
            with mercer.config(threads=2):
                model.fit(X, np.arange(30) % 2)
            held = {inside for _, size, _, inside in factored if size == 30}
            assert held == {few == 30}
