"""A Gaussian process regressor in the hands of users: odd arrays, loops, questions before fit."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError

import mercer
from mercer import RBF, GaussianProcessRegressor, KernelRidge, SparseGaussianProcessRegressor
from mercer.errors import InvalidInput, NotConverged
from mercer.selection import active

GP = GaussianProcessRegressor


@pytest.fixture
def data(rng):
    X = rng.standard_normal((20, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(20)


@pytest.fixture
def model(data):
    return GP(1.0 * RBF(), 0.1, optimizer=None).fit(*data)


# ----------------------------------------------------------------------------- arrays that are odd
DAYS = np.arange("2020-01-01", "2020-01-05", dtype="M8[D]")[:, None]


@pytest.mark.parametrize("make", [GP, KernelRidge])
@pytest.mark.parametrize(
    "X", [DAYS, DAYS - DAYS[0], DAYS.tolist(), [[d] for d in DAYS[:, 0]]], ids=str
)
def test_dates_are_not_taken_for_numbers(make, X):
    words = "dates or times; convert them to numbers of a unit|number"
    with pytest.raises((InvalidInput, TypeError), match=words):
        make(kernel=RBF(30.0)).fit(X, [1.0, 2, 3, 4])
    fit = make(kernel=RBF(30.0)).fit(np.arange(4.0)[:, None], [1.0, 2, 3, 4])
    with pytest.raises((InvalidInput, TypeError), match=words):
        fit.predict(X)
    with pytest.raises(InvalidInput, match="y holds dates"):
        make(kernel=RBF(30.0)).fit(np.arange(4.0)[:, None], DAYS[:, 0])


@pytest.mark.parametrize("make", [GP, SparseGaussianProcessRegressor, KernelRidge])
def test_masked_entries_are_refused_and_empty_masks_are_not(data, make):
    X, y = data
    with pytest.raises(InvalidInput, match="y has masked entries"):
        make().fit(X, np.ma.masked_greater(y, 0.2))
    with pytest.raises(InvalidInput, match="X has masked entries"):
        make().fit(np.ma.masked_greater(X, 0.2), y)
    with pytest.raises(InvalidInput, match="sample_weight has masked entries"):
        make().fit(X, y, sample_weight=np.ma.masked_greater(np.abs(y), 0.2))
    make().fit(np.ma.masked_array(X), np.ma.masked_array(y))


def test_masked_noise(data):
    with pytest.raises(InvalidInput, match="noise has masked entries"):
        GP(noise=np.ma.masked_greater(np.linspace(0.1, 1, 20), 0.5)).fit(*data)


# ------------------------------------------------------------------------------------- before fit
@pytest.mark.parametrize(
    ("noise", "words"), [(-1.0, "negative"), (True, "noise=True"), ("x", "noise='x'")]
)
def test_the_noise_of_the_prior_is_checked(noise, words):
    with pytest.raises(InvalidInput, match=words):
        GP(noise=noise).predict([[0.0]], return_std=True)


@pytest.mark.parametrize("noise", [0.5, np.float32(0.5), np.array(0.5)])
def test_every_number_is_a_noise_of_the_prior(noise):
    _, std = GP(RBF(), noise).predict([[0.0]], return_std=True)
    np.testing.assert_allclose(std**2, 1.5)
    _, std = GP(RBF(), np.int64(2)).predict([[0.0]], return_std=True)
    np.testing.assert_allclose(std**2, 3.0)


@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_a_flat_prior_has_no_variance(mean):
    model = GP(mean=mean)
    for ask in (
        lambda: model.predict([[0.0]], return_std=True),
        lambda: model.predict([[0.0]], return_cov=True, with_noise=False),
        lambda: model.sample_y([[0.0]]),
        lambda: model.posterior_variance([[0.0]]),
    ):
        with pytest.raises(InvalidInput, match="flat prior, which has no variance before fit"):
            ask()
    assert model.predict([[0.0]]) == 0.0


@pytest.mark.parametrize("make", [GP, SparseGaussianProcessRegressor])
def test_what_needs_a_fit_says_so(data, make):
    with pytest.raises(NotFittedError):
        make().score(*data)
    for criterion in ("variance", "integrated-variance", "expected-improvement"):
        with pytest.raises(NotFittedError):
            active.next_point(make(), data[0], criterion)


# ------------------------------------------------------------------------------------------- loops
@pytest.mark.parametrize("shape", [(20,), (20, 1)])
def test_what_was_fitted_can_be_fitted_again(data, shape):
    X, y = data
    model = GP(1.0 * RBF(), 0.1, optimizer=None).fit(X, y.reshape(shape))
    assert model.y_fit_.shape == shape
    model.add([[0.0, 0.0]], np.reshape([1.0], (1, *shape[1:])))
    again = GP(1.0 * RBF(), 0.1, optimizer=None).fit(model.X_fit_, model.y_fit_)
    assert again.predict(X).shape == shape
    at = active.next_point(again, X, "expected-improvement")
    flat = GP(1.0 * RBF(), 0.1, optimizer=None).fit(model.X_fit_, model.y_fit_.ravel())
    assert at == active.next_point(flat, X, "expected-improvement")


def test_a_row_of_weight_zero_is_not_added(model, data):
    before = model.predict(data[0])
    for weight in (0, [0.0], np.zeros(1)):
        assert model.add([[1.0, 1.0]], [3.0], sample_weight=weight) is model
    np.testing.assert_array_equal(model.predict(data[0]), before)
    with pytest.raises(InvalidInput, match="y has 2"):
        model.add([[1.0, 1.0]], [3.0, 4.0], sample_weight=0)


def test_one_value_is_no_array(model):
    with pytest.raises(
        InvalidInput, match=r"add: y=1.0 is one value; give one for each row: \[1.0\]"
    ):
        model.add([[1.0, 1.0]], 1.0)
    with pytest.raises(InvalidInput, match=r"y=1\.0 is one value"):
        GP().fit([[1.0, 1.0]], 1.0)


def test_noise_of_added_rows(data):
    model = GP(1.0 * RBF(), np.full(20, 0.1)).fit(*data)
    with pytest.raises(InvalidInput, match=r"give a variance ≥ 0, or 1 of them"):
        model.add([[0.0, 0.0]], [1.0], noise=[1.0, 2.0])
    with pytest.raises(InvalidInput, match=r"noise='fit'; give a variance"):
        model.add([[0.0, 0.0]], [1.0], noise="fit")


def test_rows_of_weight_zero_have_no_group_and_no_place(data):
    X, y = data
    weight = np.r_[0.0, np.ones(19)]
    model = GP(1.0 * RBF(), 0.1, optimizer=None).fit(X, y, sample_weight=weight)
    with pytest.raises(InvalidInput, match=r"20 groups for 19 rows.*those of positive weight"):
        model.loo(groups=np.arange(20) // 2)
    with pytest.raises(InvalidInput, match="20 rows, and the model was fitted to 19 of positive"):
        model.loo(X)
    assert model.loo(X[1:]).shape == (19,)


def test_a_copy_of_a_precomputed_model_asks_for_its_matrix(data, tmp_path):
    X, y = data
    K = np.asarray(RBF()(X))
    model = GP("precomputed", 0.1, optimizer=None).fit(K, y)
    mercer.save(model, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    with pytest.raises(InvalidInput, match=r"loo\(K\)"):
        again.loo()
    np.testing.assert_allclose(again.loo(K), model.loo())


# ---------------------------------------------------------------------------------------- messages
def test_warnings_point_at_the_line_of_the_user(data):
    X, y = data
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GP(1.0 * RBF(), 0.0, optimizer=None).fit(np.vstack([X, X]), np.r_[y, y + 1.0])
    assert caught[0].category is NotConverged and caught[0].filename == __file__


@pytest.mark.parametrize("verb", ["loo", "add", "remove", "mean_gradient"])
def test_wrong_arguments_name_the_class(model, verb):
    with pytest.raises(
        TypeError, match=rf"^GaussianProcessRegressor\.{verb}: there is no parameter"
    ):
        getattr(model, verb)(nonsense=1)


def test_a_linear_mean_of_a_table_says_how(data):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data[0], columns=["a", "b"])
    with pytest.raises(InvalidInput, match=r"choose columns by position: kernel.on\(\[0\]\)"):
        GP(RBF().on("a"), mean="linear").fit(frame, data[1])


def test_a_prior_with_ends_is_a_box():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (40, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        law = {"length_scale": stats.uniform(1.0, 0.5)}
        one = GP(1.0 * RBF(1.2), priors=law).fit(X, y)
        with pytest.warns(UserWarning, match="ended at the upper limit 1.5"):
            box = GP(1.0 * RBF(1.2), bounds={"length_scale": (1.0, 1.5)}).fit(X, y)
    np.testing.assert_allclose(one.kernel_.theta, box.kernel_.theta, atol=1e-3)
    assert "at the upper end of its prior: length_scale of RBF" in one.search_.message


def test_a_law_without_support_is_named_where_it_ends():
    class Law:
        def logpdf(self, x):
            return np.where((np.asarray(x) > 1.0) & (np.asarray(x) < 1.5), 0.0, -np.inf)

    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (40, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GP(1.0 * RBF(1.2), priors={"length_scale": Law()}).fit(X, y)
    for warning in caught:
        assert r"priors['length_scale'] has no density" in str(warning.message)
    assert "positive definite" not in model.search_.message
