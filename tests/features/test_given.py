"""Points given as a parameter are matched with the rows as new points are, and refused by name."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import mercer
from mercer import (
    RBF,
    KernelERM,
    KernelLogisticRegression,
    KernelMachine,
    KernelRidge,
    KernelRidgeClassifier,
    L1VMClassifier,
    L1VMRegressor,
    Linear,
    Nystroem,
    Prototypes,
    RowBlocks,
    SparseGaussianProcessRegressor,
    White,
)
from mercer.errors import InvalidInput

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)) * [1.0, 5.0, 0.2]
y = X[:, 0] + X[:, 1] / 5
k = RBF([1.0, 5.0, 0.2])

MODELS = {
    "centers": [
        lambda p: KernelRidge(k, 0.1, centers=p),
        lambda p: KernelRidgeClassifier(k, 0.1, centers=p),
        lambda p: KernelLogisticRegression(k, alpha=0.1, centers=p),
        lambda p: KernelERM(kernel=k, loss="huber", centers=p),
    ],
    "landmarks": [lambda p: Nystroem(k, landmarks=p)],
    "prototypes": [
        lambda p: Prototypes(k, prototypes=p),
        lambda p: KernelMachine(k, estimator=Ridge(), prototypes=p),
        lambda p: L1VMRegressor(kernel=k, prototypes=p),
        lambda p: L1VMClassifier(kernel=k, prototypes=p),
    ],
    "inducing": [
        lambda p: SparseGaussianProcessRegressor(k, noise=0.1, inducing=p, optimizer=None)
    ],
}
CASES = [(name, make) for name, all_of in MODELS.items() for make in all_of]
FRAMES = {
    "pandas": lambda A, names: pd.DataFrame(A, columns=names),
    "polars": lambda A, names: pl.DataFrame(A, schema=names),
    "pyarrow": lambda A, names: pa.table({n: A[:, j] for j, n in enumerate(names)}),
}


def fitted(model, rows):
    labels = "Classifier" in type(model).__name__ or "Logistic" in type(model).__name__
    return model.fit(rows, y > 0 if labels else y)


def answers(model, rows):
    return model.transform(rows) if hasattr(model, "transform") else model.predict(rows)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(("name", "make"), CASES)
def test_columns_of_a_frame_are_those_of_the_rows(name, make, kind):
    frame = FRAMES[kind]
    rows = frame(X, list("abc"))
    for other in (frame(X[:9, ::-1], list("cba")), frame(X[:9], ["zz", "b", "c"])):
        with pytest.raises(InvalidInput, match=f"{name}: The feature names should match"):
            fitted(make(other), rows)
    if kind == "pandas":
        model = fitted(make(frame(X[:9], list("abc"))), rows)
        same = fitted(make(X[:9]), rows)
        np.testing.assert_allclose(answers(model, rows), answers(same, rows))


def test_blocks_with_names_are_matched_too(tmp_path):
    path = tmp_path / "rows.parquet"
    pd.DataFrame(np.c_[X, y], columns=list("abcy")).to_parquet(path)
    rows = RowBlocks.from_parquet(path, target="y")
    turned = pd.DataFrame(X[:9, ::-1], columns=list("cba"))
    with pytest.raises(InvalidInput, match="centers: The feature names should match"):
        KernelRidge(k, centers=turned).fit(rows)
    with pytest.raises(InvalidInput, match="centers has 2 columns, and X has 3"):
        KernelRidge(k, centers=X[:9, :2]).fit(rows)


@pytest.mark.parametrize(("name", "make"), CASES)
def test_another_width_and_missing_numbers_name_the_parameter(name, make):
    with pytest.raises(InvalidInput, match=f"{name} has 2 columns"):
        fitted(make(X[:9, :2]), X)
    with pytest.raises(InvalidInput, match=f": {name} contains"):
        fitted(make(np.full((2, 3), np.nan)), X)


def test_columns_of_a_kernel_that_names_them_come_in_any_order():
    rows = pd.DataFrame(X, columns=list("abc"))
    kernel = RBF(1.0).on("a") + RBF(5.0).on("b")
    one, other = (
        KernelRidge(kernel, 0.1, centers=rows[order][:9]).fit(rows, y)
        for order in (list("abc"), list("cba"))
    )
    np.testing.assert_allclose(one.predict(rows), other.predict(rows))


# ------------------------------------------------------------------------------- white noise
@pytest.mark.parametrize(
    "noisy",
    [
        RBF() + White(0.5),
        2.0 * (RBF() + White(0.5)),
        (RBF() + White(0.5)).normalized(),
        RBF() * (Linear() + White(0.5)),
        (RBF() + White(0.5)).on([0, 1]),
    ],
)
def test_noise_of_the_rows_is_not_for_centres(noisy):
    with pytest.raises(InvalidInput, match=r"holds White.*leave it out"):
        Nystroem(noisy).fit(X)
    for model in (KernelRidge(noisy, n_centers=9), KernelRidge(noisy, solver="falkon")):
        with pytest.raises(InvalidInput, match=r"holds White.*leave it out.*add its variance"):
            model.fit(X, y)
    with pytest.raises(InvalidInput, match="holds White"):
        KernelLogisticRegression(noisy, centers="kmeans").fit(X, y > 0)
    with pytest.raises(InvalidInput, match="holds White"):
        KernelRidge(noisy).fit(RowBlocks.from_arrays(X, y))


def test_the_cure_for_noise_is_the_same_model():
    exact = KernelRidge(k + White(0.5), 0.1).fit(X, y)
    cured = KernelRidge(k, 0.6, solver="falkon", n_centers=60, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(cured.predict(X), exact.predict(X.copy()), atol=1e-7)
    plan = KernelRidge(k + White(0.5), 0.1).plan(X, y)
    assert "falkon" not in {p.method for p in (plan, *plan.alternatives)}


def test_low_rank_methods_see_the_noise_on_the_diagonal():
    """Of all pivots the matrix is whole, noise and all."""
    noisy = RBF([1.0, 5.0, 0.2]) + White(0.5)
    few = X[:25]
    exact, low = (
        mercer.KernelPCA(3, noisy, eigen_solver=how).fit(few) for how in ("dense", "cholesky")
    )
    np.testing.assert_allclose(low.eigenvalues_, exact.eigenvalues_, rtol=1e-6)
    new = rng.normal(size=(7, 3))
    np.testing.assert_allclose(abs(low.transform(new)), abs(exact.transform(new)), atol=1e-6)
