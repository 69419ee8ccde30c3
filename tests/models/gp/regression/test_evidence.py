"""The evidence of Gaussian process regression against dense formulas, peers and differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor as SklearnGPR, kernels as sk

import mercer
from mercer import (
    RBF,
    Constant,
    FromFunction,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    White,
)
from mercer.errors import InvalidInput, speaking_for
from mercer.models.gp.regression.evidence import Evidence

N, D = 23, 3
rng = np.random.default_rng(11)
X = rng.standard_normal((N, D))
Z = np.c_[np.sin(X[:, 0]) + 0.1 * rng.standard_normal(N), X[:, 1] - 0.3 * X[:, 2] ** 2]
WEIGHTS = rng.uniform(0.3, 3.0, N)
BASIS = np.c_[np.ones(N), X]
ARD = np.array([0.7, 1.9, 1.2])
KERNELS = {
    "rbf": RBF(1.3),
    "ard": RBF(ARD),
    "scaled ard": 1.7 * RBF(ARD),
    "ard scaled": RBF(ARD) * 0.6,
    "constants": Constant(2.0) * Constant(3.0),
    "matern12": 0.8 * Matern(ARD, nu=0.5),
    "matern32": Matern(1.1, nu=1.5),
    "matern52": 1.4 * Matern(ARD, nu=2.5),
    "rational quadratic": 2.0 * RationalQuadratic(1.2, alpha=0.7),
    "rational quadratic ard": RationalQuadratic(ARD, alpha=1.4),
    "periodic": 1.3 * Periodic(period=2.0, length_scale=0.9).on([0]),
    "polynomial": Polynomial(2, 0.5),
    "linear": 0.5 * Linear() + 0.2,
    "white": 1.1 * RBF(ARD) + White(0.2),
    "composed": 1.2 * (RBF(ARD) * Matern(1.5, nu=2.5)) + 0.3 * RationalQuadratic(1.1) + 0.4,
    "scaled sum": 2.0 * (RBF(ARD) + 0.5 * Linear()),
    "power": (0.5 * RBF(ARD)) ** 2,
    "exp": (0.2 * RBF(ARD)).exp(),
    "normalized": (1.3 * RBF(ARD) + 0.5 * Linear()).normalized(),
    "columns": 1.5 * RBF(np.array([0.8, 1.4])).on([0, 2]) + 0.7 * Matern(1.0).on([1]),
}
NOISES = {"number": 0.21, "vector": rng.uniform(0.05, 0.6, N)}


def dense(K, Z, noise, weights=None, basis=None):
    """Return the evidence by determinants and inverses, R&W eq. 2.30 and 2.45."""
    n, w = len(K), np.ones(len(K)) if weights is None else weights
    v = np.broadcast_to(noise, (n,))
    C = K + np.diag(v / w)
    inverse, logdet = np.linalg.inv(C), np.linalg.slogdet(C)[1]
    q = 0
    Q = inverse
    if basis is not None:
        q = basis.shape[1]
        A = basis.T @ inverse @ basis
        Q = inverse - inverse @ basis @ np.linalg.inv(A) @ basis.T @ inverse
        logdet += np.linalg.slogdet(A)[1]
    repeats = ((w - 1) / 2 * np.log(2 * np.pi * v) + 0.5 * np.log(w)).sum()
    return sum(
        -0.5 * ((n - q) * np.log(2 * np.pi) + logdet + z @ Q @ z) - repeats for z in np.array(Z).T
    )


def differences(evidence, kernel, noise, step=1e-5):
    """Return central differences in the kernel's log-parameters and in a factor of the noise."""
    theta = kernel.theta
    slopes = []
    for i in range(len(theta)):
        e = np.zeros(len(theta))
        e[i] = step
        up = evidence.value(kernel.with_theta(theta + e), noise)
        down = evidence.value(kernel.with_theta(theta - e), noise)
        slopes.append((up - down) / (2 * step))
    up = evidence.value(kernel, noise * np.exp(step))
    down = evidence.value(kernel, noise * np.exp(-step))
    return np.array(slopes), (up - down) / (2 * step)


class TestValue:
    @pytest.mark.parametrize("noise", NOISES)
    @pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
    @pytest.mark.parametrize("basis", [None, BASIS], ids=["zero", "linear"])
    @pytest.mark.parametrize("name", ["scaled ard", "composed", "polynomial", "white"])
    def test_dense_formula(self, name, basis, weights, noise):
        kernel, noise = KERNELS[name], NOISES[noise]
        evidence = Evidence(X, Z, weights, basis)
        expected = dense(kernel(X), Z, noise, weights, basis)
        assert evidence.value(kernel, noise) == pytest.approx(expected, abs=1e-10)
        assert evidence.value_and_gradient(kernel, noise)[0] == evidence.value(kernel, noise)
        assert evidence.posterior(kernel, noise).log_evidence == evidence.value(kernel, noise)

    def test_normal_density(self):
        kernel = KERNELS["scaled ard"]
        C = kernel(X) + 0.3 * np.eye(N)
        expected = multivariate_normal(np.zeros(N), C).logpdf(Z[:, 0])
        assert Evidence(X, Z[:, :1]).value(kernel, 0.3) == pytest.approx(expected, abs=1e-10)

    def test_outputs_add(self):
        kernel = KERNELS["composed"]
        for weights, basis in ((None, None), (WEIGHTS, BASIS)):
            both = Evidence(X, Z, weights, basis).value_and_gradient(kernel, 0.2)
            one, two = (
                Evidence(X, Z[:, [j]], weights, basis).value_and_gradient(kernel, 0.2)
                for j in (0, 1)
            )
            for a, b, c in zip(both, one, two, strict=True):
                np.testing.assert_allclose(a, b + c, rtol=1e-10, atol=1e-10)

    def test_one_dimensional_targets(self):
        kernel = KERNELS["rbf"]
        flat, column = Evidence(X, Z[:, 0]), Evidence(X, Z[:, :1])
        assert flat.value(kernel, 0.1) == column.value(kernel, 0.1)

    def test_chain_rule_of_probability(self):
        """The evidence is the product of one-step predictive densities (R&W section 5.4.2)."""
        kernel, noise = KERNELS["matern52"], 0.17
        K, z = kernel(X), Z[:, 0]
        total = 0.0
        for i in range(N):
            C = K[:i, :i] + noise * np.eye(i)
            k = K[:i, i]
            solved = np.linalg.solve(C, np.c_[z[:i], k]) if i else np.zeros((0, 2))
            mean, variance = k @ solved[:, 0], K[i, i] + noise - k @ solved[:, 1]
            total -= 0.5 * (np.log(2 * np.pi * variance) + (z[i] - mean) ** 2 / variance)
        assert Evidence(X, z).value(kernel, noise) == pytest.approx(total, abs=1e-10)


class TestGradient:
    @pytest.mark.parametrize("name", KERNELS)
    def test_differences(self, name):
        kernel = KERNELS[name]
        evidence = Evidence(X, Z, WEIGHTS, BASIS)
        _, slopes, noise_slope = evidence.value_and_gradient(kernel, 0.21)
        expected, expected_noise = differences(evidence, kernel, 0.21)
        assert slopes.shape == kernel.theta.shape
        np.testing.assert_allclose(slopes, expected, rtol=2e-6, atol=2e-7)
        assert noise_slope == pytest.approx(expected_noise, rel=2e-6, abs=2e-7)

    @pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
    def test_vector_noise_moves_by_a_common_factor(self, weights):
        kernel, noise = KERNELS["scaled ard"], NOISES["vector"]
        evidence = Evidence(X, Z, weights)
        _, slopes, noise_slope = evidence.value_and_gradient(kernel, noise)
        expected, expected_noise = differences(evidence, kernel, noise)
        np.testing.assert_allclose(slopes, expected, rtol=2e-6, atol=2e-7)
        assert noise_slope == pytest.approx(expected_noise, rel=2e-6)

    def test_many_tiles(self):
        """At n = 900 there are several bands, threads, and tiles on and off the diagonal."""
        r = np.random.default_rng(5)
        points = r.standard_normal((900, 2))
        z = np.c_[np.sin(points[:, 0]), points[:, 1] ** 2] + 0.1 * r.standard_normal((900, 2))
        basis = np.ones((900, 1))
        kernel = 1.3 * RBF(np.array([0.9, 1.6])) + 0.2 * Matern(1.1, nu=2.5)
        for weights in (None, r.uniform(0.5, 2.0, 900)):
            evidence = Evidence(points, z, weights, basis)
            value, slopes, noise_slope = evidence.value_and_gradient(kernel, 0.05)
            assert value == pytest.approx(dense(kernel(points), z, 0.05, weights, basis), rel=1e-9)
            expected, expected_noise = differences(evidence, kernel, 0.05, 1e-4)
            np.testing.assert_allclose(slopes, expected, rtol=1e-5)
            assert noise_slope == pytest.approx(expected_noise, rel=1e-5)

    def test_threads_do_not_change_the_answer(self):
        r = np.random.default_rng(6)
        points = r.standard_normal((1000, 2))
        z = np.sin(points[:, :1])
        kernel = 1.3 * RBF(np.array([0.9, 1.6]))
        answers = []
        for threads in (1, 2):
            with mercer.config(threads=threads):
                answers.append(Evidence(points, z).value_and_gradient(kernel, 0.1))
        for a, b in zip(*answers, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)

    def test_nothing_to_tune(self):
        K = KERNELS["ard"](X)
        value, slopes, noise_slope = Evidence(K, Z).value_and_gradient(Precomputed(), 0.2)
        reference = Evidence(X, Z).value_and_gradient(KERNELS["ard"], 0.2)
        assert slopes.shape == (0,)
        assert (value, noise_slope) == pytest.approx((reference[0], reference[2]))

    def test_precomputed_matrix_is_not_changed(self):
        K = KERNELS["ard"](X)
        kept = K.copy()
        evidence = Evidence(K, Z)
        for kernel in (Precomputed(), 2.0 * Precomputed()):
            evidence.value_and_gradient(kernel, 0.2)
            evidence.posterior(kernel, 0.2)
            np.testing.assert_array_equal(K, kept)

    def test_scaled_precomputed(self):
        K = KERNELS["ard"](X)
        evidence = Evidence(K, Z)
        kernel = 2.0 * Precomputed()
        _, slopes, _ = evidence.value_and_gradient(kernel, 0.2)
        np.testing.assert_allclose(slopes, differences(evidence, kernel, 0.2)[0], rtol=1e-6)

    def test_zero_constant_is_no_parameter(self):
        kernel = 0.0 * RBF(ARD) + RBF(1.0)
        _, slopes, _ = Evidence(X, Z).value_and_gradient(kernel, 0.2)
        assert slopes.shape == kernel.theta.shape
        np.testing.assert_allclose(slopes[:-1], 0.0)

    def test_strings(self):
        words = ["kernel", "kernels", "colonel", "process", "recess", "prowess", "gauss", "guess"]

        def shared(a, b):
            return float(len(set(a) & set(b)))

        kernel = 0.3 * FromFunction(shared)
        points = kernel.domain.check(words)
        z = np.arange(8.0)[:, None] - 3.5
        evidence = Evidence(points, z)
        value, slopes, noise_slope = evidence.value_and_gradient(kernel, 0.4)
        K = 0.3 * np.array([[shared(a, b) for b in words] for a in words])
        assert value == pytest.approx(dense(K, z, 0.4), abs=1e-10)
        expected, expected_noise = differences(evidence, kernel, 0.4)
        np.testing.assert_allclose(slopes, expected, rtol=1e-6)
        assert noise_slope == pytest.approx(expected_noise, rel=1e-6)

    def test_torch_engine(self, torch):
        kernel = KERNELS["composed"]
        plain = Evidence(X, Z, WEIGHTS, BASIS).value_and_gradient(kernel, 0.2)
        with mercer.config(engine="torch"):
            there = Evidence(X, Z, WEIGHTS, BASIS).value_and_gradient(kernel, 0.2)
        for a, b in zip(plain, there, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


class TestScikitLearn:
    @pytest.mark.parametrize(
        ("ours", "theirs"),
        [
            (1.7 * RBF(ARD), sk.ConstantKernel(1.7) * sk.RBF(ARD)),
            (RBF(0.8), sk.RBF(0.8)),
            (1.4 * Matern(ARD, nu=2.5), sk.ConstantKernel(1.4) * sk.Matern(ARD, nu=2.5)),
            (0.6 * Matern(1.3, nu=1.5), sk.ConstantKernel(0.6) * sk.Matern(1.3, nu=1.5)),
            (0.9 * Matern(1.3, nu=0.5), sk.ConstantKernel(0.9) * sk.Matern(1.3, nu=0.5)),
            (
                2.0 * RationalQuadratic(1.2, alpha=0.7),
                sk.ConstantKernel(2.0) * sk.RationalQuadratic(1.2, 0.7),
            ),
            (1.6 * RBF(ARD) + 0.4, sk.ConstantKernel(1.6) * sk.RBF(ARD) + sk.ConstantKernel(0.4)),
        ],
        ids=repr,
    )
    def test_value_and_gradient(self, ours, theirs):
        theirs = theirs + sk.WhiteKernel(0.13)
        peer = SklearnGPR(theirs, alpha=0.0, optimizer=None).fit(X, Z[:, 0])
        value, slopes = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)
        our_value, our_slopes, our_noise = Evidence(X, Z[:, 0]).value_and_gradient(ours, 0.13)
        assert our_value == pytest.approx(value, abs=1e-8)
        order = _order(ours, peer.kernel_)
        np.testing.assert_allclose(np.r_[our_slopes, our_noise], slopes[order], atol=1e-8)


def _order(ours, theirs):
    """Return where our log-parameters stand in scikit-learn's, which sorts names in a kernel."""
    mine = np.exp(np.r_[ours.theta, np.log(0.13)])
    values = np.exp(theirs.theta)
    return [int(np.argmin(np.abs(values - value))) for value in mine]


class TestWeights:
    @pytest.mark.parametrize("basis", [None, BASIS], ids=["zero", "linear"])
    @pytest.mark.parametrize("noise", NOISES)
    def test_repetition(self, noise, basis):
        counts = np.random.default_rng(2).integers(1, 4, N)
        rows = np.repeat(np.arange(N), counts)
        noise = NOISES[noise]
        repeated_noise = noise if np.ndim(noise) == 0 else noise[rows]
        kernel = KERNELS["scaled ard"]
        weighted = Evidence(X, Z, counts.astype(float), basis)
        repeated = Evidence(X[rows], Z[rows], None, None if basis is None else basis[rows])
        for a, b in zip(
            weighted.value_and_gradient(kernel, noise),
            repeated.value_and_gradient(kernel, repeated_noise),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        a, b = weighted.posterior(kernel, noise), repeated.posterior(kernel, repeated_noise)
        np.testing.assert_allclose(a.beta, b.beta, rtol=1e-9, atol=1e-9)
        first = np.r_[0, np.cumsum(counts)[:-1]]
        np.testing.assert_allclose(a.dual, b.dual[first] * counts[:, None], rtol=1e-8, atol=1e-9)

    def test_ones_are_no_weights(self):
        kernel = KERNELS["scaled ard"]
        a = Evidence(X, Z, np.ones(N)).value_and_gradient(kernel, 0.2)
        b = Evidence(X, Z).value_and_gradient(kernel, 0.2)
        for one, two in zip(a, b, strict=True):  # to the bit but with NumPy 1.26
            np.testing.assert_allclose(one, two, rtol=1e-14, atol=1e-14)

    def test_without_noise_weights_count_for_nothing(self):
        kernel = Matern(1.0, nu=0.5)
        a = Evidence(X, Z, WEIGHTS).value_and_gradient(kernel, 0.0)
        b = Evidence(X, Z).value_and_gradient(kernel, 0.0)
        for one, two in zip(a, b, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
        assert a[2] == 0.0


class TestBasis:
    @pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
    def test_limit_of_a_wide_prior(self, weights):
        """β ~ N(0, b·I): p(z)·√|2πb·I| tends to the evidence under the flat prior β ∝ 1."""
        kernel, noise, width = KERNELS["scaled ard"], 0.2, 1e5
        q = BASIS.shape[1]
        wide = dense(kernel(X) + width * BASIS @ BASIS.T, Z, noise, weights)
        expected = wide + Z.shape[1] * 0.5 * q * np.log(2 * np.pi * width)
        ours = Evidence(X, Z, weights, BASIS).value(kernel, noise)
        assert ours == pytest.approx(expected, abs=2e-3)

    def test_span_of_the_basis_costs_nothing(self):
        kernel = KERNELS["scaled ard"]
        shift = BASIS @ rng.standard_normal((BASIS.shape[1], 2))
        a = Evidence(X, Z, WEIGHTS, BASIS)
        b = Evidence(X, Z + 10 * shift, WEIGHTS, BASIS)
        for one, two in zip(
            a.value_and_gradient(kernel, 0.2), b.value_and_gradient(kernel, 0.2), strict=True
        ):
            np.testing.assert_allclose(one, two, rtol=1e-8)

    def test_coefficients(self):
        kernel, noise = KERNELS["matern52"], NOISES["vector"]
        fit = Evidence(X, Z, WEIGHTS, BASIS).posterior(kernel, noise)
        C = kernel(X) + np.diag(noise / WEIGHTS)
        inverse = np.linalg.inv(C)
        A = BASIS.T @ inverse @ BASIS
        beta = np.linalg.solve(A, BASIS.T @ inverse @ Z)
        np.testing.assert_allclose(fit.beta, beta, atol=1e-10)
        np.testing.assert_allclose(fit.dual, inverse @ (Z - BASIS @ beta), atol=1e-10)
        np.testing.assert_allclose(fit.basis_solve, inverse @ BASIS, atol=1e-10)
        np.testing.assert_allclose(fit.basis_factor.solve(np.eye(4)), np.linalg.inv(A), atol=1e-9)
        np.testing.assert_allclose(fit.factor.solve(Z), inverse @ Z, atol=1e-10)
        assert fit.residual < 1e-13

    def test_as_many_columns_as_rows(self):
        evidence = Evidence(X[:2], Z[:2], None, np.array([[1.0, 0.5], [1.0, -2.0]]))
        value, slopes, noise_slope = evidence.value_and_gradient(KERNELS["scaled ard"], 0.2)
        assert value == pytest.approx(-2 * np.log(2.5), abs=1e-12)
        np.testing.assert_allclose(slopes, 0.0, atol=1e-12)
        assert noise_slope == pytest.approx(0.0, abs=1e-12)

    def test_dependent_columns_are_refused(self):
        H = np.c_[np.ones(N), X[:, 0], 2 * X[:, 0]]
        with (
            pytest.raises(InvalidInput, match=r"Who: the 3 columns .* dependent"),
            speaking_for("Who"),
        ):
            Evidence(X, Z, None, H).value(KERNELS["rbf"], 0.2)


class TestPosterior:
    def test_factor_is_the_callers_own(self):
        kernel = KERNELS["scaled ard"]
        evidence = Evidence(X, Z)
        fit = evidence.posterior(kernel, 0.2)
        before = fit.factor.solve(Z)
        evidence.value_and_gradient(KERNELS["matern32"], 0.5)
        np.testing.assert_array_equal(fit.factor.solve(Z), before)

    def test_evaluations_do_not_disturb_one_another(self):
        evidence = Evidence(X, Z, WEIGHTS, BASIS)
        first = evidence.value_and_gradient(KERNELS["composed"], 0.2)
        for name in ("rbf", "white", "polynomial"):
            evidence.value_and_gradient(KERNELS[name], 0.01)
        again = evidence.value_and_gradient(KERNELS["composed"], 0.2)
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_inputs_are_not_changed(self):
        arrays = [X.copy(), Z.copy(), WEIGHTS.copy(), BASIS.copy(), NOISES["vector"].copy()]
        for a in arrays:
            a.flags.writeable = False
        evidence = Evidence(*arrays[:4])
        evidence.value_and_gradient(KERNELS["scaled ard"], arrays[4])
        evidence.posterior(KERNELS["scaled ard"], arrays[4])
        np.testing.assert_array_equal(arrays[0], X)

    def test_zero_targets(self):
        fit = Evidence(X, np.zeros((N, 1))).posterior(KERNELS["rbf"], 0.1)
        assert fit.residual == 0.0
        np.testing.assert_array_equal(fit.dual, 0.0)
