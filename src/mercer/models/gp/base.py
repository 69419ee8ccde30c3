"""What Gaussian process models share: a kernel that may be left out, and options of the search."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.domains import Table, Tables, is_torch, to_host
from mercer.errors import InvalidInput, speaks, who
from mercer.estimator import KernelEstimator
from mercer.kernels import RBF, Kernel
from mercer.rkhs import Function

EVALUATIONS = 5  # of the evidence of all rows, as a rule
LBFGS = ("lbfgs", "fmin_l_bfgs_b")  # the latter is scikit-learn's word


def default_kernel() -> Kernel:
    """Return what ``kernel=None`` means: a scaled RBF that starts at the median distance."""
    return 1.0 * RBF("median")


#: What the parameters of a search may be.
SEARCH: checks.Constraints = {
    "optimizer": checks.Maybe(
        checks.Either(
            checks.Word(*LBFGS),
            checks.Legal(lambda f: callable(f) and not isinstance(f, Kernel), "a function"),
            says="give 'lbfgs', None, or a function of (objective, theta, bounds) that returns "
            "(theta, value)",
        )
    ),
    "n_restarts": checks.Whole(0, says="give a whole number of 0 or more"),
    "max_iter": checks.SOME,
    "tol": checks.Number(above=0),
    "random_state": checks.Read(lambda value: checks.as_rng(value, "random_state")),
}


def set_process_params(self: Any, **params: Any) -> Any:
    """Set parameters; ``kernel__k2__length_scale`` reaches into the default kernel too.

    Parameters
    ----------
    **params : dict
        Parameters of the estimator, and of its kernel as ``kernel__name``.

    Returns
    -------
    estimator
        The estimator itself.
    """
    deep = any(name.startswith("kernel__") for name in params)
    if deep and params.get("kernel", self.kernel) is None:
        params = {**params, "kernel": default_kernel()}
    return KernelEstimator.set_params(self, **params)


def evaluations(model: Any) -> int:
    """Evaluations of the evidence on all rows, at least one."""
    check_is_fitted(model, "dual_coef_")
    return 1 if model.search_ is None else max(1, int(model.search_.n_evaluations))


def mean_function(model: Any) -> Function:
    """The posterior mean as a function in the RKHS, plus its offset."""
    check_is_fitted(model, "dual_coef_")
    return Function(model.kernel_, model.X_fit_, model.dual_coef_, model.intercept_)


@speaks
def check_search(model: Any) -> bool:
    """Check the options of the search, and return whether there is to be one."""
    checks.check_parameters(model)
    return model.optimizer is not None


def search_options(model: Any) -> dict[str, Any]:
    """Return the options of `maximise` that a model has for its search."""
    return {
        "n_restarts": model.n_restarts,
        "max_iter": model.max_iter,
        "tol": model.tol,
        "optimizer": model.optimizer if callable(model.optimizer) else None,
    }


@speaks
def search_rng(model: Any) -> Any:
    """Return the source of randomness of a fit; the same for every fit unless given."""
    seed = 0 if model.random_state is None else model.random_state
    rng = checks.as_rng(seed, "random_state")
    if isinstance(rng, np.random.RandomState):
        return rng
    return np.random.RandomState(int(rng.integers(2**32 - 1)))


def row_key(X: Any, Y: np.ndarray) -> np.ndarray:
    """Return numbers that tell rows apart, however they are ordered; x too where it has any."""
    numeric = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"
    return np.hstack([Y, X]) if numeric and len(X) == len(Y) else Y


# ---- Several outputs as one: rows that say of which output they speak, for kernels on both ----


COLUMN = "output"


@speaks("stack_outputs")
def stack_outputs(X: Any, Y: Any) -> tuple[Any, np.ndarray]:
    """Return rows (x, output) and their targets, of points with several outputs.

    A model of one output whose kernel looks at x and at the output knows that outputs are
    correlated: what is seen of one tells about the others, also where those were not observed.
    `mercer.Coregion` is a kernel on the output.

    Outputs share the mean and the noise of the model: bring them to one unit and subtract their
    means first, unless they are comparable as they are.

    Parameters
    ----------
    X : array of shape (n, d), sparse matrix, or frame
        The points.
    Y : array of shape (n, n_outputs)
        Their targets, NaN where an output was not observed.

    Returns
    -------
    rows : array of shape (m, d + 1), sparse matrix, or Table
        The observed pairs, all of output 0 first; the number of the output is the last column,
        called "output" in a table.
    y : array of shape (m,)
        Their targets.

    Examples
    --------
    Two outputs that move against each other, the second seen on the left only:

    >>> import numpy as np
    >>> from mercer import RBF, Coregion, GaussianProcessRegressor, for_output, stack_outputs
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> Y = np.column_stack([np.sin(X[:, 0]), -np.sin(X[:, 0])])
    >>> Y[X[:, 0] > 3, 1] = np.nan
    >>> rows, y = stack_outputs(X, Y)
    >>> model = GaussianProcessRegressor(RBF().on([0]) * Coregion(2).on([1])).fit(rows, y)
    >>> model.predict(for_output([[3 * np.pi / 2]], 1)).round(1)
    array([1.])
    >>> bool(model.kernel_.k2.kernel.output_correlation()[0, 1] < -0.9)
    True
    """
    X = _points(X)
    n = Tables().size(X)
    try:
        targets = np.asarray(Y.detach().cpu() if is_torch(Y) else Y, dtype=float)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"stack_outputs: Y is not a matrix of numbers ({error}).") from error
    if targets.ndim != 2 or len(targets) != n:
        raise InvalidInput(
            f"stack_outputs: Y has shape {targets.shape} for {n} points; give ({n}, n_outputs), "
            "with NaN where an output was not observed."
        )
    if np.isinf(targets).any():
        i, j = np.argwhere(np.isinf(targets))[0]
        raise InvalidInput(
            f"stack_outputs: Y[{i}, {j}] is infinite; give numbers, or NaN for what was not "
            "observed."
        )
    outputs, points = np.nonzero(~np.isnan(targets.T))
    if not len(points):
        raise InvalidInput("stack_outputs: Y is NaN everywhere; at least one target is needed.")
    return _with_output(Tables().take(X, points), outputs), targets[points, outputs]


@speaks("for_output")
def for_output(X: Any, output: Any) -> Any:
    """Return rows (x, output), to ask a model of `stack_outputs` about one output.

    Parameters
    ----------
    X : array of shape (m, d), sparse matrix, or frame
        The points.
    output : int or array of shape (m,)
        The output to ask for, counted from 0; or one for each point.

    Returns
    -------
    array of shape (m, d + 1), sparse matrix, or Table
        The rows, of the kind that `stack_outputs` makes.

    Examples
    --------
    >>> from mercer import for_output
    >>> for_output([[0.5], [0.7]], 1)
    array([[0.5, 1. ],
           [0.7, 1. ]])
    """
    X = _points(X)
    m = Tables().size(X)
    given = np.asarray(output)
    if given.dtype.kind not in "iu" or given.shape not in ((), (m,)) or (given < 0).any():
        raise InvalidInput(
            f"for_output: output={output!r}; give a whole number ≥ 0, or one for each of the {m} "
            "points."
        )
    return _with_output(X, np.broadcast_to(given, (m,)))


def _points(X: Any) -> Any:
    X = Tables().check(to_host(X))
    if isinstance(X, Table) and COLUMN in X.names:
        raise InvalidInput(
            f"{who()}: X has a column {COLUMN!r} already, the name of the one that is added; "
            "rename it."
        )
    return X


def _with_output(X: Any, outputs: np.ndarray) -> Any:
    column = outputs.astype(float)
    if isinstance(X, Table):
        return Table({**dict(zip(X.names, X.columns, strict=True)), COLUMN: column})
    if sp.issparse(X):
        return sp.hstack([X, sp.csr_array(column[:, None])]).tocsr()
    return np.column_stack([X, column])


def expected_evaluations(model: Any) -> float:
    """Return how often a search asks for the evidence of all rows, as a rule."""
    return EVALUATIONS * (1 + int(model.n_restarts) / 3)
