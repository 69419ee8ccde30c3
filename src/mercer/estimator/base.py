"""What every estimator with a kernel shares: the kernel it was given, and checked points."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache
from inspect import signature
from itertools import combinations
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_clusterer
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from mercer import checks, state
from mercer.domains import (
    Bags,
    Domain,
    IncompleteVectors,
    Numbers,
    Objects,
    Table,
    Tables,
    Vectors,
    is_torch,
    odd_point,
    refuse_odd_arrays,
    same_points,
    to_host,
)
from mercer.domains.blocks import no_weight
from mercer.domains.tables import is_frame, rows_of_objects
from mercer.errors import (
    InvalidInput,
    WrongType,
    available_if,
    name_keywords,
    refusal,
    said,
    speaks,
    who,
)
from mercer.estimator.blocks import let_blocks_in, refuse_unread
from mercer.estimator.messages import (
    explain_parameter,
    explain_points,
    explain_targets,
    refuse_dates,
)
from mercer.estimator.plan import tell_plan
from mercer.kernels import Kernel, as_kernel, require_psd
from mercer.losses import as_loss
from mercer.rkhs import Function
from mercer.threads import blas_for

if TYPE_CHECKING:
    from mercer.rkhs import Explanation

HEAVIEST = 1e305  # weights together, which are multiplied by losses and kernel values
LARGE = 1e150  # coefficients whose products with kernel values may overflow
CHECKED = 2**18  # numbers that are looked at at once: a truth value for each takes memory too


@speaks
def set_params(self: Any, **params: Any) -> Any:
    """Set parameters; ``kernel__length_scale`` reaches into a kernel given by its name too.

    So does ``loss__delta`` into a loss.

    Parameters
    ----------
    **params : dict
        Parameters of the estimator, and of its kernel as ``kernel__name``.

    Returns
    -------
    estimator
        The estimator itself.
    """
    kernel = params.get("kernel", getattr(self, "kernel", None))
    if isinstance(kernel, str) and any(name.startswith("kernel__") for name in params):
        params = {**params, "kernel": as_kernel(kernel, getattr(self, "_offset", 1.0))}
    if any(name.startswith("loss__") for name in params) and hasattr(self, "loss"):
        given = params.get("loss", getattr(self, "loss", None))
        loss = as_loss(given, who())
        params = {**params, "loss": copy(loss)}  # that of the caller stays as it is
    try:
        return BaseEstimator.set_params(self, **params)
    except ValueError as error:
        text = explain_parameter(error, params, list(signature(type(self)).parameters))
        if text is None:
            raise
        raise InvalidInput(text) from error


def kernel_of(model: Any) -> Kernel:
    """Return the kernel that a parameter of an estimator means, words of it still open."""
    return as_kernel(model.kernel, getattr(model, "_offset", 1.0))


class TakesKernel:
    """The part of an estimator that reads its kernel and its points; scikit-learn's base follows.

    Parameters
    ----------
    kernel : Kernel, str or callable
        A Kernel, a short name such as "rbf", "precomputed", or a function of two points.
    """

    #: What its parameters may be, as far as each by itself tells, beside what its bases tell.
    _parameters: checks.Constraints = {}
    #: Learned attributes: the whole fitted state, and what a model file holds.
    _learned: tuple[str, ...] = ()
    #: What they are, as a table, whose names then are those attributes; and what else must hold.
    _state: state.State = {}
    _rules: tuple[state.Rule, ...] = ()
    #: Whether k must be positive semidefinite; not where its values are features or weights alone.
    _needs_psd: bool = True
    #: Whether the parameter may be a Kernel, although what weighs the points is none.
    _takes_kernels: bool = False
    #: Whether any kernel will do, so that words on data may advise another one.
    _any_kernel: bool = True
    #: The offset of kernel="poly": of scikit-learn's machines 0, of its other estimators 1.
    _offset: float = 1.0
    #: Whether tensors stay tensors, on their device and in their precision; else they become NumPy.
    _on_device: bool = False
    kernel: Any
    kernel_: Kernel
    X_fit_: Any
    set_params = set_params

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        cls._parameters = super(cls, cls)._parameters | vars(cls).get("_parameters", {})  # type: ignore[misc]
        if "_state" in vars(cls):
            cls._learned = tuple(cls._state)
        let_blocks_in(cls)
        name_keywords(cls)

    @contextmanager
    def _all_or_nothing(self, X: Any) -> Iterator[None]:
        """Forget an earlier fit, and bring it back when this one fails or is interrupted.

        Of few points BLAS is held to one thread.
        """
        before = dict(vars(self))
        try:
            for name in self._learned:
                self.__dict__.pop(name, None)
            with blas_for(X):
                yield
        except BaseException:
            self.__dict__ = before  # in one step, so that a second Ctrl-C finds it whole
            raise

    def _check_state(self) -> None:
        """Refuse a state read from a file whose parts do not belong together."""
        state.check_state(self)

    def __getstate__(self) -> dict[str, Any]:
        # A tensor among the parameters belongs to a device that a pickle may not find again.
        state: Any = super().__getstate__()
        return {name: to_host(value, name) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickle of before has the defaults of parameters that came since.
        super().__setstate__({**defaults_of(type(self)), **state})  # type: ignore[arg-type, misc]

    # -- the kernel ---------------------------------------------------------------------------
    @speaks
    def _kernel(self) -> Kernel:
        kernel = as_kernel(self.kernel, self._offset)
        if self._needs_psd:
            require_psd(kernel)
        return kernel

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        try:
            given = self.kernel
            domain = (given if isinstance(given, Kernel) else as_kernel(given)).domain
        except InvalidInput:  # fit will say what is wrong with the kernel
            domain = Vectors()
        pairwise = not domain.holds_points
        tags.input_tags.allow_nan = isinstance(domain, IncompleteVectors)
        tags.input_tags.pairwise = pairwise
        tags.input_tags.sparse = True
        return tags

    # -- data ---------------------------------------------------------------------------------
    @speaks
    def _check_X(self, X: Any, kernel: Kernel, *, reset: bool) -> Any:
        """Return the canonical collection; tables of numbers go through scikit-learn's checks."""
        if type(kernel.domain) is Vectors:
            if self._becomes_double(X, reset):
                X = X.astype(np.float64)
            if _is_ready(X) and X.ndim == 2:
                self._see_columns(X, reset)
                return X
        refuse_unread(X)
        if is_torch(X) and self._on_device and type(kernel.domain) is Vectors:
            return self._check_tensor(X.detach(), kernel.domain, reset)
        if is_torch(X):
            X = to_host(X)
        elif isinstance(X, dict) and not sp.issparse(X):  # a dok_matrix is a dict too
            X = Table(X)
        domain = kernel.domain
        if isinstance(domain, IncompleteVectors) and isinstance(X, np.ma.MaskedArray):
            X = domain.check(X)
        refuse_odd_arrays(X, "X")
        given = X
        if not isinstance(X, str | bytes | int | float | None) and not _is_collection(X):
            cure = f"give {domain.name} in an array, a list or a data frame"
            if hasattr(X, "collect"):  # a frame of polars or dask that is not read yet
                cure = "it is not read yet, so pass X.collect()"
            raise refusal(who(), f"X is a {type(X).__name__}, no collection of points; {cure}.")
        frame = not isinstance(X, np.ndarray) and (isinstance(X, Table) or is_frame(X))
        rows_of_numbers = isinstance(domain, Vectors | IncompleteVectors)
        matrix = not domain.holds_points
        mixed = isinstance(domain, Tables) and not frame and rows_of_objects(X) is not None
        plain = (
            rows_of_numbers
            or matrix
            or (
                isinstance(domain, Tables | Objects)
                and not (frame or mixed)
                and (_is_numeric(X) or sp.issparse(X) or isinstance(domain, Tables))
            )
        )
        try:
            if not plain:
                columns = domain.columns if isinstance(domain, Tables) else None
                if frame and not isinstance(X, Table) and (reset or columns is None):
                    validate_data(self, X, reset=reset, skip_check_array=True)
                X = self._some_points(domain.check(X), domain)
                if columns is not None and isinstance(X, Table) and X.named:
                    self._owned(X.select, columns)  # names a column that is not there
                if isinstance(domain, Bags) and not reset and "X_fit_" in vars(self):
                    # Bags that are all empty do not say what their points are; those of the fit do.
                    X = domain.match(X, vars(self)["X_fit_"])[0]
                return X
            if odd_point(X) is not None:
                raise ValueError("X holds what is no row of numbers")
            if isinstance(domain, Numbers) and np.ndim(X) == 1 and not frame:
                X = np.reshape(np.asarray(X), (-1, 1))
            if matrix and sp.issparse(X):
                X = self._owned(self._gram_rows, X, kernel)
            check: Any = validate_data
            if frame and rows_of_numbers:
                if not isinstance(X, Table):
                    validate_data(self, X, reset=reset, skip_check_array=True)
                    check = _check_array  # the names are noted, and an array would forget them
                X = self._owned(Table.from_frame(X).numeric)  # names a column of text or dates
            # Missing numbers are for the kernel to judge, where it may take some.
            finite: Any = "allow-nan" if isinstance(domain, Tables | IncompleteVectors) else True
            if isinstance(domain, IncompleteVectors) and not frame:
                X = domain.check(X)  # None and NA are missing too
            if _is_ready(X) and X.ndim == 2 and check is validate_data:
                self._see_columns(X, reset)
                return domain.check(X)
            # Models compute in float64 whatever the data, but for methods that ask: a Gram matrix
            # in float32 is indefinite by rounding, and large coefficients would multiply the
            # rounding of predictions.
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused as inf
                X = check(
                    self,
                    X,
                    reset=reset,
                    accept_sparse="csr",
                    dtype=self._precision(reset) if type(domain) is Vectors else np.float64,
                    order="C",
                    ensure_all_finite=finite,
                )
        except InvalidInput:
            raise
        except (OverflowError, TypeError, ValueError) as error:
            free = (self._takes_kernels or isinstance(kernel, Kernel)) and "kernel" in vars(self)
            free = free and self._any_kernel
            refused = explain_points(error, given, domain, any_kernel=free)
            if isinstance(error, TypeError) and (isinstance(given, np.ndarray) or frame):
                refused = refusal(who(), said(refused, who()), WrongType)
            raise refused from error
        if not matrix or not sp.issparse(X):
            X = domain.check(X)
        if reset and matrix and is_single(given):
            return domain.without_noise(X)
        return X

    def _gram_rows(self, X: Any, kernel: Kernel) -> Any:
        """Return a sparse matrix of kernel values in the form that the model computes with."""
        return kernel.domain.dense(X)  # type: ignore[attr-defined]

    def _see_columns(self, X: np.ndarray, reset: bool) -> None:
        """Do for a plain array what scikit-learn's `validate_data` does, in less time."""
        held = vars(self)
        if reset:
            held.pop("feature_names_in_", None)
            held["n_features_in_"] = X.shape[1]
        elif "feature_names_in_" in held or held.get("n_features_in_") != X.shape[1]:
            self._validate_columns(X, False)  # warns or refuses

    def _validate_columns(self, X: Any, reset: bool) -> None:
        """Note or compare names and number of columns, by scikit-learn's own check."""
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)
        except ValueError as error:  # another number of columns
            raise InvalidInput(str(error)) from error

    def _precision(self, fit: bool) -> Any:
        """Return the precision of rows of numbers; a pair, the first of which is for other types.

        Single precision is for methods that sum over many rows and keep few of them.
        """
        return np.float64

    def _becomes_double(self, X: Any, reset: bool) -> bool:
        """Whether X is a plain table in single precision, of which a copy in double is wanted."""
        plain = type(X) is np.ndarray and X.dtype == np.float32 and X.ndim == 2
        return plain and X.flags.c_contiguous and self._precision(reset) is np.float64

    def _check_tensor(self, X: Any, domain: Domain, reset: bool) -> Any:
        """Return rows of a tensor where they are, checked as those of an array."""
        X = self._some_points(self._owned(domain.check, X), domain)
        self._validate_columns(X, reset)
        return X

    def _owned(self, do: Callable[..., Any], *arguments: Any) -> Any:
        """Do something; say it of this estimator where it is refused."""
        try:
            return do(*arguments)
        except InvalidInput as error:
            own = type(self).__name__
            raise refusal(own, said(error, own, "Vectors", "Table", "Precomputed")) from None

    def _some_points(self, X: Any, domain: Domain) -> Any:
        """Return points that are no vectors, or refuse a collection of none, as of vectors."""
        if domain.size(X) == 0:
            raise refusal(
                type(self).__name__,
                f"X has 0 points ({domain.name}); a minimum of 1 is required. Give at least one.",
            )
        return X

    def _finite(self, values: np.ndarray) -> np.ndarray:
        """Return values at new points, or refuse a point at which the kernel overflows."""
        n = len(values)
        step = max(1, CHECKED * n // max(1, values.size))
        if not all(np.isfinite(values[a : a + step]).all() for a in range(0, n, step)):
            i = int(np.argmin(np.isfinite(values.reshape(n, -1)).all(axis=1)))
            if (top := _largest_coefficient(self)) > LARGE:
                raise InvalidInput(
                    f"{type(self).__name__}: values at row {i} of X overflow, for the fit has "
                    f"coefficients as large as {top:.2g}, as its targets are; divide y by their "
                    "size before the fit."
                )
            raise InvalidInput(
                f"{type(self).__name__}: {self.kernel_} overflows at row {i} of X; such a point "
                "is far outside the training data. Scale the columns as in training."
            )
        return values

    def _by_name(self, points: Any, kernel: Kernel, name: str) -> Any:
        """Return points of a parameter; a frame is matched with the rows as new points are.

        Columns that have other names than those of the fit, or another order, are refused.
        """
        if not (is_frame(points) and hasattr(self, "feature_names_in_")):
            return points
        try:
            return self._check_X(points, kernel, reset=False)
        except InvalidInput as error:
            own = type(self).__name__
            raise InvalidInput(f"{own}: {name}: {said(error, own)}") from error

    def _check_new(self, X: Any) -> Any:
        """Return new points for a fitted model."""
        if "kernel_" not in vars(self):
            check_is_fitted(self)
        return self._check_X(X, self.kernel_, reset=False)

    @speaks
    def _points_again(self, X: Any, verb: str) -> Any:
        """Return the training points; where they are given again they must be those of the fit.

        Of points known by a Gram matrix alone that matrix, which must be given again.
        """
        domain = self.kernel_.domain
        domain.require_again(X, verb)
        if X is None:
            return self.X_fit_
        again = to_host(self._check_X(X, self.kernel_, reset=False))
        if not domain.holds_points:
            return domain.check_training(again)
        check_same_points(domain, again, self.X_fit_, verb)
        return self.X_fit_


def new_points(model: Any, X: Any) -> Any:
    """Return new points for a fitted model, read as its `predict` reads them."""
    return model._check_new(X)


def posterior_of(model: Any) -> Any:
    """Return what a process knows of linear functionals of its function, and its units; or None.

    A function of ℓ(k(xᵢ, ·)), a column for each functional ℓ, of None and of ℓ(1), which returns by
    how much the rows lower the variances.
    """
    return model._posterior_of_shares() if isinstance(model, KernelEstimator) else None


@dataclass(frozen=True, eq=False)
class FitsLeftOut:
    """The fits without each one of the rows ``X_fit_``, from the fit to all of them.

    Parameters
    ----------
    targets : ndarray of shape (n, t)
        What the rows were fitted to.
    weights : ndarray of shape (n,) or None
        Their weights.
    at : callable
        From m points and the positions of m rows of positive weight to values (m, t): at each point
        those of the fit without its row.
    """

    targets: np.ndarray
    weights: np.ndarray | None
    at: Callable[[Any, np.ndarray], np.ndarray]


def left_out_of(model: Any) -> FitsLeftOut | None:
    """Return the fits of a model without each of its rows, where they are exact; None of others."""
    return model._fits_left_out() if isinstance(model, KernelEstimator) else None


@cache
def defaults_of(cls: Any) -> dict[str, Any]:
    """Return the defaults of the parameters of a class."""
    told = signature(cls).parameters.values()
    return {p.name: p.default for p in told if p.default is not p.empty}


def check_same_points(domain: Domain, X: Any, Y: Any, verb: str) -> None:
    """Refuse points X given again for a verb that are not those of the fit, Y."""
    if not same_points(domain, X, Y):
        refuse_other_points(verb)


def refuse_other_points(verb: str) -> NoReturn:
    """Refuse points that are given again for a verb, and are not those of the fit."""
    raise InvalidInput(
        f"{who()}.{verb}: X is not what the model was fitted on; pass the training points in the "
        f"same order, or none: {verb}()."
    )


def check_weights(sample_weight: Any, n: int, *, relative: bool = False) -> np.ndarray | None:
    """Return weights as a float array, or None for equal weights of one.

    Where only relative weights matter, their sum may exceed what a number holds.
    """
    if sample_weight is None:
        return None
    sample_weight = to_host(sample_weight, "sample_weight")
    refuse_odd_arrays(sample_weight, "sample_weight")
    one = isinstance(sample_weight, int | float | np.integer | np.floating)
    if one and not isinstance(sample_weight, bool):
        sample_weight = np.full(n, checks.as_number(sample_weight))
    try:
        w = checks.as_reals(sample_weight)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{who()}: sample_weight is not an array of numbers ({error})."
        ) from error
    if w.ndim != 1:
        raise InvalidInput(f"{who()}: Sample weights must be 1D array or scalar, got {w.shape}.")
    if w.shape != (n,):
        raise InvalidInput(
            f"{who()}: sample_weight.shape == {w.shape}, expected ({n},): one weight for each row."
        )
    if not np.isfinite(w).all():
        raise InvalidInput(f"{who()}: sample_weight contains NaN or infinity; give numbers ≥ 0.")
    if (w < 0).any():
        i = int(np.argmax(w < 0))
        raise InvalidInput(f"{who()}: sample_weight[{i}] = {w[i]:g} is negative; weights are ≥ 0.")
    if not (w > 0).any():
        raise no_weight()
    with np.errstate(over="ignore"):
        if not relative and not w.sum() <= HEAVIEST:
            raise InvalidInput(
                f"{who()}: sample_weight adds up to {w.sum():.3g}; divide the weights by a number."
            )
    return w


def _check_array(estimator: Any, X: Any, *, reset: bool, **how: Any) -> Any:
    """Return what `validate_data` would, without a look at names and number of columns."""
    return check_array(X, estimator=estimator, input_name="X", **how)


def _is_ready(values: Any, any_order: bool = False) -> bool:
    """Whether an array is what scikit-learn's checks would return: finite float64 in C order."""
    plain = type(values) is np.ndarray and values.dtype == np.float64 and values.size > 0
    if not plain or not (any_order or values.flags.c_contiguous):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(values.sum())


def _is_numeric(X: Any) -> bool:
    """Whether X is a table of numbers, which scikit-learn's checks can judge."""
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiubc"


def _is_collection(X: Any) -> bool:
    """Whether X may hold points: it has a length, a shape, or says that it is an array."""
    names = ("__len__", "shape", "__array__", "__dataframe__")
    return not isinstance(X, type) and any(hasattr(X, name) for name in names)


def is_single(X: Any) -> bool:
    """Whether X came in single precision, whose rounding a Gram matrix may show."""
    if is_torch(X):
        return str(X.dtype) == "torch.float32"
    kinds: Any = getattr(X, "dtypes", None) if is_frame(X) else [getattr(X, "dtype", None)]
    try:
        return all(np.dtype(kind).itemsize <= 4 and np.dtype(kind).kind == "f" for kind in kinds)
    except TypeError:  # no dtype of numpy's, or none at all
        return False


def _largest_coefficient(model: Any) -> float:
    """Return the largest number by which a fitted model multiplies kernel values or features."""
    held = [vars(model).get(name) for name in ("dual_coef_", "coef_", "intercept_")]
    return max((float(np.abs(A).max(initial=0.0)) for A in held if A is not None), default=0.0)


# ---- Why a model says what it says: shares of columns in its function ----


def outputs_of(model: Any, f: Function) -> tuple[str, ...] | None:
    """Return the names of the outputs of a model's function: classes, pairs of them, quantiles."""
    t = f.n_outputs
    classes = getattr(model, "classes_", None)
    if classes is not None and t > 1:
        if getattr(model, "multi_class", None) == "ovo":
            return tuple(f"{b} or {a}" for a, b in combinations(classes, 2))
        if len(classes) == t:
            return tuple(map(str, classes))
    quantiles = np.ravel(getattr(model, "quantiles", None) or ())
    if len(quantiles) == t:
        return tuple(f"{q:g}" for q in quantiles)
    return None if f.coef.ndim == 1 else tuple(f"y{k}" for k in range(t))


@speaks(".explain")
def explain_model(
    self: Any,
    X: Any,
    *,
    game: str = "marginal",
    background: Any = None,
    background_weight: Any = None,
    interactions: bool = False,
    groups: Any = None,
    random_state: int = 0,
) -> Explanation:
    r"""Return the shares of columns in the values of `function_`, its Shapley values, exactly.

    They add up: f(x) = base + Σⱼ φⱼ(x), with f the prediction of a regression, the decision
    function of a machine, the log-odds of a logistic regression (of several classes, class by
    class; of machines for pairs, pair by pair). For kernels that are sums of products over columns
    shares are an integral in closed form (see `Function.explain`), a few milliseconds a row.

    Parameters
    ----------
    X : collection of n points with columns
        The rows.
    game : {"marginal", "background", "baseline"}, default="marginal"
        What a column is worth that is not known: its mean over the background, each column by
        itself; the values of one row of the background, in the mean over these (the game that
        sampling explainers approximate; for any kernel); or a factor of 1.
    background : collection of points, optional
        Rows that stand for what is not known. By default the training points that the model keeps,
        500 of them at most ("background": 100); of a machine these are its support vectors, so
        give training rows.
    background_weight : array, optional
        Their weights; a weight of 2 is a row that occurs twice.
    interactions : bool, default=False
        Whether to tell what two columns do together as well.
    groups : list of lists of columns, optional
        Columns, by name or position, that share as one.
    random_state : int, default=0
        Decides the orders of columns, where the kernel is no product and they are drawn.

    Returns
    -------
    Explanation
        ``values``, ``base``, ``columns``, ``data``, and ``interactions`` or ``std`` where there
        are such.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, KernelRidge
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    >>> model = KernelRidge(RBF()).fit(X, [0.0, 1.0, 4.0])
    >>> told = model.explain(X)
    >>> bool(np.allclose(told.base + told.values.sum(axis=1), model.predict(X)))
    True
    """
    f = self.function_
    checks.check_index(random_state, "random_state", 0)
    rows = self._check_new(X)
    if background is not None:
        background = self._check_new(background)
    from mercer.rkhs import explain

    return explain(
        f,
        rows,
        game=game,
        background=background,
        background_weight=background_weight,
        interactions=interactions,
        groups=groups,
        columns=getattr(self, "feature_names_in_", None),
        outputs=outputs_of(self, f),
        random_state=random_state,
        slopes=getattr(self, "mean_coef_", None),
        posterior=self._posterior_of_shares(),
    )


def has_function(model: Any) -> bool:
    """Whether a model is a function of a point, whose values columns have shares of."""
    cls = type(model)
    if is_clusterer(model):
        return False
    return cls.function_ is not KernelEstimator.function_ or "dual_coef_" in cls._learned


# ---- What every kernel estimator shares: a kernel and checked points, and the solution it holds.


class KernelEstimator(TakesKernel, BaseEstimator):
    """Base of all models: scikit-learn outside; inside check, kernel, Gram, problem, solve, store.

    Parameters
    ----------
    kernel : Kernel, str or callable
        A Kernel, a short name such as "rbf", "precomputed", or a function of two points.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel used, with words such as "median" resolved on the training data.
    function_ : Function
        The solution f = Σ αᵢ k(xᵢ, ·) + b.
    solution_ : Solution
        The certificate of the fit.
    """

    _state = state.others(*state.SOLVED)  # a model of mercer's own tells more of them
    plan = tell_plan
    explain = available_if(has_function)(explain_model)

    def _posterior_of_shares(self) -> Any:
        """Return what a process knows of linear functionals of its function; see `explain`."""
        return None

    def _fits_left_out(self) -> FitsLeftOut | None:
        """Return the fits without each of the rows, where one fit tells them exactly."""
        return None

    @property
    def function_(self) -> Function:
        """The solution as a function in the RKHS (plus its offset)."""
        check_is_fitted(self)
        return Function(self.kernel_, self.X_fit_, self.dual_coef_, self.intercept_)


def check_targets(y: Any, n: int) -> np.ndarray:
    """Return numeric targets of shape (n,) or (n, t) as float64."""
    if y is None:
        raise InvalidInput(
            f"{who()}: requires y to be passed, but the target y is None; pass fit(X, y)."
        )
    y = to_host(y, "y")
    if _is_ready(y, any_order=True) and y.ndim in (1, 2) and len(y) == n:
        return y
    refuse_odd_arrays(y, "y")
    refuse_dates(y)
    if isinstance(y, numbers.Number) or (isinstance(y, np.ndarray) and y.ndim == 0):
        raise InvalidInput(f"{who()}: y={y!r} is one value; give one for each row: [{y!r}].")
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused as inf
            how: Any = {"ensure_2d": False, "allow_nd": True, "dtype": np.float64}
            y = check_array(y, **how, input_name="y", estimator=who())
    except (OverflowError, TypeError, ValueError) as error:
        raise explain_targets(error, y) from error
    if y.ndim > 2:
        raise InvalidInput(f"{who()}: y has {y.ndim} dimensions; give (n,) or (n, outputs).")
    if len(y) != n:
        raise InvalidInput(
            f"{who()}: X has {n} rows and y has {len(y)}; inconsistent numbers of samples."
        )
    return y
