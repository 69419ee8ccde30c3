"""The evidence of Gaussian process regression at its edges: few rows, no kernel, no memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import mercer
from mercer import RBF, Matern, Precomputed
from mercer.errors import MemoryBudgetExceeded, NotPositiveDefinite, speaking_for
from mercer.models.gp.regression.evidence import Evidence

N, D = 23, 3
rng = np.random.default_rng(11)
X = rng.standard_normal((N, D))
Z = np.c_[np.sin(X[:, 0]) + 0.1 * rng.standard_normal(N), X[:, 1] - 0.3 * X[:, 2] ** 2]
ARD = np.array([0.7, 1.9, 1.2])


def dense(K, Z, noise):
    """Return the evidence as the sum of the log densities of the outputs."""
    law = multivariate_normal(np.zeros(len(K)), K + noise * np.eye(len(K)))
    return sum(law.logpdf(z) for z in Z.T)


class TestDegenerate:
    def test_one_row(self):
        evidence = Evidence(np.array([[0.3]]), np.array([[1.2]]))
        kernel = 1.5 * RBF(0.7)
        value, slopes, noise_slope = evidence.value_and_gradient(kernel, 0.5)
        assert value == pytest.approx(-0.5 * (np.log(2 * np.pi * 2.0) + 1.44 / 2.0))
        pull = 0.5 * (1.44 / 4.0 - 1 / 2.0)
        np.testing.assert_allclose(slopes, [1.5 * pull, 0.0], atol=1e-15)
        assert noise_slope == pytest.approx(0.5 * pull)

    def test_duplicates_with_noise_need_no_jitter(self):
        twice = np.r_[X, X]
        fit = Evidence(twice, np.r_[Z, Z + 0.1]).posterior(1.7 * RBF(ARD), 0.1)
        assert fit.jitter == 0.0
        assert fit.residual < 1e-12

    def test_duplicates_without_noise_are_jittered_and_say_so(self):
        twice = np.r_[X, X]
        fit = Evidence(twice, np.r_[Z, Z]).posterior(RBF(2.0), 0.0)
        assert 0 < fit.jitter <= 1e-8
        assert np.isfinite(fit.log_evidence)
        np.testing.assert_allclose(RBF(2.0)(twice) @ fit.dual, np.r_[Z, Z], atol=1e-4)

    @pytest.mark.parametrize("unit", [1e-100, 1e-20, 1e20, 1e100])
    def test_units_of_the_target(self, unit):
        """Evidence in other units: kernel, noise and targets scale, the density by unit⁻ⁿ."""
        a = Evidence(X, Z).value_and_gradient(1.7 * RBF(ARD), 0.2)
        b = Evidence(X, Z * unit).value_and_gradient(1.7 * unit**2 * RBF(ARD), 0.2 * unit**2)
        assert b[0] + Z.size * np.log(unit) == pytest.approx(a[0], rel=1e-9)
        np.testing.assert_allclose(np.r_[a[1], a[2]], np.r_[b[1], b[2]], rtol=1e-7)

    def test_tiny_and_huge_length_scales(self):
        white = Evidence(X, Z).value(RBF(1e-8), 0.5)
        assert white == pytest.approx(dense(np.eye(N), Z, 0.5), abs=1e-9)
        flat = Evidence(X, Z).value(RBF(1e8), 0.5)
        assert flat == pytest.approx(dense(np.ones((N, N)), Z, 0.5), abs=1e-6)


class TestFailure:
    def test_indefinite_matrix_names_kernel_eigenvalue_and_noise(self):
        S = np.diag([1.0, 1.0, -0.5])
        with pytest.raises(NotPositiveDefinite) as caught:
            Evidence(S, np.ones((3, 1))).value(Precomputed(), 0.1)
        message = str(caught.value)
        assert "Precomputed()" in message
        assert "-0.4" in message
        assert "no noise makes it one" in message
        assert "alpha" not in message
        assert caught.value.smallest_eigenvalue == pytest.approx(-0.4)

    def test_singular_matrix_names_the_noise(self):
        K = np.ones((4, 4)) + 1e-6 * (1 - np.eye(4))
        with pytest.raises(NotPositiveDefinite, match="noise"):
            Evidence(K, np.ones((4, 1))).value_and_gradient(Precomputed(), 0.0)

    def test_indefinite_behind_the_noise_has_no_posterior(self):
        K = np.diag([1.0, 1.0, -0.5])
        evidence = Evidence(K, np.ones((3, 1)))
        with pytest.raises(NotPositiveDefinite, match=r"eigenvalue of -0\.5") as caught:
            evidence.posterior(Precomputed(), 2.0)
        assert "Precomputed()" in str(caught.value)

    def test_failure_leaves_the_next_evaluation_right(self):
        evidence = Evidence(X, Z)
        with pytest.raises(NotPositiveDefinite):
            Evidence(np.diag([1.0, -1.0]), np.ones((2, 1))).value(Precomputed(), 0.0)
        kernel = RBF(1.3)
        assert evidence.value(kernel, 0.2) == pytest.approx(dense(kernel(X), Z, 0.2), abs=1e-10)

    def test_budget(self):
        with (
            mercer.config(memory=10_000),
            pytest.raises(MemoryBudgetExceeded, match=r"Who: .*Spar"),
            speaking_for("Who"),
        ):
            Evidence(rng.standard_normal((500, 2)), np.ones((500, 1))).value(RBF(), 0.1)


class TestMemory:
    @pytest.mark.parametrize("weights", [False, True])
    def test_one_matrix(self, weights):
        """Evaluations and the posterior take one n×n array, tiles aside."""
        n = 1500
        r = np.random.default_rng(0)
        points, z = r.standard_normal((n, 4)), r.standard_normal((n, 1))
        w = r.uniform(0.5, 2.0, n) if weights else None
        kernel = 1.5 * RBF(np.full(4, 1.3)) + 0.1 * Matern(1.0, nu=2.5)
        with mercer.config(threads=2):
            Evidence(points[:50], z[:50]).value_and_gradient(kernel, 0.1)
            tracemalloc.start()
            evidence = Evidence(points, z, w, np.ones((n, 1)))
            for noise in (0.1, 0.2):
                evidence.value_and_gradient(kernel, noise)
            evidence.posterior(kernel, 0.1)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 2.2 * n * n * 8
