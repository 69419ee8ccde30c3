"""Pictures of shares and effects draw the numbers that they are given."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from mercer import RBF, KernelRidge, effects
from mercer.errors import InvalidInput
from mercer.plot import EffectsDisplay, ExplanationDisplay, PairsDisplay
from mercer.rkhs import Explanation

pytest.importorskip("matplotlib")


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.fixture(scope="module")
def told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    model = KernelRidge(RBF(1.5), fit_intercept=True).fit(X, X[:, 1] - 3 + X[:, 0] * X[:, 2])
    return model.explain(X, interactions=True)


def several(n=6):
    rng = np.random.default_rng(1)
    return Explanation(
        rng.normal(size=(n, 3, 2)),
        np.array([1.0, -2.0]),
        ("a", "b", "c"),
        rng.normal(size=(n, 3)),
        outputs=("yes", "no"),
    )


def names_of(ax):
    ax.figure.canvas.draw()  # also proves that it can be drawn
    return [label.get_text() for label in ax.get_yticklabels()]


def edges(bars):
    return [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]


def test_a_waterfall_leads_from_the_base_to_the_value(told, axes):
    shown = told.plot(row=7, ax=axes)
    assert isinstance(shown, ExplanationDisplay) and shown.ax_ is axes
    (bars,) = shown.bars_
    steps = edges(bars)
    assert steps[-1][0] == pytest.approx(told.base)
    assert steps[0][1] == pytest.approx(told.totals[7])
    for above, below in pairwise(steps):
        assert above[0] == pytest.approx(below[1])
    largest = told.columns[int(np.abs(told.values[7]).argmax())]
    assert names_of(axes)[0].startswith(f"{largest} = ")


def test_the_last_bar_of_a_waterfall_is_all_other_columns(told, axes):
    (bars,) = told.plot(row=0, max_columns=2, ax=axes).bars_
    order = np.argsort(-np.abs(told.values[0]))
    widths = [bar.get_width() for bar in bars]
    np.testing.assert_allclose(
        widths, [*told.values[0][order[:2]], told.values[0][order[2:]].sum()], rtol=1e-12
    )
    assert names_of(axes)[-1] == "3 other columns"


def test_bars_are_mean_sizes_with_their_standard_errors(told, axes):
    (bars,) = told.plot("bar", max_columns=4, ax=axes).bars_
    widths = np.array([bar.get_width() for bar in bars])
    np.testing.assert_allclose(widths, np.sort(told.importances)[::-1][:4])
    j = int(told.importances.argmax())
    error = np.abs(told.values[:, j]).std(ddof=1) / np.sqrt(len(told))
    low, high = bars.errorbar.lines[2][0].get_segments()[0][:, 0]
    assert (high - low) / 2 == pytest.approx(error)
    assert axes.get_xlabel() == "mean |share|; 4 of 5 columns"


def test_bars_of_several_outputs_are_stacked(axes):
    told = several()
    first, second = told.plot("bar", ax=axes).bars_
    ends = [edge[1] for edge in edges(second)]
    np.testing.assert_allclose(ends, np.sort(told.importances.sum(axis=1))[::-1])
    assert [edge[1] for edge in edges(first)] == [edge[0] for edge in edges(second)]
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["yes", "no"]


def test_a_swarm_has_a_dot_for_each_row_coloured_by_rank(axes):
    rng = np.random.default_rng(2)
    data = np.empty((30, 2), dtype=object)
    data[:, 0] = list(rng.normal(size=30))
    data[:, 1] = ["left", "right"] * 15
    data[4, 0] = None
    told = Explanation(rng.normal(size=(30, 2)) * [3.0, 1.0], 0.0, ("number", "kind"), data)
    shown = told.plot("beeswarm", ax=axes)
    grey, coloured, kinds = shown.points_
    assert [len(p.get_offsets()) for p in (grey, coloured, kinds)] == [1, 29, 30]
    np.testing.assert_array_equal(kinds.get_offsets()[:, 0], told.values[:, 1])
    known = np.delete(np.arange(30), 4)
    order = np.argsort(data[known, 0].astype(float))
    assert (np.diff(np.asarray(coloured.get_array())[order]) > 0).all()
    np.testing.assert_array_equal(coloured.get_offsets()[:, 0], told.values[known, 0])
    assert names_of(axes) == ["number", "kind"]
    assert np.abs(coloured.get_offsets()[:, 1]).max() < 0.5  # a row keeps to its place


@pytest.mark.parametrize("kind", ["waterfall", "bar", "beeswarm"])
def test_odd_explanations_can_be_drawn(kind, axes):
    for values, base, name in (
        ([[-2.5e-5]], -1e-4, "x$0"),
        ([[0.0]] * 3, 5.0, "a name that is far too long to be shown whole"),
    ):
        told = Explanation(np.array(values), base, (name,), np.ones((len(values), 1)))
        (label,) = names_of(told.plot(kind, ax=axes).ax_)
        assert len(label) < 40
        axes.clear()


def test_deviations_are_told_beside_the_bars(told, axes):
    from dataclasses import replace

    told = replace(told, std=np.full(told.values.shape, 0.25))
    told.plot(ax=axes, max_columns=2)
    (beside,) = axes.child_axes
    texts = [label.get_text() for label in beside.get_yticklabels()]
    assert [text.endswith("± 0.25") for text in texts] == [True, True, False]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda told: told.plot("pie"), "'waterfall', 'bar', 'beeswarm'"),
        (lambda told: told.plot(row=40), "0 to 39"),
        (lambda told: told.plot(max_columns=0), "max_columns"),
        (lambda told: told[[]].plot(), "no rows"),
        (lambda told: several().plot("beeswarm"), r"explanation\.output\('yes'\)"),
        (lambda told: ExplanationDisplay.from_explanation(3), "model.explain"),
        (lambda told: told.plot(bar_kwargs=3), "bar_kwargs"),
    ],
)
def test_what_cannot_be_drawn_is_refused(told, make, message):
    with pytest.raises(InvalidInput, match=message):
        make(told)


# ---- pairs ----


def shares(*told):
    return [SimpleNamespace(columns=names, adjusted=p) for names, p in told]


def texts(ax):
    return {t.get_position(): t.get_text() for t in ax.texts}


def test_pairs_of_a_test_have_stars(axes):
    told = SimpleNamespace(
        columns=("age", "dose", "site"),
        pairs=np.array([[0.01, -0.02, 0.0], [-0.02, 0.03, 0.05], [0.0, 0.05, 0.001]]),
        shares=shares((("age",), 0.04), (("dose", "age"), 0.0004), (("dose", "site"), 0.2)),
    )
    shown = PairsDisplay.from_explanation(told, ax=axes)
    np.testing.assert_array_equal(shown.image_.get_array(), told.pairs)
    assert names_of(axes) == ["age *", "dose", "site"]
    found = texts(axes)
    assert found[1, 0] == found[0, 1] == "−0.020\n***"
    assert found[1, 2] == "0.050" and found[0, 0] == "0.010"


def test_pairs_of_a_model_are_means_over_rows(told, axes):
    shown = PairsDisplay.from_explanation(told, max_columns=2, ax=axes)
    sizes = np.abs(told.interactions).mean(axis=0)
    drawn = np.sort(np.argsort(-sizes.max(axis=1))[:2])
    assert shown.drawn_ == [told.columns[j] for j in drawn]
    np.testing.assert_allclose(shown.image_.get_array(), sizes[np.ix_(drawn, drawn)])
    assert axes.get_title() == "2 of 5 columns"


def test_pairs_that_are_not_there_are_refused(told):
    from dataclasses import replace

    with pytest.raises(InvalidInput, match="interactions=True"):
        PairsDisplay.from_explanation(replace(told, interactions=None))
    with pytest.raises(InvalidInput, match="without pairs"):
        PairsDisplay.from_explanation(SimpleNamespace(columns=(), pairs=None))
    with pytest.raises(InvalidInput, match="output"):
        PairsDisplay.from_explanation(replace(told, interactions=np.zeros((2, 5, 5, 2))))


# ---- effects ----


def effect(columns, grid, values, std=None, share=None):
    return SimpleNamespace(columns=columns, grid=grid, values=values, std=std, share=share)


x = np.linspace(-1.0, 2.0, 7)
kinds = np.array(["a", None, "c"], dtype=object)


def test_a_curve_has_its_band(axes):
    one = effect(("dose",), (x,), x**2, 0.5 + 0 * x, 0.25)
    shown = EffectsDisplay.from_effects(one, ax=axes)
    assert shown.axes_ == [axes] and axes.get_title() == "25.0% of the variance"
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), x**2)
    ((vertices,),) = ([path.vertices for path in axes.collections[0].get_paths()],)
    assert vertices[:, 1].max() == pytest.approx(4 + 1.6448536 * 0.5)


def test_effects_of_a_model_draw_themselves(axes):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (30, 2))
    found = effects(KernelRidge(RBF(1.0)).fit(X, X[:, 0] ** 2), X, ["x0", ("x0", "x1")], grid=6)
    curve, surface = axes.figure.subplots(1, 2)
    shown = found.plot(ax=[curve, surface])
    assert isinstance(shown, EffectsDisplay) and shown.axes_ == [curve, surface]
    np.testing.assert_array_equal(curve.lines[0].get_ydata(), found["x0"].values)
    drawn = surface.collections[0].get_array()
    np.testing.assert_array_equal(drawn, found["x0", "x1"].values.T)
    assert curve.get_ylabel() == "mean of f"


def test_each_kind_of_effect_has_its_picture():
    told = [
        effect(("dose",), (x,), np.stack([x, -x], axis=1)),
        effect(("kind",), (kinds,), np.zeros((3, 2)), np.ones((3, 2))),
        effect(("dose", "age"), (x, x[:3]), np.zeros((7, 3, 2))),
        effect(("kind", "dose"), (kinds, x), np.zeros((3, 7, 2))),
        effect(("kind", "sort"), (kinds, kinds[:2]), np.zeros((3, 2, 2))),
        effect(("one",), (x[:1],), np.zeros((1, 2))),
    ]
    shown = EffectsDisplay.from_effects(told, output=1)
    assert len(shown.axes_) == 6
    shown.figure_.canvas.draw()
    np.testing.assert_array_equal(shown.axes_[0].lines[0].get_ydata(), -x)
    assert names_of(shown.axes_[1]) == ["a", "missing", "c"]
    assert len(shown.axes_[3].get_legend().get_texts()) == 3
    from matplotlib import pyplot

    pyplot.close(shown.figure_)


def test_lines_by_level_are_those_of_the_level(axes):
    values = np.arange(21.0).reshape(7, 3)
    EffectsDisplay.from_effects(effect(("dose", "kind"), (x, kinds), values), ax=axes)
    for j in range(3):
        np.testing.assert_array_equal(axes.lines[j].get_ydata(), values[:, j])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"output": 2}, "0 to 1"), ({"max_effects": 0}, "max_effects"), ({}, "axes")],
)
def test_effects_that_cannot_be_drawn_are_refused(options, message, axes):
    one = effect(("dose",), (x,), np.stack([x, -x], axis=1))
    with pytest.raises(InvalidInput, match=message):
        EffectsDisplay.from_effects([one, one], ax=axes if not options else None, **options)
    with pytest.raises(InvalidInput, match=r"mercer\.effects"):
        EffectsDisplay.from_effects([3])
    from matplotlib import pyplot

    pyplot.close("all")
