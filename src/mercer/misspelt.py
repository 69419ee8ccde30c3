"""What is meant by a name that is not there: the nearest, or what scikit-learn's is called here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PAGE = "the page 'Coming from scikit-learn' of the guide"

#: Names of scikit-learn, and what does the same here.
CLASSES = {
    "BayesianRidge": "GaussianProcessRegressor(Linear())",
    "ConstantKernel": "Constant",
    "CountSketch": "TensorSketch",
    "DotProduct": "Linear() + Constant(sigma_0**2)",
    "ExpSineSquared": "Periodic(length_scale, period)",
    "GridSearchCV": "search",
    "HuberRegressor": "KernelHuberRegressor",
    "IncrementalPCA": "PCA",
    "KMeans": "KernelKMeans",
    "KernelCenterer": "center(K)",
    "KNeighborsClassifier": "KernelNeighborsClassifier",
    "KNeighborsRegressor": "KernelNeighborsRegressor",
    "LinearRegression": "KernelRidge('linear')",
    "LinearSVC": "SVC('linear')",
    "LinearSVR": "SVR('linear')",
    "LogisticRegression": "KernelLogisticRegression",
    "NearestCentroid": "NearestBarycentre",
    "Perceptron": "KernelPerceptron",
    "PolynomialCountSketch": "TensorSketch",
    "QuantileRegressor": "KernelQuantileRegressor",
    "RBFSampler": "RandomFourierFeatures",
    "RandomizedSearchCV": "tune",
    "Ridge": "KernelRidge('linear')",
    "RidgeClassifier": "KernelRidgeClassifier('linear')",
    "RidgeCV": "KernelRidge('linear')",
    "WhiteKernel": "White",
    "cosine_similarity": "Cosine()(X, Y)",
    "laplacian_kernel": "Laplacian(length_scale=1/gamma)(X, Y)",
    "linear_kernel": "Linear()(X, Y)",
    "polynomial_kernel": "Polynomial(degree, offset=coef0)(X, Y)",
    "rbf_kernel": "RBF(length_scale=1/sqrt(2·gamma))(X, Y)",
    "set_config": "config",
}
#: The same, written with kernels.
EXPRESSIONS = {
    "CompoundKernel": "one kernel, such as k1 + k2 or k1 * k2",
    "Exponentiation": "kernel ** degree",
    "PairwiseKernel": "a kernel itself, such as RBF() or Laplacian()",
    "Product": "k1 * k2",
    "Sum": "k1 + k2",
    "pairwise_kernels": "kernel(X, Y)",
}
#: Short forms, and names of other libraries.
OTHERS = {
    "GP": "GaussianProcessRegressor",
    "GPC": "GaussianProcessClassifier",
    "GPR": "GaussianProcessRegressor",
    "Gaussian": "RBF",
    "KDE": "KernelDensity",
    "KPCA": "KernelPCA",
    "KRR": "KernelRidge",
    "SE": "RBF",
    "SVM": "SVC",
    "SquaredExponential": "RBF",
}

_BELONGS = "it belongs to the kernel, and is written "
_ITSELF = "leave it out: "
#: Parameters of scikit-learn's estimators with a kernel, and how they are said here.
PARAMETERS = {
    "gamma": _BELONGS + "kernel=mercer.RBF(length_scale=1/sqrt(2·gamma))",
    "degree": _BELONGS + "kernel=mercer.Polynomial(degree)",
    "coef0": _BELONGS + "kernel=mercer.Polynomial(degree, offset=coef0)",
    "kernel_params": _BELONGS + "kernel=mercer.RBF(length_scale=...), with any parameters it has",
    "affinity": "it is called kernel, a Kernel, a word or 'precomputed'",
    "decision_function_shape": "it is called multi_class, which says how the fits are done too",
    "cache_size": _ITSELF + "rows of the kernel are kept within mercer.config(memory=...)",
    "n_jobs": _ITSELF + "threads are those of mercer.config(threads=...)",
    "verbose": _ITSELF + "mercer.config(progress=True) reports long work",
    "shrinking": _ITSELF + "the solver decides, and the answer is the same",
    "break_ties": _ITSELF + "ties between classes are broken by their decision values",
    "copy_X": _ITSELF + "X is never changed",
    "iterated_power": _ITSELF + "eigenvectors are computed until they are exact",
    "eigen_tol": "it is called tol",
    "eigen_solver": "it is called method",
    "algorithm": _ITSELF + "the way is chosen by the data, and the answer is the same",
    "breadth_first": _ITSELF + "there is no tree to search",
    "leaf_size": _ITSELF + "there is no tree to search",
    "metric_params": "it is called metric, a word or the order p of a norm, such as metric=3",
    "n_restarts_optimizer": "it is called n_restarts",
    "max_iter_predict": "it is called max_iter",
}
#: The same of kernels.
OF_KERNELS = {
    ("RBF", "gamma"): "it is length_scale=1/sqrt(2·gamma)",
    ("Laplacian", "gamma"): "it is length_scale=1/gamma",
    ("Polynomial", "gamma"): "it is length_scale=1/sqrt(gamma)",
    ("Exponential", "gamma"): "it is length_scale=1/sqrt(gamma)",
    ("Polynomial", "coef0"): "it is called offset",
}
#: Words of textbooks for what has one name here, that of the first which there is.
SYNONYMS = {
    **dict.fromkeys(("lam", "lamb", "lambd", "lamda", "lambda_", "lmbda", "reg"), ("alpha",)),
    **dict.fromkeys(("ell", "scale", "sigma", "width"), ("length_scale", "bandwidth")),
    "bandwidth": ("length_scale",),
    "alpha": ("noise", "C"),
    "C": ("alpha",),
    "k": ("n_clusters", "n_neighbors", "n_components"),
    "seed": ("random_state", "rng"),
    "random_state": ("rng",),
    "rng": ("random_state",),
}


def nearest(name: str, legal: Iterable[str]) -> str:
    """Return the legal name that is most like another one, or ""."""
    import difflib

    plain = {other.lower().replace("-", "").replace("_", ""): other for other in legal}
    wanted = name.lower().replace("-", "").replace("_", "")
    found = difflib.get_close_matches(wanted, plain, 1, 0.6)
    found = found or [other for other in plain if len(wanted) > 2 and other.startswith(wanted)]
    return plain[found[0]] if found else ""


def name_meant(name: str, legal: Iterable[str]) -> str:
    """Return a question to end a sentence with: which of the names of a module was meant."""
    legal = list(legal)
    own = CLASSES.get(name, "") or EXPRESSIONS.get(name, "")
    if own.partition("(")[0] in legal or (name in EXPRESSIONS and "Kernel" in legal):
        return f"; scikit-learn's {name} is {own} here, see {PAGE}"
    bare = name.removeprefix("Kernel").removesuffix("Kernel")  # KernelSVM, RBFKernel
    known = next((other for other in (OTHERS.get(bare, ""), bare) if other in legal), "")
    own = known or nearest(name, legal)
    return f"; did you mean {own!r}?" if own else ""


def parameter_meant(caller: str, name: str, legal: Iterable[str]) -> str:
    """Return what to say of a parameter that there is not."""
    legal = list(legal)
    text = f"{caller}: there is no parameter {name!r} here; "
    if (caller, name) in OF_KERNELS:
        return f"{text}{OF_KERNELS[caller, name]}."
    elsewhere = PARAMETERS.get(name, "")
    called = elsewhere.partition("it is called ")[2].partition(",")[0]
    if elsewhere and ("kernel" in legal if not called else called in legal):
        return f"{text}{elsewhere}. See {PAGE}."
    same = next((other for other in SYNONYMS.get(name, ()) if other in legal), "")
    meant = same or nearest(name, legal)
    has = f"{'I' if meant else 'i'}t has {', '.join(legal)}." if legal else "it has none."
    return f"{text}did you mean {meant!r}? {has}" if meant else text + has


def explain_call(error: TypeError, caller: str, function: Any, given: Iterable[str]) -> None:
    """Raise a `TypeError` that says more, if a keyword of a call is one that there is not."""
    trace = error.__traceback__
    if trace is None or trace.tb_next is not None:
        return  # not the call, but something inside
    import inspect

    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    arguments = inspect.signature(function).parameters.values()
    legal = [p.name for p in arguments if p.kind in named and p.name not in ("self", "cls")]
    unknown = [name for name in given if name not in legal]
    if unknown:
        raise TypeError(parameter_meant(caller, unknown[0], legal)) from None
