"""Global alignment of series: brute force, bands, logarithms, slopes, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mercer
from mercer.errors import InvalidInput
from mercer.kernels import GlobalAlignment
from mercer.testing.examples import strings as examples

RNG = np.random.default_rng(7)


def walks(lengths, width=1, step=1.0):
    return [step * RNG.standard_normal((n, width)).cumsum(0) for n in lengths]


@pytest.mark.parametrize("triangular", [0, 1, 2, 4])
def test_is_the_sum_over_all_alignments(triangular):
    X = walks([1, 2, 3, 4, 5], 2)
    k = GlobalAlignment(1.3, triangular)
    expected = [[examples.align_globally(k, x, y, listed=True) for y in X] for x in X]
    np.testing.assert_allclose(k(X), expected, rtol=1e-12)


@pytest.mark.parametrize("triangular", [0, 3, 40])
def test_is_its_table_for_longer_series(triangular):
    X = walks([1, 7, 20, 33, 0], 3, 0.3)
    k = GlobalAlignment(2.0, triangular)
    expected = [[examples.align_globally(k, x, y) for y in X] for x in X]
    np.testing.assert_allclose(k(X), expected, rtol=1e-11)


def log_reference(x, y, scale):
    """log k by a table of logarithms, in plain Python."""
    table = np.full((len(x) + 1, len(y) + 1), -np.inf)
    table[0, 0] = 0.0
    for i in range(len(x)):
        for j in range(len(y)):
            v = float(((x[i] - y[j]) ** 2).sum()) / (2 * scale**2)
            three = np.array([table[i, j], table[i, j + 1], table[i + 1, j]])
            top = three.max()
            total = top + math.log(np.exp(three - top).sum())
            table[i + 1, j + 1] = total - v - math.log(2 - math.exp(-v))
    return table[-1, -1]


@pytest.mark.parametrize(
    ("lengths", "scale"), [([150, 110], 5.0), ([505, 3], 400.0), ([30, 35], 0.02), ([3, 2], 1e-3)]
)
def test_values_beyond_floats_are_right_in_logarithms(lengths, scale):
    X = walks(lengths)
    k = GlobalAlignment(scale)
    bound = k._bind(k.domain.check(X))
    logs = bound.log_tile(slice(0, 2), slice(0, 2))
    expected = [[log_reference(x, y, scale) for y in X] for x in X]
    np.testing.assert_allclose(logs, expected, rtol=1e-12, atol=1e-12)
    K = k.normalized()(X)
    np.testing.assert_allclose(K[0, 1], np.exp(logs[0, 1] - (logs[0, 0] + logs[1, 1]) / 2), 1e-10)


def test_overflow_names_the_cure():
    X = walks([600, 600])
    k = GlobalAlignment(50.0)
    for compute in (k, k.diag):
        with pytest.raises(InvalidInput, match=r"normalized\(\)"):
            compute(X)
    K = k.normalized()(X)
    assert np.isfinite(K).all() and (K.diagonal() == 1).all() and 0 < K[0, 1] <= 1


def test_long_pairs_come_in_several_calls(monkeypatch):
    from mercer.kernels.strings import alignment

    X = walks([40, 50])
    k = GlobalAlignment(1.0)
    whole, slopes = k(X), k.theta_vjp(X, np.ones((2, 2)))
    monkeypatch.setattr(alignment, "LONG", 160)
    one = k.domain.check(X)
    logs, slope = k._computed(one, np.array([0]), one, np.array([1]), sloped=True)
    np.testing.assert_allclose(np.exp(logs), whole[0, 1], rtol=1e-12)
    np.testing.assert_allclose(k.theta_vjp(X, np.ones((2, 2))), slopes, rtol=1e-12)
    np.testing.assert_allclose(slope, k._slopes(one, np.array([1]), one, np.array([0]))[0], 1e-11)


def test_bands_cut_off_series_of_other_lengths():
    X = [[0.0] * 5, [0.0] * 7, [0.0] * 8]
    K = GlobalAlignment(1.0, triangular=3)(X)
    assert K[0, 1] > 0 and K[0, 2] == 0 and K[1, 2] > 0
    N = GlobalAlignment(1.0, triangular=3).normalized()(X)
    assert N[0, 2] == 0 and (N.diagonal() == 1).all()


def test_empty_series_are_alone():
    K = GlobalAlignment(1.0).normalized()([[], [1.0], []])
    np.testing.assert_allclose(K, [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("triangular", [0, 4])
def test_slopes_are_those_of_differences(triangular, normalized):
    X, Y = walks([3, 8, 0, 5], 2), walks([6, 4], 2)
    k = GlobalAlignment(1.7, triangular)
    k = k.normalized() if normalized else k
    W = RNG.standard_normal((4, 2))
    h = 1e-5
    up, down = (float((W * k.with_theta(k.theta + s)(X, Y)).sum()) for s in (h, -h))
    np.testing.assert_allclose(k.theta_vjp(X, W, Y), (up - down) / (2 * h), rtol=1e-7, atol=1e-9)


def test_slopes_of_long_series_normalised():
    (x,) = walks([420])
    X = [x[:n] + 0.1 * RNG.standard_normal((n, 1)) for n in (400, 417, 420)]
    k = GlobalAlignment(8.0).normalized()
    assert k(X)[0, 1] > 1e-3
    W = RNG.standard_normal((3, 3))
    W += W.T
    h = 1e-5
    up, down = (float((W * k.with_theta(k.theta + s)(X)).sum()) for s in (h, -h))
    np.testing.assert_allclose(k.theta_vjp(X, W), (up - down) / (2 * h), rtol=1e-5)


def test_median_scale_follows_the_points_and_weights():
    X = [[0.0, 1.0], [3.0, 3.0], [0.0, 0.0, 0.0, 0.0]]
    k = GlobalAlignment()
    assert k.fit_params(X).length_scale == pytest.approx(3.0 * math.sqrt(2))
    w = np.array([2.0, 1.0, 1.0])
    twice = k.fit_params([X[0], *X]).length_scale
    assert k.fit_params(X, w).length_scale == pytest.approx(twice)
    assert k.fit_params([[1.0, 1.0]]).length_scale == pytest.approx(math.sqrt(2))
    assert GlobalAlignment().fit_params([[], []]).length_scale == 1.0
    scaled = k.fit_params([[100 * v for v in x] for x in X])
    assert scaled.length_scale == pytest.approx(100 * k.fit_params(X).length_scale)


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e8, 1e300])
def test_extreme_scales_stay_finite(scale):
    X = walks([4, 5, 6])
    K = GlobalAlignment(scale).normalized()(X)
    assert np.isfinite(K).all() and (K >= 0).all() and (K <= 1 + 1e-12).all()
    g = GlobalAlignment(scale).normalized().theta_vjp(X, np.ones((3, 3)))
    assert np.isfinite(g).all()


def test_long_series_give_a_positive_semidefinite_matrix():
    X = walks(RNG.integers(100, 200, 12), 2)
    K = GlobalAlignment().normalized()([*X, *X[:3]])
    values = np.linalg.eigvalsh(K)
    assert values[0] > -1e-11 * values[-1]


@pytest.mark.parametrize(
    "params",
    [
        {"length_scale": 0.0},
        {"length_scale": -1.0},
        {"length_scale": "scale"},
        {"length_scale": [1.0, 2.0]},
        {"length_scale": float("nan")},
        {"triangular": -1},
        {"triangular": 1.5},
        {"triangular": True},
    ],
)
def test_bad_parameters_are_refused(params):
    with pytest.raises(InvalidInput, match="GlobalAlignment"):
        GlobalAlignment(**params)


def test_models_learn_from_series_and_are_saved(tmp_path):
    t = np.linspace(0, 6, 25)
    X = [np.sin(f * t[: RNG.integers(18, 25)]) for f in RNG.uniform(0.8, 1.2, 12)]
    X += [np.sin(f * t[: RNG.integers(18, 25)]) for f in RNG.uniform(2.2, 2.6, 12)]
    y = np.repeat([0, 1], 12)
    model = mercer.SVC(GlobalAlignment().normalized()).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    mercer.save(model, tmp_path / "series.mercer")
    again = mercer.load(tmp_path / "series.mercer")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("triangular", [3, 12, 60])
def test_long_pairs_with_a_band_come_in_several_calls(monkeypatch, triangular):
    from mercer import jit
    from mercer.kernels.strings import alignment

    X = GlobalAlignment.domain.check(walks([40, 50, 41]))
    k = GlobalAlignment(1.0, triangular)
    expected = [[k._computed(X, *pair(i, X, j), sloped=True) for i in range(3)] for j in range(3)]
    monkeypatch.setattr(alignment, "LONG", 160)
    rows = []
    advance = jit.global_advance

    def counted(x, y, first, stop, *rest):
        rows.append((stop - first) * min(2 * triangular - 1, len(y)))
        advance(x, y, first, stop, *rest)

    monkeypatch.setattr(jit, "global_advance", counted)
    for i in range(3):
        for j in range(3):
            for got, want in zip(
                k._computed(X, *pair(i, X, j), sloped=True), expected[j][i], strict=True
            ):
                np.testing.assert_allclose(got, want, rtol=1e-11)
    assert len(rows) > 9 and max(rows) <= 160


def pair(i, X, j):
    return np.array([i]), X, np.array([j])


def test_the_work_of_a_band_is_counted():
    from mercer.kernels.strings.paired import _calls

    X = GlobalAlignment.domain.check([np.zeros(20_000), np.zeros(20_000)])
    pairs = np.array([0, 0, 1]), X, np.array([0, 1, 1])
    narrow, wide = GlobalAlignment(1.0, 5), GlobalAlignment(1.0)
    assert len(list(_calls(narrow, X, *pairs))) == 1 and len(list(_calls(wide, X, *pairs))) == 3
    X = GlobalAlignment.domain.check([np.zeros(500)] * 3)
    assert narrow._bind(X).tile_entries > wide._bind(X).tile_entries
