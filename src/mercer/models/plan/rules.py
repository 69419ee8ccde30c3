"""Which rules plan which estimator, and the data that they are given."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from mercer.domains import GramRows, RowBlocks, to_host
from mercer.errors import InvalidInput
from mercer.estimator import (
    Plan,
    SolverOptions,
    check_labels,
    check_targets,
    find_classes,
    is_stream,
    named_centers,
)
from mercer.features import choose_landmarks
from mercer.kernels import RBF, Kernel
from mercer.models.plan import ways
from mercer.models.plan.plan import Study, plan_ridge, plan_smooth
from mercer.models.plan.ways import plan_clusters, plan_components, plan_spectral

LOOKED_AT = 2000  # points that decide on words such as "median" in a plan

Rule = Callable[[Any, Study], Plan]


def _ridge(model: Any, study: Study) -> Plan:
    options = SolverOptions.of(model)
    plan = plan_ridge(
        study.kernel,
        study.X,
        study.facts.outputs,
        solver=options.wanted,
        alpha=model._check_alpha(study.facts.outputs),
        **_centers(model, options, study),
        tol=options.tol,
        offset=bool(model.fit_intercept),
        owner=study.owner,
    )
    return _told(plan, options)


def _smooth(model: Any, study: Study) -> Plan:
    loss, alpha, _, options = model._check_params()
    if not loss.smooth:
        return ways.plan_kinked(model, study)
    if options.solver == "sgd":
        return ways.plan_gradients(model, study)
    plan = plan_smooth(
        study.kernel,
        study.X,
        study.facts.outputs,
        solver=options.wanted,
        alpha=alpha,
        **_centers(model, options, study),
        owner=study.owner,
    )
    return _told(plan, options)


def _centers(model: Any, options: SolverOptions, study: Study) -> dict[str, Any]:
    """Return how many centres are asked for, and those that the user gave, as a fit takes them."""
    if isinstance(options.centers, str):
        return {"n_centers": options.n_centers, "centers": None}
    how = named_centers(model, options, study.kernel).centers
    Z, _ = choose_landmarks(
        study.kernel, study.X, study.facts.n, how, owner=study.owner, name="centers"
    )
    return {"n_centers": study.kernel.domain.size(Z), "centers": Z}


def _told(plan: Plan, options: SolverOptions) -> Plan:
    """Return the plan with the reason that a fit gives, where centres were asked for."""
    why = plan.why
    if options.wanted != options.solver:
        why = why.replace(f"You chose solver={options.wanted!r}.", "You asked for centres.")
    if plan.method == "falkon" and (options.n_centers or 0) > plan.n_rows:
        why += f" n_centers={options.n_centers} is more than the {plan.n_rows} rows: all are taken."
    return replace(plan, why=why)


#: Rules by the name of the class, or of one that it derives from.
RULES: dict[str, Rule] = {
    "Ridge": _ridge,
    "KernelLogisticRegression": _smooth,
    "KernelERM": _smooth,
    "KernelPCA": plan_components,
    "KernelKMeans": plan_clusters,
    "SpectralClustering": plan_spectral,
    "GaussianProcessRegressor": ways.plan_process,
    "GaussianProcessClassifier": ways.plan_classes,
    "SparseGaussianProcessRegressor": ways.plan_inducing,
    "SVC": ways.plan_machine,
    "SVR": ways.plan_machine,
    "NuSVC": ways.plan_machine,
    "NuSVR": ways.plan_machine,
    "OneClassSVM": ways.plan_machine,
    "KernelQuantileRegressor": ways.plan_machine,
    "KernelDensity": ways.plan_density,
}

#: Rules of estimators without targets.
UNSUPERVISED = (
    plan_components,
    plan_clusters,
    plan_spectral,
    ways.plan_density,
)


def rule_of(kind: type) -> Rule | None:
    """Return the rule of a class; None where there is none."""
    return next((RULES[base.__name__] for base in kind.__mro__ if base.__name__ in RULES), None)


def plan_of(model: Any, X: Any, y: Any = None) -> Plan:
    """Return the plan of an estimator for data as its ``fit`` takes them.

    Parameters
    ----------
    model : estimator
        One with a rule; it is not changed.
    X : collection or RowBlocks
        The data.
    y : array, optional
        The target.
    """
    owner = type(model).__name__
    rule = rule_of(type(model))
    if rule is None:
        raise InvalidInput(f"{owner}: there are no rules to plan it by; call fit.")
    model = copy(model)  # checks leave names and numbers of columns behind
    stream = is_stream(X)
    if stream and rule not in (_ridge, _smooth):
        raise InvalidInput(
            f"{owner}: rows in blocks are for KernelRidge, KernelRidgeClassifier, "
            "KernelLogisticRegression and KernelERM; give an array."
        )
    if stream and not isinstance(X, RowBlocks):
        X, y = RowBlocks.from_dask(X, y), None
    kernel, X, some = _stream(model, X) if stream else _points(model, X)
    if stream and y is None:
        y = some.y
    elif y is not None and rule not in UNSUPERVISED:
        y = _checked(model, y, X.n_rows if stream else kernel.domain.size(X), owner)
    outputs = _outputs(model, y)
    study = Study(kernel, X, outputs, owner, random_state=_seed(model))
    return rule(model, study)


def _points(model: Any, X: Any) -> tuple[Kernel, Any, Any]:
    kernel = RBF(1.0) if _smooths(model) else model._kernel()
    X = model._check_X(X, kernel, reset=True)
    kernel.domain.check_training(X)
    return _resolved(kernel, X), X, None


def _stream(model: Any, X: Any) -> tuple[Kernel, Any, Any]:
    first = next(iter(X))  # the others are alike
    kernel = model._kernel()
    points = first.points(kernel.domain)
    return _resolved(kernel, points), X, first


def _smooths(model: Any) -> bool:
    """Whether its kernel is a smoothing one, of which the gaussian tells the cost."""
    return rule_of(type(model)) is ways.plan_density


def _resolved(kernel: Kernel, X: Any) -> Kernel:
    """Return the kernel with words taken from some points; that is exact enough for a plan."""
    if not kernel._asks() or isinstance(kernel.domain, GramRows):
        return kernel.fit_params(X) if kernel._asks() else kernel
    n = kernel.domain.size(X)
    index = np.unique(np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(int))
    return kernel.fit_params(kernel.domain.take(X, index))


def _checked(model: Any, y: Any, n: int, owner: str) -> Any:
    """Return targets or labels, one for each of n rows, or refuse them as fit does."""
    if not is_classifier(model):
        return check_targets(to_host(y), n, owner)
    y = check_labels(y, n, owner)
    find_classes(y, owner)
    return y


def _outputs(model: Any, y: Any) -> int:
    if y is None:
        return 1
    y = np.asarray(y)
    if is_classifier(model):
        classes = len(np.unique(y))
        return classes if classes > 2 else 1
    return int(y.shape[1]) if y.ndim == 2 else 1


def _seed(model: Any) -> int:
    seed = getattr(model, "random_state", None)
    return int(seed) if isinstance(seed, int | np.integer) and not isinstance(seed, bool) else 0
