"""The displays of feature machines draw their metric and their shares of the columns."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from mercer import (
    FeatureMachineClassifier,
    FeatureMachineRegressor,
    KernelRidge,
    TableClassifier,
    TableRegressor,
)
from mercer.errors import InvalidInput
from mercer.plot import ImportancesDisplay, MetricDisplay

pytest.importorskip("matplotlib")

FAST = {"n_models": 1, "max_rows": 40}


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["dose", "age", "price in $ or $k"])
    frame["site"] = np.array(["Bern", "Pisa"])[rng.integers(0, 2, 60)]
    y = pd.Series(2 * frame["dose"] + (frame["site"] == "Bern"), name="effect")
    return frame, y


@pytest.fixture(scope="module")
def regressor(table):
    return FeatureMachineRegressor(**FAST).fit(*table)


@pytest.fixture(scope="module")
def classifier(table):
    frame, y = table
    return FeatureMachineClassifier(**FAST).fit(frame, np.digitize(y, [-1.0, 1.0]))


def texts(axes):
    return [t.get_text() for t in axes.get_legend().get_texts()]


def brute_force(machine, frame):
    """Return rows on the two leading directions, by an SVD of the metric, signs as they come."""
    U, lengths, _ = np.linalg.svd(machine.metric_)
    Z = machine.encoder_.transform(frame)
    points = np.array([[np.sqrt(lengths[j]) * (U[:, j] @ z) for j in (0, 1)] for z in Z])
    return points, U[:, :2], lengths[:2] / np.trace(machine.metric_)


def test_rows_lie_in_the_plane_of_the_metric(table, regressor, axes):
    frame, y = table
    shown = MetricDisplay.from_estimator(regressor, frame, y, ax=axes)
    points, U, shares = brute_force(regressor, frame)
    for j, label in enumerate([axes.get_xlabel(), axes.get_ylabel()]):
        largest = int(np.abs(U[:, j]).argmax())
        np.testing.assert_allclose(shown.Z[:, j], np.sign(U[largest, j]) * points[:, j], atol=1e-12)
        name = regressor.encoder_.get_feature_names_out()[largest].replace("$", r"\$")
        assert label.startswith(f"{abs(U[largest, j]):.2f} {name}")
        assert label.endswith(f"\n{shares[j]:.0%} of the metric")
    (drawn,) = shown.points_
    np.testing.assert_array_equal(drawn.get_offsets(), shown.Z)
    np.testing.assert_array_equal(drawn.get_array(), y)
    assert shown.ax_ is axes and shown.figure_ is axes.figure
    assert drawn.colorbar.ax.get_ylabel() == "effect"
    axes.figure.canvas.draw()  # a dollar in a name is no formula


def test_distances_are_those_of_the_metric_in_two_columns(rng, axes):
    X = rng.normal(size=(40, 2))
    model = FeatureMachineRegressor(**FAST).fit(X, X @ [3.0, 1.0])
    Z = MetricDisplay.from_estimator(model, X, ax=axes).Z
    d = model.encoder_.transform(X[:1]) - model.encoder_.transform(X[1:2])
    assert np.square(Z[0] - Z[1]).sum() == pytest.approx((d @ model.metric_ @ d.T).item())


def test_columns_far_from_normal_are_drawn_by_normal_scores(rng, axes):
    X = np.c_[np.exp(2 * rng.normal(size=60)), rng.normal(size=60)]
    model = FeatureMachineRegressor(**FAST).fit(X, np.log(X[:, 0]))
    assert model.ranked_.tolist() == [True, False] and model.views_[0]
    Z = model.encoder_.transform(X)
    Z[:, 0] = np.interp(Z[:, 0], *model.knots_[:, 0])
    M = MetricDisplay.from_estimator(model, X, ax=axes).Z
    np.testing.assert_allclose(M @ M.T, Z @ model.metric_ @ Z.T, atol=1e-10)


def test_classes_have_the_colours_of_the_house(table, classifier, axes):
    from matplotlib.colors import to_hex

    frame, y = table
    labels = np.digitize(y, [-1.0, 1.0])
    shown = MetricDisplay.from_estimator(classifier, frame, labels, ax=axes)
    assert texts(axes) == ["0", "1", "2"]
    colours = [to_hex(p.get_facecolor()[0]).upper() for p in shown.points_]
    assert colours == ["#0072B2", "#D55E00", "#009E73"]
    for kind, points in enumerate(shown.points_):
        np.testing.assert_array_equal(points.get_offsets(), shown.Z[labels == kind])
    kept = labels > 0  # a class that is not drawn leaves its colour to nobody
    part = MetricDisplay.from_estimator(classifier, frame[kept], labels[kept], ax=axes)
    assert [to_hex(p.get_facecolor()[0]).upper() for p in part.points_] == colours[1:]


def test_few_numbers_of_a_regression_are_a_scale(table, regressor, axes):
    frame, y = table
    shown = MetricDisplay.from_estimator(regressor, frame, np.sign(y), ax=axes)
    assert len(shown.points_) == 1 and axes.get_legend() is None
    without = MetricDisplay.from_estimator(regressor, frame, ax=axes, point_kwargs={"s": 3})
    assert without.y is None and without.points_[0].get_array() is None
    assert without.points_[0].get_sizes().tolist() == [3]


def test_table_models_are_drawn_by_the_machine_inside(table, axes):
    frame, y = table
    for model, target in (
        (TableRegressor(model="features", max_time=0.1), y),
        (TableClassifier(model="features", max_time=0.1), y > 0),
    ):
        model.fit(frame, target)
        shown = MetricDisplay.from_estimator(model, frame[frame.columns[::-1]], target, ax=axes)
        inner = MetricDisplay.from_estimator(model.model_, frame, target, ax=axes)
        np.testing.assert_array_equal(shown.Z, inner.Z)
        bars = ImportancesDisplay.from_estimator(model, ax=axes)
        np.testing.assert_array_equal(bars.importances, model.importances_)


def test_what_was_drawn_is_drawn_again(table, classifier, axes):
    frame, y = table
    first = MetricDisplay.from_estimator(classifier, frame, np.digitize(y, [-1.0, 1.0]))
    again = first.plot(axes)
    assert again is first and again.ax_ is axes and texts(axes) == ["0", "1", "2"]
    shown = MetricDisplay(np.eye(2), [1.0, 2.0]).plot()
    assert shown.ax_.get_xlabel() == "direction 1"
    MetricDisplay(np.eye(2), ["$a", "$b"], classes=["$b", "$a"]).plot(shown.ax_)
    assert texts(shown.ax_) == [r"\$b", r"\$a"]


def test_bars_are_the_importances(table, regressor, axes):
    shown = ImportancesDisplay.from_estimator(regressor, ax=axes)
    order = sorted(range(4), key=lambda j: -regressor.importances_[j])
    np.testing.assert_array_equal([b.get_width() for b in shown.bars_], shown.importances[order])
    names = [t.get_text().replace(r"\$", "$") for t in axes.get_yticklabels()]
    assert names == [table[0].columns[j] for j in order]
    top, bottom = axes.get_ylim()[::-1]
    assert top < shown.bars_[0].get_y() < shown.bars_[-1].get_y() < bottom  # the largest above
    (lines,) = shown.bars_.errorbar[2]
    for j, ((low, _), (high, _)) in zip(order, lines.get_segments(), strict=True):
        share, spread = regressor.importances_[j], regressor.importances_std_[j]
        assert low == pytest.approx(max(share - spread, 0.0), abs=1e-12)
        assert high == pytest.approx(share + spread)
    assert axes.get_xlabel() == "share of the metric"
    axes.figure.canvas.draw()


def test_many_columns_are_cut(axes):
    shares = np.arange(1.0, 41.0) / 820
    shown = ImportancesDisplay(shares, names=["a" * 70] + ["b"] * 39).plot(axes)
    assert len(shown.bars_) == 15 and shown.bars_.errorbar is None
    assert axes.get_xlabel() == "share of the metric; 15 of 40 columns, 60% of it"
    ImportancesDisplay(shares[::-1], 2 * shares, ["a" * 30 + "b" * 30] * 40).plot(
        axes, max_columns=1
    )
    (label,) = axes.get_yticklabels()
    assert label.get_text() == "a" * 14 + "…" + "b" * 9
    ImportancesDisplay([0.25, 0.75]).plot(axes, bar_kwargs={"color": "red"})
    assert [t.get_text() for t in axes.get_yticklabels()] == ["x1", "x0"]


@pytest.mark.parametrize("draw", [MetricDisplay, ImportancesDisplay])
def test_models_without_a_metric_are_refused(draw, table):
    frame, y = table
    X = () if draw is ImportancesDisplay else (frame,)
    for unfitted in (FeatureMachineRegressor(), TableClassifier()):
        with pytest.raises(NotFittedError, match=type(unfitted).__name__):
            draw.from_estimator(unfitted, *X)
    for other in (KernelRidge(), None, FeatureMachineRegressor):
        kind = type(other).__name__
        with pytest.raises(InvalidInput, match=f"{draw.__name__}: a {kind} has learned no metric"):
            draw.from_estimator(other, *X)
    ridge = TableRegressor(model="ridge", alpha=1.0).fit(frame, y)
    with pytest.raises(InvalidInput, match=r"has a KernelRidge inside.*model='features'"):
        draw.from_estimator(ridge, *X)


def test_rows_and_colours_that_do_not_fit_are_refused(table, regressor, classifier, axes):
    frame, y = table
    two = np.c_[y, y]
    for model, X, target, words in (
        (regressor, frame.drop(columns="age"), y, "MetricDisplay: .*'age'"),
        (regressor, frame.to_numpy()[:, :2], y, "MetricDisplay"),
        (regressor, frame, y[:9], "MetricDisplay: X has 60 rows and y has 9"),
        (regressor, frame, ["a"] * 60, "MetricDisplay: .*y must hold numbers"),
        (regressor, frame, np.where(y > 0, np.nan, y), "MetricDisplay: .*NaN"),
        (regressor, frame, two, r"MetricDisplay: y has 2 columns.*y\[:, 0\]"),
        (classifier, frame, [0, 1], "MetricDisplay: X has 60 rows and y has 2"),
        (classifier, frame, [None] * 60, "MetricDisplay: y has missing labels"),
        (classifier, frame, np.arange(60) % 20, "MetricDisplay: y holds 20 classes"),
    ):
        with pytest.raises(InvalidInput, match=words):
            MetricDisplay.from_estimator(model, X, target, ax=axes)
    assert not axes.has_data()
    MetricDisplay.from_estimator(regressor, frame, two[:, 0], ax=axes)  # the cure


def test_one_column_has_one_direction(rng):
    x = rng.normal(size=(30, 1))
    model = FeatureMachineRegressor(**FAST).fit(x, x[:, 0])
    with pytest.raises(InvalidInput, match="MetricDisplay: the metric has one column"):
        MetricDisplay.from_estimator(model, x)
    assert len(ImportancesDisplay.from_estimator(model).bars_) == 1


def test_styles_and_counts_are_checked(table, regressor, axes):
    with pytest.raises(InvalidInput, match="MetricDisplay: point_kwargs='red'"):
        MetricDisplay.from_estimator(regressor, table[0], ax=axes, point_kwargs="red")
    with pytest.raises(InvalidInput, match="ImportancesDisplay: bar_kwargs='red'"):
        ImportancesDisplay.from_estimator(regressor, ax=axes, bar_kwargs="red")
    for count in (0, -1, 1.5, "all"):
        with pytest.raises(InvalidInput, match="ImportancesDisplay: max_columns="):
            ImportancesDisplay.from_estimator(regressor, max_columns=count, ax=axes)
    assert not axes.has_data()
