"""Why a model says what it says: shares of columns in its function, by exact Shapley values."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from mercer.checks import check_index
from mercer.errors import speaks
from mercer.rkhs import Explanation, Function, explain


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
    """
    f = self.function_
    check_index(random_state, "random_state", 0)
    rows = self._check_new(X)
    if background is not None:
        background = self._check_new(background)
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
    )


def has_function(model: Any) -> bool:
    """Whether a model is a function of a point, whose values columns have shares of."""
    from mercer.estimator.base import KernelEstimator

    cls = type(model)
    return cls.function_ is not KernelEstimator.function_ or "dual_coef_" in cls._learned
