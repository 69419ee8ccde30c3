"""Outputs of any kind: kernel ridge regression into the feature space of an output kernel."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mercer import checks, state
from mercer.domains import Domain, Objects, Table, Vectors, odd_point, to_host
from mercer.domains.blocks import Block
from mercer.domains.tables import is_frame
from mercer.errors import InvalidInput, speaking_for, speaks, who
from mercer.estimator import (
    Hits,
    check_definite,
    check_lengths,
    check_weights,
    given_targets,
    is_stream,
    judged_blocks,
    refuse_negative,
)
from mercer.kernels import Kernel, as_kernel, require_psd
from mercer.lapack import heard
from mercer.memory import require_memory, row_blocks
from mercer.models.ridge.base import Ridge
from mercer.models.ridge.exact import LeastSquares
from mercer.rkhs import Function, apart, first_equal

# ---- Collections of outputs of any kind: checked, told apart, compared, and shown to the user ----


def canonical(kernel: Kernel, Y: Any, name: str) -> tuple[Any, Any]:
    """Return outputs as the kernel takes them, and as they were given.

    Numbers keep their dtype and shape, lists their items. A row of numbers is a column to the
    kernel; an array of objects is a tuple, so that the kernel, and equality, see the objects.
    """
    domain = kernel.domain
    if Y is None:
        raise InvalidInput(f"{who()}: requires y to be passed, but the target {name} is None.")
    Y = to_host(Y)
    given: Any = None
    if isinstance(domain, Vectors) and not (sp.issparse(Y) or isinstance(Y, Table) or is_frame(Y)):
        _refuse_objects(Y, name)
        with suppress(ValueError):  # ragged: the domain says so
            given = Y = np.asarray(Y)
            Y = Y.reshape(-1, 1) if Y.ndim == 1 else Y
            if given.dtype.kind == "O":  # numbers as objects, if the domain takes them
                given = np.asarray(given.tolist())
    elif isinstance(domain, Objects) and isinstance(Y, np.ndarray) and Y.ndim == 1:
        given = None if Y.dtype.kind == "O" else Y
        Y = tuple(Y.tolist())
    elif isinstance(Y, list):
        given = Y
    try:
        checked = domain.check(Y, name)
    except InvalidInput as error:
        raise InvalidInput(f"{who()}: {error}") from None
    given = checked if given is None else given
    if isinstance(checked, np.ndarray) and checked.dtype == np.float32:
        checked = checked.astype(np.float64)  # models compute in float64 whatever the data
    return checked, given


def _refuse_objects(Y: Any, name: str) -> None:
    """Refuse text and other objects as outputs of a kernel on numbers, and say what takes them."""
    odd = odd_point(Y)
    if odd is None and isinstance(Y, list | tuple | np.ndarray) and np.ndim(Y):
        odd = next((v for v in Y if isinstance(v, str | bytes)), None)
    if odd is not None:
        raise InvalidInput(
            f"{who()}: {name} holds {type(odd).__name__} where numbers belong; give a kernel for "
            "such outputs, such as output_kernel=mercer.Spectrum(2) for strings or "
            "output_kernel=mercer.WeisfeilerLehman(3) for graphs."
        )


def taken(given: Any, index: np.ndarray) -> Any:
    """Return a copy of the outputs at the given positions, in the form in which they came."""
    if isinstance(given, list | tuple):
        return type(given)(given[int(i)] for i in index)
    return given.take(index) if isinstance(given, Table) else given[index]


def show(given: Any, index: np.ndarray) -> Any:
    """Return the outputs at the given positions; objects as an array of objects."""
    chosen = taken(given, index)
    if not isinstance(chosen, list | tuple):
        return chosen
    out = np.empty(len(chosen), dtype=object)
    for i, item in enumerate(chosen):
        out[i] = item
    return out


def distinct(domain: Domain, Y: Any, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the distinct outputs of some rows first are, and which of them each row has.

    Numbers and texts are sorted, so that the order of the rows does not matter; anything else
    keeps the order in which it first appears. Rows that are not asked about have −1. Sparse rows
    and tables count as different.
    """
    Z = domain.take(Y, rows)
    first = first_equal(Z)
    if isinstance(Z, tuple) and not _hashable(Z):
        first = _first_same(Z)
    unique, inverse = np.unique(first, return_inverse=True)
    order = _order(domain.take(Z, unique), len(unique))
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    codes = np.full(domain.size(Y), -1)
    codes[rows] = rank[inverse.reshape(-1)]
    return rows[unique[order]], codes


def _order(Z: Any, n: int) -> np.ndarray:
    """Return the positions of n distinct outputs in the order in which they are numbered."""
    if isinstance(Z, np.ndarray) and Z.ndim == 2 and Z.dtype.kind in "fiub":
        return np.lexsort(Z.T[::-1])
    if isinstance(Z, tuple) and (
        all(isinstance(z, str) for z in Z) or all(isinstance(z, int | float) and z == z for z in Z)
    ):
        return np.array(sorted(range(n), key=Z.__getitem__), dtype=int)
    return np.arange(n)


def hits(A: Any, B: Any) -> np.ndarray:
    """Return which outputs of two canonical collections of one length are the same."""
    if isinstance(A, np.ndarray) and isinstance(B, np.ndarray) and A.shape == B.shape:
        return (A == B).reshape(len(A), -1).all(axis=1)
    if isinstance(A, Table) and isinstance(B, Table):
        columns = [np.asarray(a == B[name]) for name, a in zip(A.names, A.columns, strict=True)]
        return np.logical_and.reduce(columns)
    if sp.issparse(A) and sp.issparse(B):
        return np.asarray(abs(A - B).sum(axis=1)).ravel() == 0
    return np.array([_same(a, b) for a, b in zip(A, B, strict=True)], dtype=bool)


def _hashable(Z: tuple) -> bool:
    try:
        return all(hash(z) is not None for z in Z)
    except TypeError:
        return False


def _first_same(Z: tuple) -> np.ndarray:
    """Return for each object the position of the first that equals it, by comparing."""
    first: list[int] = []
    for i, z in enumerate(Z):
        earlier = (j for j in dict.fromkeys(first) if _same(Z[j], z))
        first.append(next(earlier, i))
    return np.array(first, dtype=int)


def _same(a: Any, b: Any) -> bool:
    """Whether two objects are equal; those that compare entry by entry must agree in all."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    equal = a == b
    return equal if isinstance(equal, bool) else bool(np.all(equal))


@dataclass(frozen=True)
class ExactHits(Hits):
    """The weight of the rows whose output is predicted exactly, and that of all."""

    kernel: Kernel

    def right(self, block: Block, predicted: Any) -> np.ndarray:
        """Return which outputs are predicted."""
        with speaking_for(self.speaker):
            said, true = (
                canonical(self.kernel, outputs, name)[0]
                for outputs, name in ((predicted, "prediction"), (block.y, "y"))
            )
        return np.asarray(hits(said, true), dtype=bool)


# ---- structured ----


NO_OUTPUTS = "a {} without its outputs"


class StructuredKernelRidge(Ridge):
    r"""Prediction of strings, sets, graphs, vectors: of whatever an output kernel compares.

    A kernel k compares inputs, a kernel l outputs, and k·l pairs of both. Ridge regression of the
    features ψ(y) of the outputs gives a function of pairs

    f(x, y) = Σᵢ βᵢ(x) l(yᵢ, y),  β(x) = (K + αW⁻¹)⁻¹ k(x),

    the inner product of ψ(y) with the predicted features Σᵢ βᵢ(x)ψ(yᵢ). The prediction is the
    candidate y whose ψ(y) is nearest to those, that is the one of largest score
    f(x, y) − ½l(y, y). Where all candidates have the same l(y, y), as for a normalised output
    kernel, that is the candidate of largest f(x, y). Without the second term long outputs would
    win for being long.

    With `Linear` outputs this is `KernelRidge` followed by the nearest candidate; with
    l(y, y′) = [y = y′] it is `KernelRidgeClassifier` for several classes, without its offset.

    Cost n³/3 flops for a fit, n² for each distinct output.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel k of the inputs.
    output_kernel : Kernel, str or callable, default="rbf"
        The kernel l of the outputs; a function of two outputs will do. Not "precomputed".
    alpha : float or "loo", default=1.0
        The penalty α ≥ 0. "loo" chooses it from `alphas` by the exact leave-one-out error
        ‖ψ(yᵢ) − Σⱼ βⱼψ(yⱼ)‖² in the feature space of the outputs.
    alphas : array-like, optional
        The penalties that ``alpha="loo"`` tries, as for `KernelRidge`.

    Attributes
    ----------
    outputs_ : collection
        The distinct training outputs: numbers and texts sorted, anything else in the order in
        which it first appears.
    candidates_ : collection
        What is predicted from by default.
    dual_coef_ : array of shape (n, n_outputs)
        (K + αW⁻¹)⁻¹E, where E marks the output of each row: β(x), added up over equal outputs, is
        k(x)ᵀ times this.
    codes_ : array of shape (n,)
        The position in `outputs_` of the output of each row, −1 where its weight is 0.
    output_kernel_ : Kernel
        The output kernel with words resolved.
    alpha_, loo_errors_, coef_, X_fit_, kernel_, solution_
        As for `KernelRidge`, for the targets E.
    function_ : Function
        The scores of the default candidates, as functions of x.

    Examples
    --------
    >>> from mercer import RBF, StructuredKernelRidge
    >>> def shared_letters(s, t):
    ...     return float(len(set(s) & set(t)))
    >>> numbers = ["one", "two", "three", "four"]
    >>> model = StructuredKernelRidge(RBF(0.5), shared_letters, alpha=0.1)
    >>> model.fit([[1.0], [2.0], [3.0], [4.0]], numbers).predict([[2.1], [3.8]])
    array(['two', 'four'], dtype=object)
    >>> model.predict([[2.1]], candidates=["tow", "wart"])
    array(['tow'], dtype=object)
    """

    _state = {name: part for name, part in Ridge._state.items() if name != "y_fit_"} | {
        "output_kernel_": state.Such(Kernel, says=NO_OUTPUTS, lacks=NO_OUTPUTS),
        "outputs_": state.Points("t", kernel="output_kernel_", kept=False, lacks=NO_OUTPUTS),
        "codes_": state.Whole("n", kind="i", least=-1, below="t", lacks=NO_OUTPUTS),
        "candidates_": state.Anything(lacks=NO_OUTPUTS),
    }
    _rules = (*Ridge._rules, (state.MISFIT, lambda model: np.ndim(model.dual_coef_) == 2))

    fit_intercept = False
    output_kernel_: Kernel
    codes_: np.ndarray
    outputs_: Any
    candidates_: Any

    def __init__(
        self,
        kernel: Any = "rbf",
        output_kernel: Any = "rbf",
        alpha: Any = 1.0,
        *,
        alphas: Any = None,
    ):
        self.kernel = kernel
        self.output_kernel = output_kernel
        self.alpha = alpha
        self.alphas = alphas

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``kernel__…`` and ``output_kernel__…`` reach into kernels by name too.

        Parameters
        ----------
        **params : dict
            Parameters of the estimator, and of its kernels as ``output_kernel__length_scale``.

        Returns
        -------
        StructuredKernelRidge
            The estimator itself.
        """
        kernel = params.get("output_kernel", self.output_kernel)
        if isinstance(kernel, str) and any(name.startswith("output_kernel__") for name in params):
            params = {**params, "output_kernel": as_kernel(kernel)}
        return super().set_params(**params)

    # -- fit ----------------------------------------------------------------------------------
    @speaks("StructuredKernelRidge")
    def fit(self, X: Any, y: Any, sample_weight: Any = None, candidates: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : collection of n outputs
            What the output kernel compares; one number an output may be given as a 1-D array.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out.
        candidates : collection of outputs, optional
            What to predict from; by default the distinct training outputs.

        Returns
        -------
        StructuredKernelRidge
            The fitted model itself.
        """
        with self._all_or_nothing(X):
            checks.check_parameters(self)
            kernel, output_kernel = self._kernel(), self._output_kernel()
            X = self._check_X(X, kernel, reset=True)
            n = kernel.domain.size(X)
            Y, given = canonical(output_kernel, y, "y")
            if output_kernel.domain.size(Y) != n:
                raise InvalidInput(
                    f"{who()}: X has {n} rows and y has {output_kernel.domain.size(Y)} outputs; "
                    "inconsistent numbers of samples."
                )
            weights = check_weights(sample_weight, n)
            kernel = kernel.fit_params(X, weights)
            output_kernel = output_kernel.fit_params(Y, weights)
            rows = np.arange(n) if weights is None else np.flatnonzero(weights)
            first, codes = distinct(output_kernel.domain, Y, rows)
            outputs = output_kernel.domain.take(Y, first)
            check_lengths(output_kernel, outputs, underflow=True, rows="output")
            self._solve(kernel, X, codes, weights, output_kernel, outputs)
            self.kernel_, self.X_fit_ = kernel, kernel.domain.keep(X)
            self.codes_, self.sample_weight_ = codes, None if weights is None else weights.copy()
            self.output_kernel_, self.outputs_ = output_kernel, taken(given, first)
            C, given = self._candidates(self.outputs_ if candidates is None else candidates)
            self.candidates_ = taken(given, np.arange(output_kernel.domain.size(C)))
            self.solution_.unwrap()
        return self

    def _solve(
        self,
        kernel: Kernel,
        X: Any,
        codes: np.ndarray,
        weights: np.ndarray | None,
        output_kernel: Kernel,
        outputs: Any,
    ) -> None:
        """Fit the marks of the distinct outputs; "loo" looks at errors in their feature space."""
        alpha, alphas = self._check_alpha(1), self._alphas()
        n, count = len(codes), output_kernel.domain.size(outputs)
        require_memory(
            4 * n * count * 8,
            f"StructuredKernelRidge: coefficients of {count} distinct outputs at {n} points",
            "Fit fewer rows",
        )
        E = _marks(codes, count)
        self.alphas_ = self.loo_errors_ = None
        if isinstance(alpha, str):
            # l(U, U) = RRᵀ: the rows of R are the outputs, as far as their geometry goes.
            L = np.asarray(output_kernel(outputs), dtype=float)
            with speaking_for("StructuredKernelRidge: output_kernel"):
                check_definite(output_kernel, L)
            values, vectors = heard(np.linalg.eigh, L)
            kept = values > 1e-14 * max(float(values[-1]), 0.0)
            R = vectors[:, kept] * np.sqrt(values[kept])
            path = LeastSquares(kernel, X, E @ R, weights, False).fit(alpha, alphas)
            alpha, self.alphas_ = path.alpha, path.alphas
            self.loo_errors_ = R.shape[1] * np.asarray(path.loo_errors)
        fit = LeastSquares(kernel, X, E, weights, False).fit(alpha, None)
        self.alpha_, self.dual_coef_, self.coef_ = fit.alpha, fit.dual_coef, fit.coef
        self.intercept_, self.fit_intercept_ = fit.intercept, False
        self.solution_, self._loo_cache, self._smoother_cache = fit.solution, None, None

    def _output_kernel(self) -> Kernel:
        with speaking_for("StructuredKernelRidge: output_kernel"):
            kernel = as_kernel(self.output_kernel)
            if not kernel.domain.holds_points:
                raise InvalidInput(
                    f"{who()}='precomputed' does not tell l(y, y) of candidates; give a function "
                    "of two positions, such as lambda i, j: L[i, j], and positions as outputs."
                )
            require_psd(kernel)
            return kernel

    @property
    def y_fit_(self) -> np.ndarray:  # type: ignore[override]
        """The targets E of the ridge fit: 1 where a row has an output, 0 elsewhere."""
        return _marks(self.codes_, self.dual_coef_.shape[1])

    # -- scores -------------------------------------------------------------------------------
    @speaks("StructuredKernelRidge")
    def _candidates(self, candidates: Any) -> tuple[Any, Any]:
        given = self.candidates_ if candidates is None else candidates
        C, given = canonical(self.output_kernel_, given, "candidates")
        if not self.output_kernel_.domain.size(C):
            raise InvalidInput(f"{who()}: candidates is empty; give at least one output.")
        return C, given

    @speaks("StructuredKernelRidge")
    def _likeness(self, C: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return l(outputs, candidates) and −½l(y, y) of the candidates."""
        kernel = self.output_kernel_
        U, _ = canonical(kernel, self.outputs_, "outputs")
        U, C = kernel.domain.match(U, C)
        L = np.asarray(kernel(U, apart(kernel.domain, C)), dtype=float)
        lengths = np.asarray(kernel.diag(C), dtype=float)
        refuse_negative(kernel, lengths, "candidate")
        return L, -0.5 * lengths

    def _scores(self, C: Any) -> Function:
        L, bias = self._likeness(C)
        n = len(self.dual_coef_)
        require_memory(
            n * L.shape[1] * 8,
            f"StructuredKernelRidge: coefficients of {L.shape[1]} candidates at {n} points",
            "Give fewer candidates at a time",
        )
        return Function(self.kernel_, self.X_fit_, self.dual_coef_ @ L, bias)

    @property
    def function_(self) -> Function:
        """The scores of the default candidates, as functions of x."""
        check_is_fitted(self)
        return self._scores(self._candidates(None)[0])

    def decision_function(self, X: Any, candidates: Any = None) -> np.ndarray:
        """Return the scores f(x, y) − ½l(y, y), one row a point and one column a candidate.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        candidates : collection of outputs, optional
            Other candidates than `candidates_`.
        """
        points = self._check_new(X)
        scores = self._scores(self._candidates(candidates)[0])
        domain, m = self.kernel_.domain, len(scores.offset)
        out = np.empty((domain.size(points), m))
        for rows in row_blocks(len(out), 32 * m):
            out[rows] = self._finite(np.asarray(scores(domain.take(points, rows))))
        return out

    def predict(self, X: Any, candidates: Any = None) -> Any:
        """Return the candidate of largest score for each point, the first of those that tie.

        Parameters
        ----------
        X : collection of points
            New points; when precomputed, their kernel values with the training points.
        candidates : collection of outputs, optional
            Other candidates than `candidates_`.

        Returns
        -------
        array or collection
            Outputs as they were given: an array of the same kind, or an array of objects where
            they came as a list of objects.
        """
        points = self._check_new(X)
        C, given = self._candidates(candidates)
        scores, domain = self._scores(C), self.kernel_.domain
        best = np.empty(domain.size(points), dtype=np.intp)
        for rows in row_blocks(len(best), 32 * len(scores.offset)):
            values = self._finite(np.asarray(scores(domain.take(points, rows))))
            best[rows] = values.argmax(axis=1)
        return show(given, best)

    @speaks
    def loo(self, X: Any = None, *, groups: Any = None) -> Any:
        """Return the output of each training point, predicted by a fit without that point; exact.

        Its own output stays among the candidates. Kernels and α are those of the fitted model.

        Parameters
        ----------
        X : array of shape (n, n), optional
            The training Gram matrix, needed again only when the kernel is precomputed.
        groups : sequence of n labels, optional
            Rows of one group are left out together.
        """
        shares = self._loo_targets(X, groups)
        C, given = self._candidates(None)
        L, bias = self._likeness(C)
        return show(given, (shares @ L + bias).argmax(axis=1))

    @speaks("StructuredKernelRidge.score")
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of points whose output is predicted exactly.

        Parameters
        ----------
        X : collection of n points, RowBlocks, or dask array or frame
            Points; when precomputed, their kernel values with the training points.
        y : collection of n outputs, optional
            Their outputs; of `RowBlocks` those that the blocks carry.
        sample_weight : array of shape (n,), optional
            Weights of the points.
        """
        if is_stream(X):
            return judged_blocks(self, X, y, sample_weight, ExactHits(who(), self.output_kernel_))
        y = given_targets(y, self)
        said, _ = canonical(self.output_kernel_, self.predict(X), "prediction")
        true, _ = canonical(self.output_kernel_, y, "y")
        n = self.output_kernel_.domain.size(said)
        if self.output_kernel_.domain.size(true) != n:
            raise InvalidInput(f"{who()}: X has {n} rows and y has another number of outputs.")
        weights = check_weights(sample_weight, n)
        return float(np.average(hits(said, true), weights=weights))


def _marks(codes: np.ndarray, count: int) -> np.ndarray:
    E = np.zeros((len(codes), count))
    rows = np.flatnonzero(codes >= 0)
    E[rows, codes[rows]] = 1.0
    return E
