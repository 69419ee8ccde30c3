"""Writes the golden files of a release: run once for each, commit, and never change them again.

    python tests/io/golden/make.py

Each is a small model file named after the release, and beside it, as JSON, points and what the
model says of them. Files of earlier releases are left alone.
"""

import json
import pathlib

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from mercer.kernels import RBF, Linear, Matern, Polynomial
from mercer.models import (
    SVC,
    SVR,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeClassifier,
    NuSVC,
    NuSVR,
    OneClassSVM,
)
from mercer.rkhs import Function

HERE = pathlib.Path(__file__).parent


def examples():
    """Name, model, method, and points as an array or a table."""
    rng = np.random.default_rng(2026)
    X, new = rng.normal(size=(8, 2)).round(3), rng.normal(size=(3, 2)).round(3)
    y = np.array([0.5, -1.0, 2.0, 0.0, 1.5, -0.5, 1.0, 3.0])
    names = np.array(["ash", "oak", "λ"])[[0, 1, 2, 0, 1, 2, 0, 1]]
    table = pd.DataFrame({"age": X[:, 0], "tree": names, "size": X[:, 1]})
    kernel = RBF(np.array([1.0, 2.5])) + 0.5 * (Linear().on(slice(0, 1)) * Matern(2.0, np.inf))
    encode = ColumnTransformer(
        [("numbers", StandardScaler(), ["age", "size"]), ("text", OneHotEncoder(), ["tree"])],
        sparse_threshold=0.0,
    )
    yield (
        "ridge",
        KernelRidge(RBF("median"), alpha=0.1, fit_intercept=True).fit(X, y),
        "predict",
        new,
    )
    yield "ridge-outputs", KernelRidge(kernel).fit(X.astype(np.float32), X), "predict", new
    yield "ridge-primal", KernelRidge(Polynomial(2), alpha="loo").fit(X, y), "predict", new
    yield "classifier", KernelRidgeClassifier(class_weight="balanced").fit(X, names), "predict", new
    perceptron = KernelPerceptron(RBF(0.5), "margin").fit(X, names)
    yield "perceptron", perceptron, "decision_function", new
    yield "svc", SVC("rbf", 10.0, class_weight="balanced").fit(X, names), "decision_function", new
    hard = SVC(RBF(0.5), np.inf, multi_class="ovr").fit(X, names)
    yield "svc-hard", hard, "decision_function", new
    yield "svc-linear", SVC("linear").fit(X, names == "oak"), "decision_function", new
    gram = SVC("precomputed", 2.0, fit_intercept=False).fit(X @ X.T + np.eye(8), y > 1)
    yield "svc-precomputed", gram, "predict", new @ X.T
    yield "nu-svc", NuSVC(RBF(0.5), 0.3).fit(X, names), "pairwise_decision_function", new
    yield "svr", SVR(RBF("median"), 10.0, 0.05).fit(X, y), "predict", new
    yield "nu-svr", NuSVR(Polynomial(2), 0.7, fit_intercept=False).fit(X, y), "predict", new
    yield "one-class", OneClassSVM(nu=0.4).fit(X), "decision_function", new
    gram = KernelRidge("precomputed").fit(X @ X.T + np.eye(8), y)
    yield "precomputed", gram, "predict", new @ X.T
    yield "pipeline", make_pipeline(encode, KernelRidge()).fit(table, y), "predict", table[::3]
    yield "kernel", kernel.normalized(), "__call__", new
    yield "function", Function(RBF(2.0), X, y, 0.25), "__call__", new


def main():
    """Write what is not there yet."""
    for name, model, call, points in examples():
        path = HERE / f"{mercer.__version__}-{name}.mercer"
        if path.exists():
            print(f"kept  {path.name}")
            continue
        values = np.asarray(getattr(model, call)(points))
        told = {"class": type(model).__name__, "call": call, "values": values.tolist()}
        if isinstance(points, pd.DataFrame):
            told["table"] = points.to_dict("list")
        else:
            told["points"] = points.tolist()
        mercer.save(model, path, overwrite=False)
        path.with_suffix(".json").write_text(json.dumps(told, indent=1) + "\n")
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
