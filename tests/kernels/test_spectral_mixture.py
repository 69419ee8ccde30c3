"""SpectralMixture: waves that fade, and where a search for them begins."""

import numpy as np
import pytest

from mercer import RBF, GaussianProcessRegressor, RandomFourierFeatures, SpectralMixture
from mercer.errors import InvalidInput


def test_a_wave_of_no_frequency_is_an_rbf(rng):
    X = rng.standard_normal((9, 2))
    k = SpectralMixture([2.0], [1e-9], [[1 / (2 * np.pi * 0.7), 1 / (2 * np.pi * 1.4)]])
    np.testing.assert_allclose(k(X), 2.0 * RBF([0.7, 1.4])(X), atol=1e-12)


def test_a_component_after_another_is_a_sum(rng):
    X, Y = rng.standard_normal((7, 3)), rng.standard_normal((5, 3))
    w, f, s = rng.uniform(0.1, 1, 2), rng.uniform(0.1, 1, (2, 3)), rng.uniform(0.1, 1, (2, 3))
    parts = [SpectralMixture([w[q]], f[[q]], s[[q]])(X, Y) for q in range(2)]
    k = SpectralMixture(w, f, s)
    np.testing.assert_allclose(k(X, Y), parts[0] + parts[1], atol=1e-14)
    assert k.theta_names[2] == "frequencies[0]" and len(k.theta) == 14
    np.testing.assert_array_equal(k.frequencies, f.ravel())


def test_it_does_not_matter_how_far_out_points_are():
    k = SpectralMixture([1.0], [0.3], [0.05])
    X = np.arange(6.0)[:, None]
    np.testing.assert_allclose(k(X + 2.0**40), k(X), atol=1e-12)


def test_frequencies_are_drawn_from_its_spectrum(rng):
    k = SpectralMixture([0.7, 0.3], [[0.5, 0.1], [2.0, 1.0]], [0.1, 0.3])
    X = rng.standard_normal((40, 2))
    features = RandomFourierFeatures(k, 4000, random_state=0).fit(X)
    Phi = features.transform(X)
    assert np.abs(Phi @ Phi.T - k(X)).max() < 0.1


def test_starts_are_the_waves_in_the_data(rng):
    t = np.sort(rng.uniform(0, 100, 200))[:, None]
    y = 5 + 2 * np.sin(2 * np.pi * t[:, 0] / 11) + np.cos(2 * np.pi * t[:, 0] / 4.3)
    k = SpectralMixture.from_data(t, y, 2)
    np.testing.assert_allclose(1 / k.frequencies, [11, 4.3], rtol=0.03)
    np.testing.assert_allclose(k.weights, [0.8, 0.2], atol=0.05)
    assert k.diag(t)[0] == pytest.approx(1.0)
    model = GaussianProcessRegressor(k).fit(t[:150], y[:150])
    assert model.score(t[150:160], y[150:160]) > 0.9
    two = SpectralMixture.from_data(np.column_stack([t, rng.permutation(t)]), y, 2)
    assert two.frequencies.shape == (4,) and two.frequencies[0] == k.frequencies[0]


def test_starts_of_many_rows_and_few():
    t = np.arange(5000.0)[:, None]
    k = SpectralMixture.from_data(t, np.sin(2 * np.pi * t[:, 0] / 50), 1)
    assert 1 / k.frequencies[0] == pytest.approx(50, rel=0.02)
    assert SpectralMixture.from_data([[0.0], [1.0]], [0.0, 1.0], 1).weights.shape == (1,)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": []}, "weights"),
        ({"weights": [0.0]}, "weights"),
        ({"weights": "a"}, "weights"),
        ({"frequencies": [-1.0]}, "frequencies"),
        ({"frequencies": [np.inf]}, "frequencies"),
        ({"bandwidths": [np.nan]}, "bandwidths"),
        ({"bandwidths": None}, "bandwidths"),
        ({"weights": [1.0, 1.0], "frequencies": [1.0] * 3}, "3 frequencies for 2 weights"),
    ],
)
def test_parameters_are_positive_numbers(options, words):
    with pytest.raises(InvalidInput, match=f"SpectralMixture: {words}"):
        SpectralMixture(**options)


def test_other_columns_are_refused():
    k = SpectralMixture([1.0], [[1.0, 2.0]])
    for call in (k, k.diag):
        with pytest.raises(InvalidInput, match="frequencies are of 2 columns, and X has 3"):
            call(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[0.0], [1.0]], [1.0, 1.0], "constant"),
        ([[1.0], [1.0]], [0.0, 1.0], "constant"),
        ([[0.0], [1.0]], [1.0], "y has shape"),
        ([[0.0], [1.0]], ["a", "b"], "y has shape"),
        ([[0.0], [1.0]], [0.0, np.nan], "y has shape"),
    ],
)
def test_what_has_no_frequency(X, y, words):
    with pytest.raises(InvalidInput, match=f"SpectralMixture.*{words}"):
        SpectralMixture.from_data(X, y)
