"""The parts of a feature machine, against brute force."""

import copy
import itertools
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import mercer
from mercer.checks import Clock
from mercer.cli import main
from mercer.errors import ModelFileError
from mercer.kernels import RBF, Matern
from mercer.models import SVC, FeatureMachineClassifier, TableClassifier
from mercer.models.metric import learning, trials
from mercer.models.metric.choice import losses_for
from mercer.models.metric.learning import (
    HINGE,
    LOGISTIC,
    EncodedRows,
    Metric,
    Shares,
    by_gradients,
    descend,
    joined,
    plain,
    root_of,
)
from mercer.models.metric.members import class_values, of_pairs
from mercer.models.metric.scores import NormalScores
from mercer.models.metric.stacking import (
    PRIOR,
    LogPool,
    Mean,
    _powers,
    calibrated,
    log_loss,
    squared_error,
    two_columns,
)
from mercer.models.metric.trials import FIRST, RECIPES, Bench, Judged, folds_of, hold_out
from mercer.models.ridge import KernelRidge
from mercer.models.risk import KernelLogisticRegression


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(50, 4))
    T = np.sin(2 * Z[:, :1]) + 0.1 * rng.normal(size=(50, 1))
    return EncodedRows(Z, T / T.std(), rng.uniform(0.5, 2.0, 50))


# ----------------------------------------------------------------------------------------- learning
def test_learning_lowers_the_left_out_error(rows):
    start = plain(rows, Matern(nu=1.5))
    error = np.mean(
        [
            rows.w[i] * (rows.T[i] - _without(rows, start, i)) ** 2 / rows.w.mean()
            for i in range(len(rows))
        ]
    )
    assert start.error == pytest.approx(error, rel=1e-6)
    found = descend(rows, start, Clock())
    assert found.error < 0.8 * start.error and found.shares(np.ones(4)).argmax() == 0
    steps = list(by_gradients(rows, plain(rows, Matern(nu=0.5)), False, 3, Clock()))
    assert len(steps) == 3 and steps[-1].shares(np.ones(4)).argmax() == 0
    (full,) = by_gradients(rows, plain(rows, Matern(nu=0.5)), True, 1, Clock())
    assert full.map.ndim == 2 and full.shares(np.ones(4)).argmax() == 0


@pytest.mark.parametrize("recipe", [r for r in RECIPES if r.how == "descent"], ids=lambda r: r.name)
def test_a_descent_follows_the_gradient(rows, recipe, monkeypatch):
    asked = []
    monkeypatch.setattr(learning, "minimize", lambda *args, **options: asked.append(args))
    descend(rows, plain(rows, recipe.profile), Clock())
    ((objective, point),) = asked
    point = point + 0.1 * np.arange(len(point))
    slopes = objective(point)[1]
    assert slopes.shape == point.shape == (5,)  # four columns, and the penalty
    steps = 1e-5 * np.eye(len(point))
    differences = [(objective(point + s)[0] - objective(point - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(slopes, differences, rtol=1e-5, atol=1e-8)


def _without(rows, metric, i):
    others = np.delete(np.arange(len(rows)), i)
    rest = rows.take(others)
    model = KernelRidge(metric.kernel, alpha=metric.alpha, fit_intercept=True)
    return model.fit(rest.Z, rest.T[:, 0], rest.w).predict(rows.Z[[i]])[0]


def test_the_root_of_a_metric():
    rng = np.random.default_rng(1)
    B = rng.normal(size=(3, 5))
    A = root_of(B.T @ B)
    assert A.shape == (3, 5)  # directions that hold nothing are left out
    np.testing.assert_allclose(A.T @ A, B.T @ B / np.abs(B.T @ B).max(), atol=1e-12)
    np.testing.assert_allclose(root_of(np.array([4.0, 1.0])), [1.0, 0.5])
    assert root_of(np.zeros((2, 2))) is None and root_of(np.zeros(3)) is None


def test_a_metric_between_two():
    profile, one, two = Matern(nu=0.5), np.array([1.0, 4.0]), np.array([4.0, 1.0])
    between = joined(Metric(profile, one, 1.0), Metric(profile, two, 4.0))
    np.testing.assert_allclose(between.map, [2.0, 2.0])
    assert between.alpha == pytest.approx(2.0)
    full = joined(Metric(profile, np.diag(one), 1.0), Metric(profile, np.diag(two), 1.0))
    np.testing.assert_allclose(full.map.T @ full.map, np.diag([8.5, 8.5]), atol=1e-12)
    again = joined(full, full)
    np.testing.assert_allclose(again.map.T @ again.map, full.map.T @ full.map, atol=1e-12)


# ---------------------------------------------------------------------------------------- judgement
@pytest.mark.parametrize("count", [2, 5])
def test_folds_have_every_class_and_every_size(count):
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1, 2], [20, 7, 3])
    fold = folds_of(labels, count, rng)
    sizes = np.array([np.bincount(labels[fold == k], minlength=3) for k in range(count)])
    assert set(fold) == set(range(count)) and np.ptp(sizes.sum(axis=1)) <= 1
    assert (np.ptp(sizes, axis=0) <= 2).all()
    y = rng.normal(size=101)
    fold = folds_of(y, count, rng)
    assert max(abs(np.median(y[fold == k]) - np.median(y)) for k in range(count)) < 0.5


@pytest.mark.parametrize("spectral", [500, 10])
def test_rows_are_left_out_in_the_metric_of_other_folds(rows, spectral, monkeypatch):
    monkeypatch.setattr("mercer.models.metric.trials.SPECTRAL", spectral)
    fold = np.arange(50) % 2
    metrics = tuple(
        Metric(Matern(nu=1.5), np.full(4, scale), alpha)
        for scale, alpha in ((0.5, 0.1), (1.0, 0.4))
    )
    found = Bench(rows, "", fold).at_penalties(Judged(FIRST[0], "", metrics), (0.5, 2.0))
    alpha = found.metrics[0].alpha
    assert alpha == found.metrics[1].alpha
    if spectral == 10:
        assert alpha in (pytest.approx(0.1), pytest.approx(0.4))
    for i in (0, 1, 6, 7):
        metric = found.metrics[i % 2]
        assert found.left_out[i, 0] == pytest.approx(_without(rows, metric, i), rel=1e-6)
    assert found.error == pytest.approx(squared_error(found.left_out, rows.T, rows.w))


@pytest.mark.parametrize(("count", "classes"), [(3, 2), (5, 3)])
def test_logistic_regressions_do_not_see_the_rows_that_they_predict(rows, count, classes):
    labels = np.digitize(rows.T[:, 0], [0.0] if classes == 2 else [-0.5, 0.5])
    bench = Bench(rows, "", folds_of(labels, count, np.random.default_rng(0)))
    metrics = tuple(
        Metric(RBF(), np.array([1.0, 0.1, 0.1, 0.1 + k / 50]), 0.1) for k in range(count)
    )
    found = bench.with_loss(Judged(FIRST[2], "", metrics), LOGISTIC, labels, classes, Clock())
    assert found.loss == LOGISTIC and found.name.endswith("logistic")
    P = np.exp(found.left_out) if classes > 2 else 1 / (1 + np.exp(-found.left_out))
    P = P / P.sum(axis=1, keepdims=True) if classes > 2 else np.hstack([1 - P, P])
    assert found.error == pytest.approx(log_loss(P, labels, rows.w), rel=1e-9)
    assert found.error < 0.9 * np.log(classes)
    # a label that is turned changes no prediction of its own row, and those of other folds
    turned = labels.copy()
    turned[3] = (labels[3] + 1) % classes
    known = Judged(FIRST[2], "", found.metrics)
    once = SimpleNamespace(late=True, rest=lambda _: None)  # no second one is tried
    again = bench.with_loss(known, LOGISTIC, turned, classes, once)
    first = bench.with_loss(known, LOGISTIC, labels, classes, once)
    np.testing.assert_allclose(again.left_out[3], first.left_out[3], rtol=1e-9)
    assert not np.allclose(again.left_out, first.left_out, rtol=1e-6)


@pytest.mark.parametrize("recipe", [FIRST[2], RECIPES[-1]])
@pytest.mark.parametrize("classes", [2, 3])
def test_of_many_rows_logistic_regressions_leave_out_each(rows, classes, recipe):
    """Nearly what fits without the row say, in the metric of its fold; of one scale, of all."""
    labels = np.digitize(rows.T[:, 0], [0.0] if classes == 2 else [-0.5, 0.5])
    bench = Bench(rows, "", folds_of(labels, 2, np.random.default_rng(0)))
    metrics = tuple(Metric(RBF(), np.array([1.0, 0.1, 0.1, scale]), 0.1) for scale in (0.1, 0.2))
    found = bench.with_loss(Judged(recipe, "", metrics), LOGISTIC, labels, classes, Clock())
    found = bench.leave_out(found, labels, classes)
    alpha = found.metrics[0].alpha
    told, true = [], []
    for i in range(0, 50, 3):
        others = np.delete(np.arange(50), i)
        metric = found.metric if recipe is FIRST[2] else found.metrics[bench.fold[i]]
        model = KernelLogisticRegression(metric.kernel, alpha=alpha)
        model.fit(rows.Z[others], labels[others], None if rows.w is None else rows.w[others])
        told.append(found.left_out[i])
        true.append(class_values(model, rows.Z[[i]], classes)[0])
    told, true = np.array(told), np.array(true)
    assert np.corrcoef(told.ravel(), true.ravel())[0, 1] > 0.95
    chosen = [(v > 0).ravel() if classes == 2 else v.argmax(axis=1) for v in (told, true)]
    assert (chosen[0] == chosen[1]).mean() > 0.9


@pytest.mark.parametrize("classes", [2, 3])
def test_margins_are_left_out_in_parts_of_the_folds(rows, classes):
    labels = np.digitize(rows.T[:, 0], [0.0] if classes == 2 else [-0.5, 0.5])
    bench = Bench(rows, "", folds_of(labels, 2, np.random.default_rng(0)))
    metrics = tuple(Metric(RBF(), np.array([1.0, 0.1, 0.1, scale]), 0.1) for scale in (0.1, 0.2))
    found = bench.with_loss(Judged(FIRST[2], "", metrics), HINGE, labels, classes, Clock())
    assert found.loss == HINGE and found.name.endswith("hinge")
    found = bench.leave_out(found, labels, classes)
    assert found.left_out.shape == (50, 1 if classes == 2 else 3)
    assert found.error < 0.95 * np.log(classes)
    # a label that is turned changes nothing that is said of its own row
    turned = labels.copy()
    turned[3] = (labels[3] + 1) % classes
    part = bench.fold + 2 * (np.arange(50) % 5)
    told = [bench._parts(found, part, each, classes).left_out for each in (labels, turned)]
    np.testing.assert_allclose(told[0][part == part[3]], told[1][part == part[3]], rtol=1e-9)
    assert not np.allclose(told[0], told[1], rtol=1e-6)
    # and what is said is what a machine without that part says
    others = part != part[3]
    metric = found.metrics[bench.fold[3]]
    machine = SVC(metric.kernel, C=1 / metric.alpha, decision_function_shape="ovo", tol=1e-3)
    machine.fit(rows.Z[others], labels[others], rows.w[others])
    expected = class_values(machine, rows.Z[[3]], classes)
    np.testing.assert_allclose(told[0][[3]], expected, rtol=1e-6)


def test_values_of_pairs_are_logarithms_of_products():
    values = np.array([[0.5, -1.0, 2.0]])  # of 0 and 1, 0 and 2, 1 and 2, positive for the first
    sigma = 1 / (1 + np.exp(-4.0 * values[0]))
    products = [sigma[0] * sigma[1], (1 - sigma[0]) * sigma[2], (1 - sigma[1]) * (1 - sigma[2])]
    np.testing.assert_allclose(np.exp(of_pairs(values, 3)[0]), products)


@pytest.fixture(scope="module")
def sharp():
    """Classes that follow from a rule, of which margins know most."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(240, 4)).astype(float)
    y = np.digitize(X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3], [-2.0, 0.5, 3.0])
    filters = list(warnings.filters)
    model = TableClassifier().fit(X, y)
    assert list(warnings.filters) == filters  # threads that try members leave them alone
    return model, X, y


def test_margins_are_members_where_classes_have_sharp_borders(sharp):
    model, X, y = sharp
    machine = model.model_
    assert machine.ways_[0].endswith("hinge") and machine.left_out_error_ < 0.1
    assert np.mean(model.loo(X) != y) == pytest.approx(machine.left_out_error_)
    assert all(solution.converged for solution in machine.solutions_)
    assert machine.metric_.shape == (4, 4)
    assert "support vector machine" in FeatureMachineClassifier().plan(X, y).why


def test_margins_are_in_files_and_forged_ones_are_refused(sharp, tmp_path):
    model, X, _ = sharp
    machine = model.model_
    mercer.save(model, tmp_path / "sharp.mercer")
    again = mercer.load(tmp_path / "sharp.mercer")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for forged in ({"decision_function_shape": "ovr"}, {"multi_class": "ovr"}):
        wrong = copy.deepcopy(machine)
        wrong.members_[0].set_params(**forged)
        with pytest.raises(ModelFileError, match="parts"):
            wrong._check_state()
    wrong = copy.deepcopy(machine)
    wrong.members_[0].kernel_ = mercer.Linear()
    with pytest.raises(ModelFileError, match="parts"):
        wrong._check_state()


def test_the_command_line_tells_of_margins(tmp_path, capsys):
    rows = itertools.product(["low", "mid", "high"], repeat=4)
    text = "".join(f"{','.join(r)},{'no' if 'low' in r[:2] else 'yes'}\n" for r in rows)
    (tmp_path / "car.csv").write_text("a,b,c,d,k\n" + text)
    words = ["fit", str(tmp_path / "car.csv"), "--target", "k", "-o", str(tmp_path / "m.mercer")]
    assert main(words) == 0
    assert "hinge" in capsys.readouterr().out


@pytest.mark.parametrize("rows", [12, 25])
def test_few_rows_have_margins_too(rows):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 2))
    labels = np.arange(rows) % 2
    X[:, 0] += 5 * labels
    fold = folds_of(labels, 3, rng)
    bench = Bench(EncodedRows(X, labels[:, None] - 0.5), "", fold)
    metrics = (Metric(RBF(), np.ones(2), 0.1),) * 3
    found = bench.leave_out(Judged(FIRST[2], "", metrics, loss=HINGE), labels, 2)
    assert ((found.left_out[:, 0] > 0) == labels).mean() > 0.9


def test_beyond_the_bench_margins_are_held_out(rows):
    labels = np.digitize(rows.T[:, 0], [-0.5, 0.5])
    held = np.arange(0, 50, 5)
    metrics = (Metric(RBF(), np.array([1.0, 0.1, 0.1, 0.1]), 0.1),) * 2
    found = hold_out(Judged(FIRST[2], "", metrics, loss=HINGE), rows, labels, 3, held)
    rest = np.setdiff1d(np.arange(50), held)
    machine = SVC(metrics[0].kernel, C=10.0, decision_function_shape="ovo")
    machine.fit(rows.Z[rest], labels[rest], rows.w[rest])
    np.testing.assert_allclose(found.left_out, class_values(machine, rows.Z[held], 3))


def test_what_does_not_converge_in_time_is_not_taken(rows):
    labels = np.digitize(rows.T[:, 0], [-0.5, 0.5])
    metrics = (Metric(RBF(), np.ones(4), 1e-3),) * 2
    judged = Judged(FIRST[2], "", metrics, loss=LOGISTIC)
    given = rows, labels, 3, np.arange(0, 50, 5)
    assert np.isfinite(hold_out(judged, *given, 1e6).error)
    assert np.isinf(hold_out(judged, *given, 1e-9).error)


def test_little_time_has_fewer_centres(rows, monkeypatch):
    taken = {5000: 9.0, 2500: 4.0, 1250: 2.0}

    def planned(Z, T, how, like, n=None):
        return replace(KernelRidge().plan(rows.Z), seconds=taken.get(how.get("n_centers"), 0.1))

    monkeypatch.setattr(learning, "planned", planned)
    Z, T = np.zeros((20_000, 1)), np.zeros((20_000, 1))
    for seconds, centres in ((None, 5000), (10.0, 5000), (5.0, 2500), (3.0, 1250), (1.0, 625)):
        assert learning.in_time(Z, T, None, seconds)["n_centers"] == centres
    assert learning.in_time(Z[:50], T[:50], None, 1.0) == {}  # exactly


def test_a_busy_machine_has_fewer_centres(rows, monkeypatch):
    plan = KernelRidge().plan(rows.Z)

    def planned(Z, T, how, like, n=None):
        return replace(plan, seconds=how.get("n_centers", 0) / 1000)

    monkeypatch.setattr(learning, "planned", planned)
    Z, T = np.zeros((20_000, 1)), np.zeros((20_000, 1))
    pace = learning.Pace()
    how = pace.how(Z, T, None, 5.0)
    assert how["n_centers"] == 5000
    pace.took(4.0, Z, T, how)  # sooner than planned
    assert pace.how(Z, T, None, 5.0)["n_centers"] == 5000
    pace.took(20.0, Z, T, how)
    assert pace.times == 4.0 and pace.how(Z, T, None, 5.0)["n_centers"] == 1250


def test_little_time_has_metrics_of_fewer_rows():
    Z = np.random.default_rng(0).normal(size=(900, 3))
    in_time = learning.rows_in_time
    assert in_time(Z, 6000, 700, None) == in_time(Z, 6000, 700, 100.0) == 700
    assert in_time(Z, 6000, 700, 1e-9) == learning.LEAST_ROWS
    assert in_time(Z, 1400, 700, 1e-9) == 700 and in_time(Z, 6000, 60, 1e-9) == 60


@pytest.mark.parametrize("loss", [HINGE, LOGISTIC])
def test_trials_of_a_loss_end_with_their_time(rows, loss, monkeypatch):
    labels = (rows.T[:, 0] > 0).astype(int)
    bench = Bench(rows, "", folds_of(labels, 2, np.random.default_rng(0)))
    judged = Judged(FIRST[2], "", (Metric(RBF(), np.ones(4), 0.1),) * 2)
    late = Clock(1e-9)
    found = bench.with_loss(judged, loss, labels, 2, late)
    assert len(found.compared) <= 1  # no second penalty is tried
    whole = bench.with_loss(judged, loss, labels, 2, Clock(1e6))
    assert len(whole.compared) > 2 and np.isfinite(whole.error)
    unended = trials.fitted

    def ends(*given, **options):
        model = unended(*given, **options)
        model.solution_ = replace(model.solution_, converged=False)
        return model

    monkeypatch.setattr(trials, "fitted", ends)
    assert np.isinf(bench.with_loss(judged, loss, labels, 2, late).error)


def test_losses_are_those_that_there_is_time_and_memory_for():
    few, some, many = (Shares.of(n, 700, True) for n in (200, 1000, 50_000))
    assert list(losses_for(few, 2, True)) == list(losses_for(some, 5, True)) == [HINGE, LOGISTIC]
    assert list(losses_for(many, 2, True)) == [LOGISTIC] and not losses_for(many, 3, True)
    assert list(losses_for(some, 2, False)) == [LOGISTIC]  # blocks
    assert sum(losses_for(some, 5, True)[LOGISTIC]) < sum(losses_for(some, 2, True)[LOGISTIC])


def test_a_margin_between_two_of_three_classes_is_as_steep_as_others():
    X = np.arange(12.0)[:, None]
    machine = SVC(RBF(2.0), decision_function_shape="ovo").fit(X, np.repeat([0, 2], 6))
    values, f = class_values(machine, X, 3), machine.decision_function(X)
    np.testing.assert_allclose(values[:, 2] - values[:, 0], 4.0 * f)
    assert (values[:, 1] < values[:, [0, 2]].min(axis=1)).all()


def test_a_class_that_a_fit_has_not_seen_has_little():
    X = np.arange(12.0)[:, None]
    model = KernelLogisticRegression(RBF(2.0)).fit(X, np.repeat([0, 2], 6))
    values = class_values(model, X, 3)
    assert values.shape == (12, 3) and (values[:, 1] < values[:, [0, 2]].min(axis=1)).all()
    np.testing.assert_allclose(values[:, 2] - values[:, 0], model.decision_function(X))


def test_what_is_held_out_was_not_fitted(rows):
    held = np.arange(0, 50, 5)
    metrics = tuple(Metric(Matern(nu=1.5), np.full(4, scale), 0.1) for scale in (0.5, 1.0))
    found = hold_out(Judged(FIRST[0], "", metrics), rows, None, 0, held)
    rest = rows.take(np.setdiff1d(np.arange(50), held))
    ridge = KernelRidge(joined(*metrics).kernel, alpha=0.1, fit_intercept=True)
    expected = ridge.fit(rest.Z, rest.T[:, 0], rest.w).predict(rows.Z[held])
    np.testing.assert_allclose(found.left_out[:, 0], expected)


# ----------------------------------------------------------------------------------------- together
def test_weights_of_the_mean_are_the_best_on_the_simplex(rows):
    rng = np.random.default_rng(3)
    found = [rows.T + s * rng.normal(size=rows.T.shape) for s in (0.2, 0.3, 0.4, 5.0)]
    weights = Mean.of(found, rows.T, rows.w, 3).weights
    assert weights.sum() == pytest.approx(1.0) and (weights >= 0).all()
    assert weights[3] == 0 and np.count_nonzero(Mean.of(found, rows.T, rows.w, 1).weights) == 1

    def error(w):
        w = np.abs(w) / np.abs(w).sum()
        return squared_error(Mean(w)(found), rows.T, rows.w)

    best = min(minimize(error, rng.random(4), method="Nelder-Mead").fun for _ in range(5))
    assert error(weights) < 1.05 * best  # drawn a little to equal weights


def test_members_that_nobody_can_tell_apart_count_alike():
    rng = np.random.default_rng(5)
    T = rng.normal(size=(30, 1))
    found = [T + rng.normal(size=(30, 1)) for _ in range(3)]
    weights = Mean.of(found, T, None, 3).weights
    assert weights.min() > 0.15
    labels = (T[:, 0] > 0).astype(int)
    lines = [calibrated(two_columns(v), labels, np.ones(30)) for v in found]
    scaled = [s * two_columns(v) + o for v, (s, o) in zip(found, lines, strict=True)]
    powers = _powers(log_softmax(scaled, axis=2), labels, np.ones(30))
    assert (powers / powers.sum()).min() > 0.15
    assert LogPool.of(found, labels, None, 3).weights.sum() == pytest.approx(1.0)
    # and where nothing has been learned of the target, the best has all
    nothing = [-T, -2 * T]
    np.testing.assert_array_equal(Mean.of(nothing, T, None, 3).weights, [1.0, 0.0])


def test_a_pool_finds_the_member_that_knows():
    rng = np.random.default_rng(6)
    labels = rng.integers(0, 3, 400)
    hot = (labels[:, None] == np.arange(3)).astype(float)
    knows, guesses = hot + 0.5 * rng.normal(size=hot.shape), rng.normal(size=hot.shape)
    pool = LogPool.of([guesses, knows], labels, None, 2)
    assert pool.weights[1] > 0.95
    P = pool([guesses, knows])
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    alone = LogPool.of([knows], labels, None, 1)
    assert log_loss(P, labels) < 1.02 * log_loss(alone([knows]), labels)
    kept = pool.take(np.array([1]))
    assert kept.weights.shape == (1,) and kept.offset.shape == (3,)
    weights = rng.integers(1, 4, 400)
    one = LogPool.of([guesses, knows], labels, weights.astype(float), 2)
    two = LogPool.of(
        [np.repeat(guesses, weights, axis=0), np.repeat(knows, weights, axis=0)],
        np.repeat(labels, weights), None, 2,
    )  # fmt: skip
    np.testing.assert_allclose(one([guesses, knows]), two([guesses, knows]), atol=0.02)


def test_classes_far_apart_have_probabilities_that_rows_can_tell():
    """No row is wrong: the more rows, the surer; never certain."""
    sure = []
    for n in (20, 200):
        labels = np.arange(n) % 2
        values = np.where(labels, 1.0, -1.0)[:, None]
        slope, offsets = calibrated(np.hstack([0 * values, values]), labels, np.ones(n))
        sure.append(float(1 / (1 + np.exp(-(slope + offsets[1] - offsets[0])))))
    assert 0.9 < sure[0] < sure[1] < 0.9999 and 1 - sure[1] == pytest.approx(0.5 / 200, rel=0.3)
    # the size of the values does not matter
    scale = 1e6
    again, offsets = calibrated(np.hstack([0 * values, scale * values]), labels, np.ones(n))
    assert again * scale == pytest.approx(slope, rel=1e-3)


# ------------------------------------------------------------------------------------------- scores
def test_normal_scores_are_monotone_and_know_weights():
    rng = np.random.default_rng(4)
    Z = np.column_stack([np.exp(rng.normal(size=300)), rng.integers(0, 2, 300), np.ones(300)])
    numbers = np.array([True, True, True])
    scores = NormalScores.of(Z, None, numbers)
    assert scores.views == ["", "ranks of some"]  # two values, one value: nothing to rank
    out = scores.view(Z, "ranks of some")
    np.testing.assert_array_equal(out[:, 1:], Z[:, 1:])
    order = np.argsort(Z[:, 0])
    assert (np.diff(out[order, 0]) >= 0).all()
    assert abs(out[:, 0].mean()) < 0.05 and abs(out[:, 0].std() - 1) < 0.1
    assert scores.view(np.array([[1e9, 0, 1], [-1e9, 0, 1]]), "ranks")[:, 0] == pytest.approx(
        [out[:, 0].max(), out[:, 0].min()]
    )
    weight = rng.integers(1, 4, 300)
    one = NormalScores.of(Z, weight.astype(float), numbers)
    two = NormalScores.of(np.repeat(Z, weight, axis=0), None, numbers)
    np.testing.assert_allclose(one.knots, two.knots)
    assert (NormalScores.of(Z, None, ~numbers).views) == [""]


def test_a_pool_is_a_logistic_regression_of_the_members_drawn_to_equal_powers():
    """Its powers are those that a general optimiser finds for the loss as it is written."""
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 3, 80)
    hot = (labels[:, None] == np.arange(3)).astype(float)
    found = [hot + noise * rng.normal(size=hot.shape) for noise in (0.6, 1.0, 2.0)]
    w = rng.uniform(0.5, 2.0, 80)
    pool = LogPool.of(found, labels, w, 3)
    lines = [calibrated(each, labels, w / w.mean()) for each in found]
    logs = [log_softmax(s * v + o, axis=1) for v, (s, o) in zip(found, lines, strict=True)]

    def loss(a):
        P = log_softmax(sum(x * each for x, each in zip(a, logs, strict=True)), axis=1)
        drawn = PRIOR * 3 * np.sum((a - 1 / 3) ** 2)
        return drawn - float(w / w.mean() @ P[np.arange(80), labels])

    best = minimize(loss, np.full(3, 1 / 3), method="Nelder-Mead", options={"xatol": 1e-7}).x
    expected = softmax(sum(x * each for x, each in zip(best, logs, strict=True)), axis=1)
    np.testing.assert_allclose(pool(found), expected, atol=1e-4)


def test_a_pool_of_members_that_know_nothing_gives_the_shares_of_the_classes():
    rng = np.random.default_rng(9)
    labels = (np.arange(300) % 4 == 0).astype(int)
    found = [rng.normal(size=(300, 1)) for _ in range(3)]
    pool = LogPool.of(found, labels, None, 3)
    assert np.abs(pool(found)[:, 1] - 0.25).max() < 0.12 and pool.weights.sum() == pytest.approx(1)
    flat = LogPool.of([np.zeros((300, 1))], labels, None, 3)
    np.testing.assert_allclose(flat([np.zeros((2, 1))])[:, 1], 0.25, atol=0.01)


def test_a_metric_of_a_constant_column_has_a_bandwidth():
    """A direction may have entries of any sign, none of them above zero."""
    M = np.zeros((4, 4))
    M[1:, 1:] = np.outer([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    rows = EncodedRows(np.column_stack([0 * x, x, x, x]), np.sin(2 * x)[:, None])
    for map in (root_of(M), -root_of(M)):
        metric = learning.at_bandwidths(rows, RBF(), map, [0.5, 1.0])
        assert np.isfinite(metric.map).all() and metric.error < 0.05
    start = plain(rows, Matern(nu=0.5))
    with np.errstate(all="raise", under="ignore"):
        found = list(by_gradients(rows, start, True, 2, Clock()))
    assert len(found) == 2 and all(np.isfinite(metric.map).all() for metric in found)
