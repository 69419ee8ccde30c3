"""The displays of components, clusters, densities and tests draw what these say."""

import numpy as np
import pandas as pd
import pytest

from mercer import PCA, RBF, DPMeans, KernelDensity, KernelPCA, KernelRidge
from mercer.errors import InvalidInput
from mercer.plot import (
    ClustersDisplay,
    DensityDisplay,
    DependenceDisplay,
    NullDisplay,
    ProjectionDisplay,
    WitnessDisplay,
)
from mercer.statistics import hsic_test, mmd_test, witness

pytest.importorskip("matplotlib")


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


def texts(axes):
    return [t.get_text() for t in axes.get_legend().get_texts()]


def test_null(rng, axes):
    result = mmd_test(rng.normal(size=20), rng.normal(size=25), n_permutations=199, rng=0)
    shown = result.plot(axes, bins=17)
    assert isinstance(shown, NullDisplay) and shown.ax_ is axes and len(shown.bars_) == 17
    assert sum(bar.get_height() for bar in shown.bars_) == 199
    assert shown.line_.get_xdata()[0] == result.statistic
    assert f"data, p = {result.pvalue:.3g}" in texts(axes)


def test_null_without_spread(axes):
    result = mmd_test(np.zeros(5), np.zeros(5), n_permutations=19, rng=0)
    assert sum(bar.get_height() for bar in result.plot(axes).bars_) == 19


def test_null_refuses_what_has_none(rng):
    result = mmd_test(rng.normal(size=20), rng.normal(size=25), null="gamma")
    with pytest.raises(InvalidInput, match="no null to draw"):
        result.plot()
    with pytest.raises(InvalidInput, match="give the result of a test"):
        NullDisplay.from_result(0.05)


def test_witness_on_a_line(rng, axes):
    x, y = rng.normal(size=50), rng.normal(1.0, size=60)
    shown = WitnessDisplay.from_samples(x, y, RBF(0.5), labels=("old", "new"), ax=axes)
    f = witness(x, y, RBF(0.5))
    drawn = shown.witness_.get_ydata()
    values = f(shown.witness_.get_xdata()[:, None])
    np.testing.assert_allclose(drawn / abs(drawn).max(), values / abs(values).max())
    assert texts(axes) == ["density of old", "density of new", "witness, rescaled"]


def test_witness_in_the_plane(rng, axes):
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["height", "weight"])
    shown = WitnessDisplay.from_samples(frame, frame + 1.0, resolution=20, ax=axes)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("height", "weight")
    assert shown.witness_.levels[0] == -shown.witness_.levels[-1]


def test_witness_refuses(rng):
    with pytest.raises(InvalidInput, match="one or two columns"):
        WitnessDisplay.from_samples(rng.normal(size=(9, 3)), rng.normal(size=(9, 3)))
    with pytest.raises(InvalidInput, match="Y holds no numbers"):
        WitnessDisplay.from_samples(rng.normal(size=3), ["a", "b"])


def test_projection(rng, axes):
    X = rng.normal(size=(30, 3))
    model = KernelPCA(3, RBF(1.0)).fit(X)
    labels = np.array(["a", "b"])[np.arange(30) % 2]
    shown = ProjectionDisplay.from_estimator(model, X, labels, components=(2, 0), ax=axes)
    Z = model.transform(X)[:, [2, 0]]
    np.testing.assert_allclose(shown.points_[0].get_offsets(), Z[::2])
    share = model.explained_variance_ratio_
    assert axes.get_xlabel() == f"component 3 ({share[2]:.0%})"
    assert texts(axes) == ["a", "b"]
    heights = ProjectionDisplay.from_estimator(model, X, X[:, 0], ax=axes).points_[0]
    np.testing.assert_array_equal(heights.get_array(), X[:, 0])


def test_projection_refuses(rng):
    X = rng.normal(size=(30, 3))
    with pytest.raises(InvalidInput, match="fit two or more"):
        ProjectionDisplay.from_estimator(PCA(1).fit(X), X)
    model = PCA(2).fit(X)
    with pytest.raises(InvalidInput, match="components=2"):
        ProjectionDisplay.from_estimator(model, X, components=(0, 2))
    with pytest.raises(InvalidInput, match="labels have shape"):
        ProjectionDisplay.from_estimator(model, X, labels=[1, 2])
    with pytest.raises(InvalidInput, match="30 different labels"):
        ProjectionDisplay.from_estimator(model, X, labels=[f"n{i}" for i in range(30)])


def test_clusters(rng, axes):
    X = np.concatenate([rng.normal(size=(20, 2)), rng.normal(9, 1, size=(30, 2))])
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = DPMeans(60.0).fit(frame)
    shown = ClustersDisplay.from_estimator(model, frame, resolution=15, ax=axes)
    sizes = [len(points.get_offsets()) for points in shown.points_]
    assert sizes == np.bincount(model.labels_).tolist() == [20, 30] or sizes == [30, 20]
    assert shown.regions_ is not None and shown.grid[2].shape == (15, 15)
    assert axes.get_xlabel() == "a" and texts(axes)[-1] == "centres"


def test_clusters_refuse(rng):
    X = rng.normal(size=(20, 2))
    with pytest.raises(InvalidInput, match="over two"):
        ClustersDisplay.from_estimator(DPMeans(1.0).fit(X[:, :1]), X[:, :1])
    with pytest.raises(InvalidInput, match="fitted to 20"):
        ClustersDisplay.from_estimator(DPMeans(1.0).fit(X), X[:5])
    with pytest.raises(InvalidInput, match="has no clusters"):
        ClustersDisplay.from_estimator(KernelRidge().fit(X, X[:, 0]), X)


def test_density(rng, axes):
    X = rng.normal(size=(40, 1))
    model = KernelDensity(0.5).fit(X)
    shown = DensityDisplay.from_estimator(model, X, resolution=30, ax=axes)
    x = shown.density_.get_xdata()
    assert x[0] <= X.min() - 1.5 and np.diff(x).max() <= 0.5 / 4 + 1e-9  # three and a quarter of h
    np.testing.assert_allclose(shown.density_.get_ydata(), np.exp(model.score_samples(x[:, None])))
    plane = rng.normal(size=(40, 2))
    shown = DensityDisplay.from_estimator(KernelDensity(0.5).fit(plane), plane, resolution=12)
    assert shown.values.shape == (12, 12)
    place = [[shown.grids[0][3], shown.grids[1][7]]]
    direct = np.exp(KernelDensity(0.5).fit(plane).score_samples(place))[0]
    assert shown.values[7, 3] == pytest.approx(direct)
    with pytest.raises(InvalidInput, match="is no density"):
        DensityDisplay.from_estimator(KernelRidge().fit(X, X[:, 0]), X)


def test_dependence(rng, axes):
    x = pd.Series(rng.uniform(-1, 1, 80), name="dose")
    y = x**2 + 0.05 * rng.normal(size=80)
    k, l = RBF(0.5), RBF(0.3)
    shown = DependenceDisplay.from_samples(x, y, k, l, n_permutations=99, resolution=10, ax=axes)
    result = hsic_test(x.to_numpy(), y.to_numpy(), k, l, n_permutations=99, rng=0)
    assert shown.pvalue == result.pvalue == 0.01
    assert axes.get_xlabel() == "dose" and "HSIC p = 0.01" in axes.get_title()
    # The definition, at one place of the grid.
    a, b = shown.grids[0][4], shown.grids[1][6]
    u, v = k([[a]], x.to_numpy()[:, None])[0], l([[b]], y.to_numpy()[:, None])[0]
    assert shown.values[6, 4] == pytest.approx((u * v).mean() - u.mean() * v.mean())
    with pytest.raises(InvalidInput, match="80 values and y has 3"):
        DependenceDisplay.from_samples(x, y[:3])


def test_missing_labels_are_drawn_grey(rng, axes):
    X = rng.normal(size=(12, 3))
    model = PCA(2).fit(X)
    for labels in (
        np.where(np.arange(12) < 4, np.nan, 1.0),
        np.array([None] * 4 + ["a", "b"] * 4, dtype=object),
    ):
        shown = ProjectionDisplay.from_estimator(model, X, labels, ax=axes)
        assert sum(len(p.get_offsets()) for p in shown.points_) == 12
        assert len(shown.points_[0].get_offsets()) == 4 and "no label" in texts(axes)


def test_frames_are_drawn_without_warnings(rng, axes, recwarn):
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["u", "v"])
    DensityDisplay.from_estimator(KernelDensity().fit(frame), frame, resolution=9, ax=axes)
    one = frame["u"]
    DensityDisplay.from_estimator(KernelDensity().fit(frame[["u"]].to_numpy()), one, ax=axes)
    assert axes.get_xlabel() == "u"
    assert not [w for w in recwarn if "feature names" in str(w.message)]


def test_many_entries_stand_beside_the_picture(rng, axes):
    X = rng.normal(size=(60, 3))
    ProjectionDisplay.from_estimator(PCA(2).fit(X), X, np.arange(60) % 10, ax=axes)
    assert axes.get_legend().get_bbox_to_anchor() is not None
    assert axes.get_legend()._loc_real == 6  # center left


def test_scores_that_are_no_densities_are_refused(rng):
    X = rng.normal(size=(20, 2))
    with pytest.raises(InvalidInput, match="is no density"):
        DensityDisplay.from_estimator(KernelPCA(2).fit(X), X)
