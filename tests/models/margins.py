"""Data and objectives from scratch, for the tests of margin machines."""

import numpy as np
from sklearn import svm
from sklearn.base import clone

from mercer import SVR, NuSVR
from mercer.losses import EpsilonInsensitive, Hinge

PAIRS = [
    ({}, {}),
    ({"C": 20.0, "epsilon": 0.02}, {"nu": 0.2, "C": 20.0}),
    ({"C": 0.1, "epsilon": 0.0}, {"nu": 0.9, "C": 0.1}),
    ({"C": 1.0, "epsilon": 0.6}, {"nu": 0.05}),
]
MODELS = [SVR(**a) for a, _ in PAIRS] + [NuSVR(**b) for _, b in PAIRS]


def blobs(n=60, d=3, seed=0, noise=0.7):
    """Return two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = (X[:, 0] + noise * rng.standard_normal(n) > 0).astype(int)
    return X, y


def waves(n=90, d=2, seed=0, noise=0.1):
    """Return points and noisy targets that are no linear function of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] + noise * rng.standard_normal(n)


def sharp(model):
    """Return a clone with a tolerance far below what is compared."""
    return clone(model).set_params(tol=1e-9)


def theirs(model, **changes):
    """Return scikit-learn's model of the same parameters."""
    given = {n: v for n, v in model.get_params().items() if n in ("C", "nu", "epsilon")}
    return getattr(svm, type(model).__name__)(**{**given, "tol": 1e-10, **changes})


def certificate(model, K, y, weights=None):
    """Return primal value, dual value and KKT violation of a two-class model, by definition."""
    w = np.ones(len(y)) if weights is None else weights
    s = np.where(y == model.classes_[1], 1.0, -1.0)
    a = np.zeros(len(y))
    a[model.support_] = model.dual_coef_[0]
    f = K @ a + model.intercept_[0]
    square = a @ K @ a
    primal = 0.5 * square + model.C * (w @ Hinge().value(s, f))
    dual = s @ a - 0.5 * square
    assert (s * a >= 0).all() and (s * a <= model.C * w).all()
    G, room = f - s, s * a < model.C * w * (1 - 1e-12)
    up, down = np.where(s > 0, room, a < 0), np.where(s > 0, a > 0, room)
    return primal, dual, max(0.0, G[down].max(initial=-np.inf) - G[up].min(initial=np.inf))


class Scratch:
    """The two objectives and the tube of a fitted model, from its attributes and the formula."""

    def __init__(self, model, K, y, w=None):
        w = np.ones(len(y)) if w is None else np.asarray(w, dtype=float)
        a = np.zeros(len(y))
        a[model.support_] = model.dual_coef_[0]
        self.a, self.bound, self.f = a, model.C * w, K @ a
        values = self.f + model.intercept_[0]
        self.error = y - values
        tube = isinstance(model, SVR)
        self.epsilon = model.epsilon if tube else model.epsilon_
        outside = w @ EpsilonInsensitive(self.epsilon).value(y, values)
        width = 0.0 if tube else model.nu * w.sum() * self.epsilon
        self.primal = 0.5 * a @ self.f + model.C * (width + outside)
        self.dual = y @ a - 0.5 * a @ self.f - (self.epsilon if tube else 0.0) * abs(a).sum()
