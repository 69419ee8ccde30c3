"""What a model or a kernel says of points, as plain JSON, and whether two sayings are the same."""

import inspect
import re

import numpy as np
import scipy.sparse as sp

from mercer.domains import Packed, Table
from mercer.errors import MercerError
from tests.net.points import encode

TOL = 1e-10
#: Numbers nearer to zero than this are zero up to rounding.
ZERO = 1e-14

#: Verbs of fitted estimators that take points and nothing else.
OF_POINTS = (
    "predict",
    "decision_function",
    "pairwise_decision_function",
    "predict_proba",
    "predict_log_proba",
    "predict_joint_log_proba",
    "transform",
    "encode",
    "features",
    "distances",
    "kneighbors",
    "residual",
    "score_samples",
    "reconstruction_error",
    "posterior_variance",
    "mean_gradient",
    "variance_gradient",
    "latent_mean_and_variance",
    "latent_mean_and_covariance",
)
#: Verbs that take nothing: they speak of the training points, or of the model.
OF_NOTHING = (
    "loo",
    "loo_decision_function",
    "loo_proba",
    "loo_log_predictive",
    "degrees_of_freedom",
    "log_marginal_likelihood",
    "get_feature_names_out",
)
#: What a model has learned, where it is a property or follows from what a file holds.
LEARNED = ("classes_", "labels_", "coef_", "intercept_", "cluster_centers_", "inducing_points_")
#: Verbs with arguments of their own.
OTHERS = {
    "predict, return_std": lambda model, X: model.predict(X, return_std=True),
    "predict, return_cov": lambda model, X: model.predict(X, return_cov=True),
    "predict_interval": lambda model, X: model.predict_interval(X, coverage=0.8),
    "inverse_transform": lambda model, X: model.inverse_transform(model.transform(X)),
    "sample_y": lambda model, X: model.sample_y(X, 2, random_state=0),
    "sample": lambda model, X: model.sample(2, random_state=0),
    "function_": lambda model, X: model.function_(_encoded(model, X)),
}


def _encoded(model, X):
    return model.encode(X) if hasattr(model, "encode") else X


def ask(kind, model, points):
    """Return everything that a model of some kind says of points, by the name of the question."""
    questions = {"estimator": _of_estimator, "kernel": _of_kernel, "function": _of_function}[kind]
    said = {}
    for name, question in questions(model, points):
        try:
            said[name] = plain(question())
        except (MercerError, AttributeError) as error:
            said[name] = {"refused": type(error).__name__}
    return said


def _of_estimator(model, X):
    for name in OF_POINTS:
        if hasattr(model, name):
            yield name, lambda name=name: getattr(model, name)(X)
    for name in OF_NOTHING:
        if hasattr(model, name):
            yield name, getattr(model, name)
    for name in LEARNED:
        if hasattr(model, name):
            yield name, lambda name=name: getattr(model, name)
    for name, question in OTHERS.items():
        verb, _, option = name.partition(", ")
        asked = getattr(model, verb, None)
        if asked is not None and (not option or option in inspect.signature(asked).parameters):
            yield name, lambda question=question: question(model, X)


def _of_kernel(kernel, both):
    X, Y = both
    yield "repr", lambda: repr(kernel)
    yield "k(X)", lambda: kernel(X)
    known = kernel.fit_params(X)
    yield "fit_params", lambda: repr(known)
    yield "k(X, Y)", lambda: known(X, Y)
    yield "diag", lambda: known.diag(Y)
    yield "matmul", lambda: known.matmul(Y, X, np.linspace(-1.0, 1.0, known(X).shape[0]))
    yield "psd", lambda: [known.psd, known.characteristic]
    yield "theta", lambda: [known.theta, known.bounds]
    yield "theta_names", lambda: known.theta_names
    yield "with_theta", lambda: known.with_theta(known.theta + 0.1)(X)
    yield "theta_vjp", lambda: known.theta_vjp(X, _weights(known(X, Y)), Y)
    yield "gradient", lambda: known.gradient(X, Y, np.linspace(-1.0, 1.0, known(Y).shape[0]))
    yield "n_features", lambda: known.n_features(X)
    yield "features", lambda: _inner(known.features(X))


def _of_function(f, X):
    yield "repr", lambda: repr(f)
    yield "f(X)", lambda: f(X)
    yield "norm", lambda: f.norm()
    yield "gradient", lambda: f.gradient(X)


def _weights(K):
    """Weights that are not symmetric, and the same wherever they are asked for."""
    return np.cos(np.arange(K.size, dtype=float)).reshape(K.shape)


def _inner(features):
    """Features are told up to their order and signs, by their inner products."""
    product = features @ features.T
    return product.toarray() if sp.issparse(product) else np.asarray(product)


# ------------------------------------------------------------------------------------- plain JSON
def plain(value):
    """Return an answer as JSON holds it: arrays with their types, anything else part by part."""
    if isinstance(value, Table):
        return {"table": {name: plain(value[name]) for name in value.names}}
    if sp.issparse(value):
        return {"sparse": plain(value.toarray())}
    if isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
        kind = value.dtype.kind
        name = {"U": "text", "O": "object"}.get(kind, value.dtype.name)
        return {"dtype": name, "shape": list(value.shape), "values": value.ravel().tolist()}
    if isinstance(value, Packed):
        return {"points": encode(list(value))}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"an answer of type {type(value).__name__} cannot be told")


def difference(got, told, tol=TOL):
    """Return in words how an answer differs from the one that is told, or None.

    Numbers are the same up to `tol` times the largest of them, those in text up to nine digits,
    anything else exactly.
    """
    if isinstance(told, dict) and "values" in told:
        if not isinstance(got, dict) or got.keys() != told.keys():
            return f"{got} instead of {told}"
        for part in ("dtype", "shape"):
            if got[part] != told[part]:
                return f"{part} {got[part]} instead of {told[part]}"
        if told["dtype"].startswith("float"):
            tol = max(tol, 1e-5) if told["dtype"] != "float64" else tol
            return _far(got["values"], told["values"], tol)
        return None if got["values"] == told["values"] else f"{got} instead of {told}"
    if isinstance(told, dict | list):
        if type(got) is not type(told) or len(got) != len(told):
            return f"{got} instead of {told}"
        if isinstance(told, dict) and list(got) != list(told):
            return f"{list(got)} instead of {list(told)}"
        names = told if isinstance(told, dict) else range(len(told))
        found = (difference(got[name], told[name], tol) for name in names)
        return next((words for words in found if words), None)
    if isinstance(told, float) and isinstance(got, float):
        return _far([got], [told], tol)
    same = _rounded(got) == _rounded(told) if isinstance(told, str) else got == told
    return None if type(got) is type(told) and same else f"{got!r} instead of {told!r}"


def _rounded(text):
    return re.sub(r"\d+\.\d{9,}(?:e[-+]?\d+)?", lambda m: f"{float(m[0]):.9g}", str(text))


def _far(got, told, tol):
    got, told = np.array(got, dtype=float), np.array(told, dtype=float)
    finite = np.isfinite(told)
    if not np.array_equal(got[~finite], told[~finite], equal_nan=True):
        return f"{got} instead of {told}"
    scale = np.abs(told[finite]).max(initial=0.0)
    gap = np.abs(got[finite] - told[finite]).max(initial=0.0)
    if gap <= tol * scale + ZERO:  # NaN among what was got is no such number
        return None
    return f"numbers off by {gap:.3g}, that is {gap / (scale or 1):.3g} of the largest"
