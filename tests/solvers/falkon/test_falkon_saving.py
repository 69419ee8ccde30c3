"""Checkpoints of Falkon: those of other data are refused, wherever rows, targets or weights are."""

import numpy as np
import pytest

import mercer
from mercer.engines.passes.base import row_pass
from mercer.errors import InvalidInput
from mercer.settings import config
from mercer.solvers import Centred, Falkon

RowBlocks = mercer.RowBlocks
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
y = np.sin(X[:, 0])
w = np.ones(200)
Z = X[:15].copy()


def ridge(path):
    return mercer.KernelRidge(
        mercer.RBF(1.5), alpha=1.0, solver="falkon", centers=Z, checkpoint=path
    )


def logistic(path):
    return mercer.KernelLogisticRegression(
        mercer.RBF(1.5), alpha=1.0, solver="falkon", centers=Z, checkpoint=path
    )


def changed(A):
    """One row in the middle, behind all that a digest of the first rows would see."""
    A = A.copy()
    A[150] = A[150] * 2 + 1
    return A


def made_by(*data):
    def rows():
        for i in range(0, 200, 40):
            yield tuple(A[i : i + 40] for A in data)

    return RowBlocks.from_generator(rows)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["X", "y", "weights"])
@pytest.mark.parametrize("held", ["memory", "blocks", "beside", "generator", "tensors", "dask"])
def test_a_checkpoint_of_other_data_is_refused(tmp_path, held, which):
    def fit(*data):
        model = ridge(tmp_path / "fit")
        if held == "memory":
            return model.fit(*data)
        if held == "blocks":
            return model.fit(RowBlocks.from_arrays(*data, block_rows=40))
        if held == "beside":
            return model.fit(RowBlocks.from_arrays(data[0], block_rows=40), *data[1:])
        if held == "generator":
            return model.fit(made_by(*data))
        if held == "dask":
            da = pytest.importorskip("dask.array")
            return model.fit(*(da.from_array(A, chunks=(40, *A.shape[1:])) for A in data))
        torch = pytest.importorskip("torch")
        with config(engine="torch", device="cpu"):
            return model.fit(torch.as_tensor(data[0]), *data[1:])

    data = [X, y, w]
    first = fit(*data)
    again = fit(*data)
    assert np.array_equal(first.dual_coef_, again.dual_coef_)
    data[which] = changed(data[which])
    with pytest.raises(InvalidInput, match=r"of other data|of another problem"):
        fit(*data)


@pytest.mark.parametrize("which", [0, 1])
def test_files_that_differ_in_the_middle(tmp_path, which):
    data = [np.tile(X, (100, 1)), np.tile(y, 100)]

    def fit(*data):
        names = [tmp_path / f"{i}.npy" for i in range(2)]
        for name, A in zip(names, data, strict=True):
            np.save(name, A)
        return ridge(tmp_path / "fit").fit(RowBlocks.from_npy(*names))

    fit(*data)
    data[which][10000] += 1  # the ends of the files stay
    with pytest.raises(InvalidInput, match="of other data: the sums over all rows differ"):
        fit(*data)


def test_newton_refuses_other_labels(tmp_path):
    labels = y > 0
    logistic(tmp_path / "fit").fit(RowBlocks.from_arrays(X, labels, block_rows=40))
    other = labels.copy()
    other[150] = not other[150]
    with pytest.raises(InvalidInput, match="of other data"):
        logistic(tmp_path / "fit").fit(RowBlocks.from_arrays(X, other, block_rows=40))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_of_another_size_are_the_same_data(tmp_path, dtype):
    A, t = X.astype(dtype), y - y.mean()  # a sum of targets that is nothing but rounding
    first = ridge(tmp_path / "fit").fit(RowBlocks.from_arrays(A, t, block_rows=40))
    again = ridge(tmp_path / "fit").fit(RowBlocks.from_arrays(A, t, block_rows=33))
    assert np.array_equal(first.dual_coef_, again.dual_coef_)


def test_what_differs_is_named(tmp_path):
    ridge(tmp_path / "fit").fit(X, y)
    for name, value in (("alpha", 2.0), ("kernel", mercer.RBF(2.0)), ("centers", Z[:9])):
        other = ridge(tmp_path / "fit").set_params(**{name: value})
        with pytest.raises(InvalidInput, match="n_centers=9" if name == "centers" else f"{name}="):
            other.fit(X, y)


def test_kernel_values_of_centres_may_be_rounded_otherwise(tmp_path):
    # as under another memory budget, where they are made in other tiles
    k = mercer.RBF(1.5)
    rows, gram = row_pass(k, X, Z, y[:, None]), k(Z)
    first, again = (
        Falkon(checkpoint=tmp_path / "fit").solve(Centred(rows, K, 1.0))
        for K in (gram, gram * (1 + 1e-14))
    )
    np.testing.assert_array_equal(first.value[0], again.value[0])
