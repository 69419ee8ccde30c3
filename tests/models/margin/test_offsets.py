"""Where an interval of offsets, levels or tubes is optimal, all machines take its middle."""

import numpy as np
import pytest

from mercer import RBF, SVC, SVR, KernelERM, NuSVC, NuSVR, OneClassSVM


def middle(kinks, value):
    """Return middle and length of the interval on which a function with these kinks is least."""
    kinks = np.unique(kinks)
    values = np.array([value(k) for k in kinks])
    best = kinks[values <= values.min() + 1e-9 * (1 + np.abs(values).max())]
    return 0.5 * (best.min() + best.max()), np.ptp(best)


def line(n, seed):
    """Return points on a line, in two classes of the same size that overlap a little."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.standard_normal(n))
    x[n // 2 :] += 1.5
    return x[:, None], (np.arange(n) >= n // 2).astype(int)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n", "nu"), [(20, 0.3), (30, 0.6), (20, 0.7), (60, 0.1), (14, 3 / 7)])
def test_nusvc(n, nu, seed):
    X, y = line(n, seed)
    k = round(nu * n / 2)  # of each side, all at their bounds
    model = NuSVC("linear", nu).fit(X, y)
    assert np.unique(model.support_kind_).tolist() == ["bound"] and len(model.support_) == 2 * k
    f, b = X[:, 0] * model.coef_[0, 0], model.intercept_[0]
    for sign, side in ((1, f[y == 1]), (-1, -f[y == 0])):

        def cost(s, u=side):
            return -k * s + np.maximum(0, s - u).sum()

        want, length = middle(side, cost)
        assert length > 1e-6
        assert 1 - sign * b == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.7, 0.9])
def test_one_class(nu):
    X = 5.0 + line(30, 1)[0]
    model = OneClassSVM("linear", nu).fit(X)
    f = model.score_samples(X)
    want, length = middle(f, lambda s: -nu * 30 * s + np.maximum(0, s - f).sum())
    assert length > 1e-6 and model.offset_[0] == pytest.approx(want, rel=1e-9)
    assert (model.predict(X) == -1).sum() == round(nu * 30)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("C", [0.01, 0.013])
def test_svc_and_risk(C, seed):
    rng = np.random.default_rng(seed)
    X, y = line(40, seed)
    w = rng.integers(1, 3, 40) * 0.1
    w[y == 1] *= w[y == 0].sum() / w[y == 1].sum()  # all are at their bounds
    s = 2.0 * y - 1
    models = [SVC(RBF(1.0), C), KernelERM(RBF(1.0), "hinge", 1 / C)]
    for model in models:
        model.fit(X, y, sample_weight=w)
        b = float(np.ravel(model.intercept_)[0])
        f = model.decision_function(X) - b
        want, length = middle(s - f, lambda t, f=f: w @ np.maximum(0, 1 - s * (f + t)))
        assert length > 1e-6 and b == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_regressions(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    C = 1e-3  # so small that no coefficient is between its bounds
    for epsilon in (0.0, 0.2):
        model = SVR(RBF(1.0), C, epsilon).fit(X, y)
        f = model.predict(X) - model.intercept_[0]
        kinks = np.concatenate([y - f - epsilon, y - f + epsilon])
        cost = lambda t: np.maximum(0, abs(y - f - t) - epsilon).sum()  # noqa: E731, B023
        want, length = middle(kinks, cost)
        assert length > 1e-6 and model.intercept_[0] == pytest.approx(want, abs=1e-9)
    nu = (0.3, 0.5, 0.7)[seed]
    model = NuSVR(RBF(1.0), nu, C).fit(X, y)
    b, epsilon = model.intercept_[0], model.epsilon_
    r = y - model.predict(X) + b
    for edge, errors in ((b + epsilon, r), (epsilon - b, -r)):
        want, length = middle(errors, lambda t: nu * 20 * t + np.maximum(0, errors - t).sum())  # noqa: B023
        assert length > 1e-6 and edge == pytest.approx(want, abs=1e-9)
