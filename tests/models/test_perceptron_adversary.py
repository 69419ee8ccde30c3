"""KernelPerceptron against an adversary: overlap, odd data, interruption, files, bad input."""

from __future__ import annotations

import _thread
import pickle
import signal
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RBF, Constant, KernelPerceptron, Linear
from mercer.errors import InvalidInput, MemoryBudgetExceeded, ModelFileError, NotConverged
from mercer.models.perceptron.rules import Training

VARIANTS = ("standard", "margin", "variable", "batch")
rng = np.random.default_rng(7)
X = rng.standard_normal((40, 2))
Y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")


def same_model(a, b):
    assert vars(a).keys() == vars(b).keys()
    for name, value in vars(a).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, vars(b)[name])


# ------------------------------------------------------------------------------- no separation
@pytest.mark.parametrize("variant", VARIANTS)
def test_contradictions_are_told_once_with_a_cure(variant):
    data, y = np.repeat(X[:6], 2, axis=0), np.tile([0, 1], 6)
    model = KernelPerceptron(RBF(), variant, max_epochs=30)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(data, y)
    (warning,) = told
    assert warning.category is NotConverged
    text = str(warning.message)
    assert "max_epochs" in text and "SVC" in text and f"{variant!r}" in text
    assert ("power_t" in text) == (variant in ("variable", "batch"))
    assert not model.converged_ and model.n_iter_ == 30 and model.margin_ <= 0
    said = model.solution_
    assert said.message == text and said.extra["mistakes"] == round(said.residual * 12) >= 6
    assert model.predict(data).shape == (12,)


def test_a_margin_too_large_is_named():
    y = (X[:, 0] > 0).astype(int)
    with pytest.warns(NotConverged, match=r"smaller margin than 50"):
        model = KernelPerceptron("linear", "margin", margin=50.0, max_epochs=20).fit(X, y)
    assert not model.converged_ and model.target_margin_ == 50.0


def test_the_certificate_counts_mistakes_not_updates():
    """An epoch may end right although it began wrong: the answer counts, not the path."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelPerceptron("linear", max_epochs=1, shuffle=False, fit_intercept=False)
        model.fit([[1.0], [-1.0]], [1, 0])
    assert model.n_updates_ == 1 and model.n_iter_ == 1 and model.converged_


def test_margin_mistakes_are_counted_in_the_norm_with_the_offset():
    signs = np.where(np.arange(40) < 3, -1, 1)  # far more of one kind: a large offset
    with pytest.warns(NotConverged):
        model = KernelPerceptron(RBF(0.1), "margin", margin=1.9, max_epochs=1).fit(X, signs)
    f, values = model.function_, signs * model.decision_function(X)
    theta = np.sqrt(f.norm() ** 2 + model.intercept_**2)
    wrong, without = (values <= 0.95 * norm for norm in (theta, f.norm()))
    assert wrong.sum() > without.sum()  # so the test can tell
    assert model.solution_.extra["mistakes"] == wrong.sum()
    assert model.margin_ == pytest.approx(values.min() / f.norm())


def test_a_margin_is_halved_only_when_proven_too_large():
    data, y = np.repeat(X[:6], 2, axis=0), np.tile([0, 1], 6)
    model = KernelPerceptron(RBF(), "margin", max_epochs=300, fit_intercept=False)
    with pytest.warns(NotConverged):
        model.fit(data, y)  # γ₀ = R = 1
    halvings = -int(np.log2(model.target_margin_))
    spent = [12 * (4**j - 1) // 3 for j in (halvings, halvings + 1)]  # 12(1 + 4 + … )
    assert halvings >= 3 and spent[0] < model.n_updates_ <= spent[1]


def test_drift_of_the_running_values_is_corrected(monkeypatch):
    """Values that updates have carried along are checked against the coefficients at the end."""
    begin = Training.__init__

    def drifted(self, *args):
        begin(self, *args)
        self.values += 3 * self.signs  # everything looks right

    monkeypatch.setattr(Training, "__init__", drifted)
    model = KernelPerceptron(RBF()).fit(X, Y)
    assert model.converged_ and model.score(X, Y) == 1.0
    assert model.margin_ == pytest.approx(abs(model.decision_function(X)).min() / model.norm_)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kernel", [Constant(1.0), Constant(0.0), Linear()], ids=str)
def test_a_kernel_that_sees_nothing(kernel, variant):
    data = np.zeros((5, 2))
    with pytest.warns(NotConverged):
        model = KernelPerceptron(kernel, variant, max_epochs=10).fit(data, [0, 0, 1, 0, 1])
    assert np.isfinite(model.margin_) and np.isfinite(model.decision_function(data)).all()


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e140])
def test_scales(scale):
    y = (X[:, 0] > 0.3 * X[:, 1]).astype(int)
    model = KernelPerceptron("linear", fit_intercept=False).fit(X, y)
    scaled = KernelPerceptron("linear", fit_intercept=False).fit(scale * X, y)
    assert scaled.converged_
    np.testing.assert_array_equal(scaled.dual_coef_, model.dual_coef_)
    assert scaled.margin_ == pytest.approx(scale * model.margin_)


def test_overflow_is_named():
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(InvalidInput, match="overflow"):
        KernelPerceptron("linear").fit(1e170 * X, y)
    many = np.tile(X, (60, 1))
    with pytest.raises(InvalidInput, match="overflow"):
        KernelPerceptron("linear", "batch").fit(1e153 * many, np.tile(y, 60))
    with pytest.raises(InvalidInput, match="row 1 of X"):
        model = KernelPerceptron("linear").fit(1e100 * X, y)
        model.predict([[1.0, 1.0], [1e250, 1e250]])


def test_two_points_and_duplicates():
    model = KernelPerceptron().fit([[0.0], [1.0]], ["a", "b"])
    assert model.predict([[0.1], [0.9]]).tolist() == ["a", "b"]
    twice = KernelPerceptron(RBF(), shuffle=False).fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2))
    assert twice.converged_


# ------------------------------------------------------------------------------------ order
def test_orders_follow_the_seed():
    fits = {
        seed: KernelPerceptron(RBF(), random_state=seed).fit(X, Y).n_updates_ for seed in range(8)
    }
    assert len(set(fits.values())) > 1
    again = KernelPerceptron(RBF(), random_state=np.random.RandomState(3)).fit(X, Y)
    assert again.n_updates_ == fits[3]
    assert KernelPerceptron(RBF(), random_state=None).fit(X, Y).converged_
    plain = [
        KernelPerceptron(RBF(), shuffle=False, random_state=s).fit(X, Y).dual_coef_ for s in (0, 1)
    ]
    np.testing.assert_array_equal(*plain)


# ---------------------------------------------------------------------------- all or nothing
def test_an_interrupted_fit_leaves_the_model(monkeypatch):
    model = KernelPerceptron(RBF()).fit(X, Y)
    before = pickle.loads(pickle.dumps(model))
    calls = []

    def interrupted(self, order):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(self, order)

    original = Training.epoch
    monkeypatch.setattr(Training, "epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:30], Y[:30] == "same")
    same_model(model, before)
    calls[:] = [1, 1]
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[:5] + 1, Y[:5])
    same_model(model, before)
    fresh = KernelPerceptron(RBF())
    calls[:] = [1, 1]
    with pytest.raises(KeyboardInterrupt):
        fresh.partial_fit(X, Y, classes=["same", "other"])
    assert vars(fresh).keys() == fresh.get_params(deep=False).keys()


@pytest.fixture
def interruptible():
    """Ctrl-C interrupts, also where the suite runs in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("variant", ["standard", "batch"])
def test_ctrl_c_stops_a_fit_without_end(variant):
    data, y = np.repeat(X, 2, axis=0), np.tile([0, 1], 40)
    model = KernelPerceptron(RBF(), variant, max_epochs=10**12)
    model.set_params(max_epochs=1)
    with pytest.warns(NotConverged):
        model.fit(data, y)  # compiled by now
    model.set_params(max_epochs=10**12)
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.fit(data, y)
    assert model.n_iter_ == 1


def test_warnings_as_errors_leave_the_model_as_it_was():
    model = KernelPerceptron("linear", max_epochs=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NotConverged):
            model.fit(X, Y)
    assert not hasattr(model, "dual_coef_")


# --------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"variant": "voted"}, "variant='voted'.*'standard'"),
        ({"variant": None}, "variant=None"),
        ({"variant": ["standard"]}, "variant="),
        ({"margin": 0.1}, "margin=0.1.*knows no margin"),
        ({"variant": "batch", "margin": 0.1}, "knows no margin"),
        ({"variant": "margin", "margin": 0.0}, "number > 0"),
        ({"variant": "margin", "margin": -1}, "number > 0"),
        ({"variant": "variable", "margin": np.nan}, "number > 0"),
        ({"variant": "variable", "margin": np.inf}, "number > 0"),
        ({"variant": "margin", "margin": "wide"}, "number > 0"),
        ({"variant": "margin", "margin": True}, "number > 0"),
        ({"max_epochs": 0}, "max_epochs=0.*whole number"),
        ({"max_epochs": 2.5}, "max_epochs=2.5"),
        ({"max_epochs": True}, "max_epochs=True"),
        ({"power_t": 1.5}, "power_t=1.5.*0 to 1"),
        ({"power_t": -0.1}, "power_t=-0.1"),
        ({"power_t": None}, "power_t=None"),
        ({"random_state": "x"}, "random_state"),
        ({"kernel": "no such kernel"}, "KernelPerceptron"),
    ],
)
def test_parameters(params, words):
    with pytest.raises(InvalidInput, match=words):
        KernelPerceptron(**params).fit(X, Y)


@pytest.mark.parametrize(
    ("data", "y", "words"),
    [
        (X, np.ones(40), "one class"),
        (X, None, "requires y"),
        (X, Y[:-1], "40 rows and y has 39"),
        (X, np.r_[[np.nan], np.ones(39)], "missing"),
        (X, rng.standard_normal(40), "Unknown label type|classif"),
        (np.where(X == X[3, 1], np.nan, X), Y, "NaN"),
        (np.where(X == X[3, 1], np.inf, X), Y, "infinity"),
        (X[:, 0], Y, "expected 2 dimensions"),
        (X[:0], Y[:0], "0 sample"),
        (np.array([["a", "b"]] * 40), Y, "number"),
    ],
)
def test_data(data, y, words):
    with pytest.raises(InvalidInput, match=words):
        KernelPerceptron().fit(data, y)


def test_bad_gram_matrices():
    K = RBF()(X)
    model = KernelPerceptron("precomputed")
    with pytest.raises(InvalidInput, match="square"):
        model.fit(K[:, :-1], Y)
    with pytest.raises(InvalidInput, match="not symmetric"):
        model.fit(K + np.triu(np.ones((40, 40)), 1), Y)
    model.fit(K, Y)
    with pytest.raises(ValueError, match="39 features"):
        model.predict(K[:, :-1])


def test_what_partial_fit_refuses():
    model = KernelPerceptron(RBF())
    with pytest.raises(InvalidInput, match="classes must be passed on the first call"):
        model.partial_fit(X, Y)
    with pytest.raises(InvalidInput, match="one class"):
        model.partial_fit(X, Y, classes=["same"])
    with pytest.raises(InvalidInput, match=r"'other'.*not one of the classes"):
        model.partial_fit(X, Y, classes=["same", "else"])
    assert vars(model).keys() == model.get_params(deep=False).keys()
    model.partial_fit(X, Y, classes=["same", "other"])
    with pytest.raises(InvalidInput, match="not those of the first call"):
        model.partial_fit(X, Y, classes=["same", "other", "third"])
    with pytest.raises(ValueError, match="3 features"):
        model.partial_fit(np.ones((2, 3)), Y[:2])
    with pytest.raises(InvalidInput, match="margin cannot be searched for online"):
        KernelPerceptron(RBF(), "margin").partial_fit(X, Y, classes=["same", "other"])
    assert not hasattr(KernelPerceptron("precomputed"), "partial_fit")
    found = KernelPerceptron(RBF(0.3), "margin").fit(X, Y)
    gamma = found.target_margin_
    assert found.partial_fit(X[:3] + 5, Y[:3]).target_margin_ == gamma


def test_a_budget_too_small_is_refused_before_the_kernel_is_called():
    def never(a, b):
        raise AssertionError

    with mercer.config(memory="8kB"), pytest.raises(MemoryBudgetExceeded, match="40 points"):
        KernelPerceptron(never).fit(X, Y)


# ---------------------------------------------------------------------------- in company
def test_pipelines_and_searches():
    flow = make_pipeline(StandardScaler(), KernelPerceptron(RBF(0.5)))
    assert cross_val_score(flow, X, Y, cv=4).mean() > 0.6
    search = GridSearchCV(
        KernelPerceptron(power_t=0.0),
        {"variant": VARIANTS, "kernel__length_scale": [0.3, 1.0]},
        cv=3,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        search.fit(X, Y)
    assert search.best_score_ > 0.6
    K = KernelPerceptron("precomputed")
    assert cross_val_score(K, RBF(0.5)(X), Y, cv=4).mean() > 0.6


def test_torch_computes_and_numpy_answers(torch):
    model = KernelPerceptron(RBF()).fit(X, Y)
    given = KernelPerceptron(RBF()).fit(torch.tensor(X), Y)
    np.testing.assert_array_equal(given.dual_coef_, model.dual_coef_)
    with mercer.config(engine="torch"):
        moved = KernelPerceptron(RBF()).fit(X, Y)
        assert moved.predict(X).tolist() == Y.tolist()
        assert isinstance(moved.partial_fit(X[:3], Y[:3]).decision_function(X), np.ndarray)


def test_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = KernelPerceptron(RBF()).partial_fit(frame[:20], Y[:20], classes=["other", "same"])
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame.rename(columns={"a": "z"}), Y)
    assert model.partial_fit(frame[20:], Y[20:]).feature_names_in_.tolist() == ["a", "b"]


# ------------------------------------------------------------------------------------ files
@pytest.mark.parametrize("labels", [Y, np.digitize(X[:, 0], [-0.5, 0.5])], ids=["two", "three"])
def test_a_loaded_model_goes_on_like_the_saved_one(tmp_path, labels):
    model = KernelPerceptron(RBF("median")).fit(X[:30], labels[:30])
    mercer.save(model, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    same_model(again, model)
    for one in (model, again):
        one.partial_fit(X[30:], labels[30:])
    same_model(again, model)
    assert again.solution_.summary() == model.solution_.summary()


@pytest.mark.parametrize(
    "damage",
    [
        {"classes_": np.array(["a", "b", "c"])},
        {"classes_": np.array(["a", "a"])},
        {"support_": np.arange(3)},
        {"intercept_": np.zeros(2)},
        {"norm_": np.inf},
        {"margin_": None},
        {"n_updates_": None},
        {"target_margin_": np.nan},
    ],
)
def test_parts_that_do_not_fit_are_refused(damage):
    model = KernelPerceptron(RBF()).fit(X, Y)
    for name, value in damage.items():
        if value is None:
            delattr(model, name)
        else:
            setattr(model, name, value)
    with pytest.raises(ModelFileError, match="KernelPerceptron"):
        model._check_state()
    clone(model)._check_state()  # never fitted
