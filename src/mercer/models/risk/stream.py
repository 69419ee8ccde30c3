"""Logistic regression by stochastic gradients: on stored rows, and on a stream of them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from mercer.domains import concatenate
from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.estimator import (
    Plan,
    Sample,
    Study,
    check_weights,
    class_weights,
    is_plain_linear,
    no_features,
    refuse_foreign_letters,
)
from mercer.kernels import Kernel
from mercer.losses import Logistic
from mercer.memory import require_memory
from mercer.models.risk.fit import ERMFit
from mercer.solvers import SGD, FeatureERM, Solution
from mercer.solvers.risk import AveragedSGD, sgd_cost

PASSES = 1000
DEPENDENT = 1e-8  # relative length of what is new in a row below which nothing is


@speaks(".partial_fit")
def with_features(model: Any) -> bool:
    """Refuse a kernel that plainly has no finite features; the method checks what is left open."""
    try:
        kernel = vars(model).get("kernel_") or model._kernel()
        domain = kernel.domain
        points = domain.check(domain.sample(np.random.default_rng(0), 2))
        if kernel._words() or kernel._open():
            with warnings.catch_warnings():  # of these points, which are nobody's
                warnings.simplefilter("ignore")
                kernel = kernel.fit_params(points)
        # Of no points: whether there are columns at all, not whether these points have all theirs.
        finite = kernel._n_features(domain.take(points, slice(0, 0))) is not None
    except Exception:  # no kernel, or a function of the user's that wants other points
        return True
    if not finite:
        raise no_features(kernel)
    return True


def fit_sgd(data: Sample, alpha: float, offset: bool, limits: dict, seed: Any) -> ERMFit:
    """Solve by variance-reduced stochastic gradients over the kernel's features of stored rows."""
    owner = who()
    with speaking_for(f"{owner}: solver='sgd'"):
        Phi = features_of(data.kernel, data.X)
    classes = len(data.classes)  # type: ignore[arg-type]
    y = 2.0 * data.y - 1.0 if classes == 2 else data.y
    problem = FeatureERM(Phi, y, Logistic(), alpha, data.weights, offset, classes)
    passes = PASSES if limits["max_iter"] is None else limits["max_iter"]
    solution = SGD(limits["tol"], passes, limits["max_time"], seed).solve(problem, owner)
    extra = dict(solution.extra)
    a, b, product = (extra.pop(name) for name in ("dual_coef", "intercept", "product"))
    p = problem.checked(owner)
    v, z = solution.value.reshape(Phi.shape[1], -1), product.reshape(len(y), -1) + b
    residual = _slope_left(p, v, z)
    solution = replace(solution, residual=residual, extra={**extra, "method": "sgd"})
    return ERMFit(a, b, solution, solution.value, product)


class LabelStream:
    """A logistic regression of rows that pass by: averaged weights, and points that span them.

    Of the linear kernel the weights are points themselves. Else rows are kept whose features are
    independent, at most as many as there are features: an orthonormal basis of theirs grows with
    new rows, and none is needed once it is full.
    """

    def __init__(self, kernel: Kernel, features: int, classes: int, offset: bool):
        self.kernel = kernel
        self.sgd = AveragedSGD(features, classes, offset)
        self.points: Any = None
        self.basis: np.ndarray | None = None

    def resume(self, model: Any) -> None:
        """Go on where a fitted model left off, or as if the rows of its fit had been seen."""
        sgd, packed = self.sgd, vars(model).get("stream_")
        self.points, self.basis = model.X_fit_, model._basis_cache
        if packed is not None:
            D = len(sgd.V)
            sgd.V[:], sgd.average[:] = packed[:D], packed[D : 2 * D]
            sgd.b[:], sgd.average_b[:] = packed[2 * D], packed[2 * D + 1]
            sgd.totals[:] = packed[2 * D + 2 :, 0]
            return
        Phi = features_of(self.kernel, model.X_fit_)
        w = model.sample_weight_
        w = np.ones(Phi.shape[0]) if w is None else w
        squares = Phi.multiply(Phi) if sp.issparse(Phi) else Phi * Phi
        rows = np.asarray(squares.sum(axis=1)).reshape(-1) + sgd.offset
        sgd.V[:] = sgd.average[:] = Phi.T @ model.dual_coef_.reshape(len(w), -1)
        sgd.b[:] = sgd.average_b[:] = model.intercept_
        sgd.totals[:] = w.sum(), w @ rows, w @ w, np.count_nonzero(w)

    def update(
        self, X: Any, Phi: Any, codes: np.ndarray, weights: np.ndarray, alpha: float
    ) -> None:
        """See new rows, and keep those that the span of the earlier ones lacks."""
        targets = 2.0 * codes - 1.0 if self.sgd.classes == 2 else codes
        self.sgd.update(Phi, targets, weights, alpha)
        domain = self.kernel.domain
        if is_plain_linear(self.kernel):
            self.points = self.sgd.average.T.copy()
            return
        if self.points is not None and self.basis is None:
            rows = _dense(features_of(self.kernel, self.points))
            kept, self.basis = _independent(np.zeros((rows.shape[1], 0)), rows)
            self.points = domain.take(self.points, kept)
        elif self.basis is None:
            self.basis = np.zeros((Phi.shape[1], 0))
        new, self.basis = _independent(self.basis, Phi)
        more = domain.take(domain.keep(X), new)
        self.points = more if self.points is None else concatenate(domain, self.points, more)

    def packed(self) -> np.ndarray:
        """Return the state of the weights as one array, as models and files keep it."""
        s = self.sgd
        return np.vstack([s.V, s.average, s.b, s.average_b, np.tile(s.totals[:, None], len(s.b))])

    def solution(self) -> Solution:
        """Return what is known of the averaged weights; nothing is claimed of them."""
        return Solution(
            value=self.sgd.coef,
            converged=False,
            n_iter=max(1, self.sgd.seen),
            message=(
                f"{who()}: fitted to a stream by partial_fit, which has no optimum "
                "to compare with; fit() on stored rows gives a certificate."
            ),
            extra={"method": "stream", "seen": self.sgd.seen},
        )


def stream_coefficients(kernel: Kernel, points: Any, coef: np.ndarray) -> np.ndarray:
    """Return coefficients of the kept points whose function is that of the averaged weights."""
    V = np.atleast_2d(coef).T
    outputs = V.shape[1]
    if is_plain_linear(kernel):
        return np.ones(1) if outputs == 1 else np.eye(outputs)
    a = np.linalg.lstsq(_dense(features_of(kernel, points)).T, V, rcond=None)[0]
    return a[:, 0] if outputs == 1 else a


def stream_weights(class_weight: Any, y: np.ndarray, sample_weight: Any) -> np.ndarray:
    """Return the weights of new rows of a stream, of which not all classes are known to be seen."""
    weights = check_weights(sample_weight, len(y))
    weights = np.ones(len(y)) if weights is None else weights
    if class_weight is None:
        return weights
    if isinstance(class_weight, str):
        raise InvalidInput(
            f"{who()}: class_weight={class_weight!r} needs all rows at once; give a dict "
            "from class to weight, or sample_weight."
        )
    return weights * class_weights(class_weight, y, weights)


def features_of(kernel: Kernel, X: Any) -> Any:
    """Return the explicit features of points, or refuse a kernel that has no finite ones."""
    D = kernel._n_features(X)
    if D is None:
        refuse_foreign_letters(kernel, X)
        raise no_features(kernel)
    n = kernel.domain.size(X)
    if not sp.issparse(X):
        require_memory(
            2 * n * D * 8, f"{who()}: the {n} × {D} features of {kernel}", "Give fewer rows"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # the solvers refuse what is not finite
        return kernel._features(X)


def _dense(Phi: Any) -> np.ndarray:
    return Phi.toarray() if sp.issparse(Phi) else np.asarray(Phi, dtype=float)


def _slope_left(p: Any, v: np.ndarray, z: np.ndarray) -> float:
    """Return ‖αv + Φᵀwℓ'‖/‖\\|Φ\\|ᵀ\\|wℓ'\\|‖ with centred features where there is an offset."""
    G = p.w[:, None] * p.rates(z)
    pull, size = np.asarray(p.Phi.T @ G), np.asarray(abs(p.Phi).T @ abs(G))
    if p.offset:
        mean = np.asarray(p.w @ p.Phi) / p.w.sum()
        pull = pull - np.outer(mean, G.sum(0))
    scale = float(np.linalg.norm(size))
    return float(np.linalg.norm(p.alpha * v + pull)) / scale if scale > 0 else 0.0


def _independent(Q: np.ndarray, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of rows that with the orthonormal columns of Q span all, and the wider Q."""
    D, found = len(Q), []
    for first in range(0, rows.shape[0], max(1, D)):
        if Q.shape[1] == D:
            break
        part = _dense(rows[first : first + D])
        rest = part - (part @ Q) @ Q.T
        rest -= (rest @ Q) @ Q.T  # once more, for what rounding left
        least = DEPENDENT * float(np.sqrt((part * part).sum(1).max(initial=0.0)))
        open_ = np.flatnonzero(np.sqrt((rest * rest).sum(1)) > least)
        if not len(open_):
            continue
        more, R, order = qr(rest[open_].T, mode="economic", pivoting=True)
        count = int((np.abs(np.diag(R)) > least).sum())
        found.append(first + np.sort(open_[order[:count]]))
        Q = np.hstack([Q, more[:, :count]])
    return np.concatenate(found) if found else np.zeros(0, dtype=int), Q


def plan_gradients(study: Study) -> Plan:
    """Return the plan of solver="sgd": the features of all rows, and passes over them."""
    if study.facts.stream:
        raise InvalidInput(f"{who()}: solver='sgd' needs all rows in memory; use solver='falkon'.")
    if study.facts.features is None:
        raise no_features(study.kernel)
    plan = study.plan("sgd", sgd_cost(study.facts, study.sketch))
    return replace(
        plan, why="You chose solver='sgd'; how many passes it takes depends on the data."
    )
