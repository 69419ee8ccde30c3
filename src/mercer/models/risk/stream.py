"""Logistic regression by stochastic gradients: on stored rows, and on a stream of them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr
from sklearn.utils.metaestimators import available_if

from mercer.checks import positive
from mercer.domains import concatenate, to_host
from mercer.engines import require_memory
from mercer.errors import InvalidInput, ModelFileError
from mercer.estimator import (
    MarginData,
    check_labels,
    check_weights,
    class_weights,
    in_double,
    is_plain_linear,
    known_classes,
    no_features,
    refuse_foreign_letters,
)
from mercer.kernels import Kernel
from mercer.losses import Logistic
from mercer.models.risk.fit import ERMFit
from mercer.solvers import SGD, FeatureERM, Solution
from mercer.solvers.risk import AveragedSGD

PASSES = 1000
DEPENDENT = 1e-8  # relative length of what is new in a row below which nothing is


def _with_features(model: Any) -> bool:
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
        raise no_features(kernel, f"{type(model).__name__}.partial_fit")
    return True


class StreamMixin:
    """Adds ``solver="sgd"`` and `partial_fit` to a logistic regression."""

    alpha: float
    fit_intercept: bool
    class_weight: Any
    random_state: Any
    kernel_: Kernel
    coef_: Any
    stream_: np.ndarray | None
    _basis_cache: np.ndarray | None = None

    @property
    def dual_coef_(self) -> np.ndarray:
        """The coefficients a; those of a stream are found when they are asked for."""
        try:
            a = vars(self)["dual_coef_"]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no dual_coef_ before fit.") from None
        if a is None:
            a = self.__dict__["dual_coef_"] = self._coefficients()
        return a

    @dual_coef_.setter
    def dual_coef_(self, value: Any) -> None:
        self.__dict__["dual_coef_"] = value

    # -- stored rows --------------------------------------------------------------------------
    def _fit_sgd(self, data: MarginData, alpha: float, limits: dict) -> ERMFit:
        """Solve by variance-reduced stochastic gradients over the kernel's features."""
        owner = limits["owner"]
        Phi = features_of(data.kernel, data.X, f"{owner}: solver='sgd'")
        classes = len(data.classes)  # type: ignore[arg-type]
        y = 2.0 * data.y - 1.0 if classes == 2 else data.y
        offset = bool(self.fit_intercept)
        problem = FeatureERM(Phi, y, Logistic(), alpha, data.weights, offset, classes)
        passes = PASSES if limits["max_iter"] is None else limits["max_iter"]
        solver = SGD(limits["tol"], passes, limits["max_time"], self.random_state)
        solution = solver.solve(problem, owner)
        extra = dict(solution.extra)
        a, b, product = (extra.pop(name) for name in ("dual_coef", "intercept", "product"))
        p = problem.checked(owner)
        v, z = solution.value.reshape(Phi.shape[1], -1), product.reshape(len(y), -1) + b
        residual = _slope_left(p, v, z)
        solution = replace(solution, residual=residual, extra={**extra, "method": "sgd"})
        return ERMFit(a, b, solution, solution.value, product)

    def _store(self, *parts: Any) -> None:
        super()._store(*parts)  # type: ignore[misc]
        self.stream_ = self._basis_cache = None

    # -- streams ------------------------------------------------------------------------------
    @available_if(_with_features)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on with new rows, each seen once: averaged stochastic gradients.

        Approaches the minimum over all rows seen so far, those of an earlier `fit` included, of
        the same objective as `fit`; the rows themselves are not kept. Rows in several calls are the
        same rows in one call. The order of the rows should be random, and the columns centred and
        of scale near 1. `solution_` makes no claim: a stream has no optimum to be compared with.
        The alphabet of a kernel on strings is that of the first call, if none was given, and later
        strings with other letters are refused.

        Parameters
        ----------
        X : collection of n points
            New points, for a kernel with finite features.
        y : array of shape (n,)
            Their labels.
        classes : array, optional
            All classes, needed in the first call.
        sample_weight : float or array of shape (n,), optional
            Weights; a row of weight 0 is no row.

        Returns
        -------
        estimator
            The model itself.
        """
        names: tuple[str, ...] = self._learned  # type: ignore[attr-defined]
        held = {name: vars(self)[name] for name in names if name in vars(self)}
        owner = f"{type(self).__name__}.partial_fit"
        with self._all_or_nothing():  # type: ignore[attr-defined]
            self.__dict__.update(held)
            self._check_flags()  # type: ignore[attr-defined]
            alpha = positive(self.alpha, "alpha", owner)
            offset = bool(self.fit_intercept)
            if held and held["fit_intercept_"] != offset:
                raise InvalidInput(
                    f"{owner}: fit_intercept={offset}, and {not offset} for the rows so far; set "
                    "it back, or begin another stream with a clone."
                )
            kernel = held.get("kernel_") or self._kernel()  # type: ignore[attr-defined]
            X = in_double(to_host(self._check_X(X, kernel, reset=not held)))  # type: ignore[attr-defined]
            n = kernel.domain.size(X)
            y = check_labels(y, n, owner)
            known = known_classes(classes, y, held.get("classes_"), owner)
            weights = self._stream_weights(y, sample_weight, owner)
            kernel = kernel if held else kernel.fit_params(X, weights)
            Phi = features_of(kernel, X, owner)
            stream = self._resumed(Phi.shape[1], len(known))
            codes = np.searchsorted(known, y)
            targets = 2.0 * codes - 1.0 if len(known) == 2 else codes
            stream.update(Phi, targets, weights, alpha, owner)
            self._store_stream(kernel, X, Phi, known, alpha, stream)
        return self

    def _stream_weights(self, y: np.ndarray, sample_weight: Any, owner: str) -> np.ndarray:
        weights = check_weights(sample_weight, len(y), owner)
        weights = np.ones(len(y)) if weights is None else weights
        if self.class_weight is None:
            return weights
        if isinstance(self.class_weight, str):
            raise InvalidInput(
                f"{owner}: class_weight={self.class_weight!r} needs all rows at once; give a dict "
                "from class to weight, or sample_weight."
            )
        return weights * class_weights(self.class_weight, y, weights, owner)

    def _resumed(self, D: int, classes: int) -> AveragedSGD:
        """Return the stream where the last call left it, or as if it had seen the rows of a fit."""
        stream = AveragedSGD(D, classes, bool(self.fit_intercept))
        packed = vars(self).get("stream_")
        if packed is not None:
            stream.V[:], stream.average[:] = packed[:D], packed[D : 2 * D]
            stream.b[:], stream.average_b[:] = packed[2 * D], packed[2 * D + 1]
            stream.totals[:] = packed[2 * D + 2 :, 0]
        elif "kernel_" in vars(self):
            fitted: Any = self
            Phi = features_of(self.kernel_, fitted.X_fit_, f"{type(self).__name__}.partial_fit")
            w = fitted.sample_weight_
            w = np.ones(Phi.shape[0]) if w is None else w
            squares = Phi.multiply(Phi) if sp.issparse(Phi) else Phi * Phi
            rows = np.asarray(squares.sum(axis=1)).reshape(-1) + stream.offset
            V = Phi.T @ fitted.dual_coef_.reshape(len(w), -1)
            stream.V[:] = stream.average[:] = V
            stream.b[:] = stream.average_b[:] = fitted.intercept_
            stream.totals[:] = w.sum(), w @ rows, w @ w, np.count_nonzero(w)
        return stream

    def _store_stream(
        self, kernel: Kernel, X: Any, Phi: Any, classes: np.ndarray, alpha: float, s: AveragedSGD
    ) -> None:
        points = self._spanning(kernel, X, Phi, s)
        fields = {
            "kernel_": kernel,
            "X_fit_": points,
            "dual_coef_": None,
            "intercept_": np.atleast_1d(s.intercept),
            "coef_": np.atleast_2d(s.coef.T),
            "classes_": classes,
            "y_fit_": np.zeros(kernel.domain.size(points), dtype=int),
            "sample_weight_": None,
            "alpha_": alpha,
            "fit_intercept_": bool(self.fit_intercept),
            "loss_": Logistic(),
            "n_iter_": max(1, s.seen),
            "stream_": np.vstack(
                [s.V, s.average, s.b, s.average_b, np.tile(s.totals[:, None], len(s.b))]
            ),
        }
        self.__dict__.update(fields)
        self.solution_ = Solution(
            value=s.coef,
            converged=False,
            n_iter=fields["n_iter_"],  # type: ignore[arg-type]
            message=(
                f"{type(self).__name__}: fitted to a stream by partial_fit, which has no optimum "
                "to compare with; fit() on stored rows gives a certificate."
            ),
            extra={"method": "stream", "seen": s.seen},
        )

    def _spanning(self, kernel: Kernel, X: Any, Phi: Any, s: AveragedSGD) -> Any:
        """Return few points whose functions k(x, ·) span that of the averaged weights.

        Of the linear kernel the weights are points themselves. Else rows of the stream are kept
        whose features are independent, at most as many as there are features: an orthonormal basis
        of theirs grows with new rows, and none is needed once it is full.
        """
        if is_plain_linear(kernel):
            return s.average.T.copy()
        points, basis = vars(self).get("X_fit_"), self._basis_cache
        if points is not None and basis is None:
            rows = _dense(features_of(kernel, points, type(self).__name__))
            kept, basis = _independent(np.zeros((rows.shape[1], 0)), rows)
            points = kernel.domain.take(points, kept)
        elif basis is None:
            basis = np.zeros((Phi.shape[1], 0))
        new, self._basis_cache = _independent(basis, Phi)
        more = kernel.domain.take(kernel.domain.keep(X), new)
        return more if points is None else concatenate(kernel.domain, points, more)

    def _coefficients(self) -> np.ndarray:
        """Return coefficients of the kept points whose function is that of the averaged weights."""
        V = np.atleast_2d(vars(self)["coef_"]).T
        outputs = V.shape[1]
        if is_plain_linear(self.kernel_):
            return np.ones(1) if outputs == 1 else np.eye(outputs)
        rows = _dense(features_of(self.kernel_, self.X_fit_, type(self).__name__))  # type: ignore[attr-defined]
        a = np.linalg.lstsq(rows.T, V, rcond=None)[0]
        return a[:, 0] if outputs == 1 else a

    # -- answers and files --------------------------------------------------------------------
    def _feature_weights(self) -> np.ndarray | None:
        if vars(self).get("stream_") is None:
            return super()._feature_weights()  # type: ignore[misc]
        V = vars(self)["coef_"].T
        return V[:, 0] if V.shape[1] == 1 else V

    def _points_again(self, K: Any, verb: str = "loo") -> Any:
        if vars(self).get("stream_") is not None:
            raise InvalidInput(
                f"{type(self).__name__}.{verb}: the rows of a stream are not kept, and it needs "
                "them; fit() on stored rows."
            )
        return super()._points_again(K, verb)  # type: ignore[misc]

    def _check_state(self) -> None:
        packed = vars(self).get("stream_")
        if packed is not None:
            held: dict[str, Any] = vars(self)
            coef, kernel = np.shape(held.get("coef_")), held.get("kernel_")  # type: ignore[arg-type]
            D = kernel._n_features(held.get("X_fit_")) if kernel is not None else None
            fits = len(coef) == 2 and coef[1] == D and np.shape(packed) == (2 * D + 6, coef[0])
            if not fits or not np.isfinite(packed).all():
                raise ModelFileError(
                    f"the stream of a {type(self).__name__} does not fit its arrays"
                )
        super()._check_state()  # type: ignore[misc]

    def __getstate__(self) -> dict:
        state: Any = dict(super().__getstate__())  # type: ignore[misc, call-overload]
        state.pop("_basis_cache", None)
        return state


def features_of(kernel: Kernel, X: Any, owner: str) -> Any:
    """Return the explicit features of points, or refuse a kernel that has no finite ones."""
    D = kernel._n_features(X)
    if D is None:
        refuse_foreign_letters(kernel, X, owner)
        raise no_features(kernel, owner)
    n = kernel.domain.size(X)
    if not sp.issparse(X):
        require_memory(
            2 * n * D * 8, f"{owner}: the {n} × {D} features of {kernel!r}", "Give fewer rows"
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
