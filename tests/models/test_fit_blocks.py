"""Fits of rows that come in blocks: the answer of rows in memory, interrupted or not."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import mercer
from mercer.errors import InvalidInput

RowBlocks = mercer.RowBlocks
rng = np.random.default_rng(0)
X = rng.normal(size=(360, 3))
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=360)
w = rng.integers(0, 3, 360).astype(float)
Z = X[:20].copy()


def ridge(**options):
    return mercer.KernelRidge(
        mercer.RBF(1.5), alpha=1.0, solver="falkon", centers=Z, tol=1e-10, **options
    )


def test_files_give_the_answer_of_memory(tmp_path):
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "w": w})
    parquet.write_table(table[:150], tmp_path / "0.parquet", row_group_size=21)
    parquet.write_table(table[150:], tmp_path / "1.parquet")
    blocks = RowBlocks.from_parquet(tmp_path, target="y", weight="w", block_rows=40)
    expected = ridge().fit(X, y, sample_weight=w)
    found = ridge().fit(blocks)
    np.testing.assert_allclose(found.predict(blocks), expected.predict(X), atol=1e-8)
    assert found.n_rows_ == 360 and list(found.feature_names_in_) == ["a", "b", "c"]
    memory = RowBlocks.from_parquet(tmp_path, columns=["a", "b", "c"], block_rows=40)
    beside = ridge().fit(memory, y, sample_weight=w)
    np.testing.assert_array_equal(beside.dual_coef_, found.dual_coef_)
    mercer.save(found, tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.predict(blocks), found.predict(blocks))


@pytest.mark.parametrize("centers", ["uniform", "rpcholesky"])
def test_a_seed_draws_the_same_centres_in_memory_in_blocks_and_of_dask(centers):
    da = pytest.importorskip("dask.array")
    torch = pytest.importorskip("torch")
    options = {"alpha": 1.0, "solver": "falkon", "n_centers": 12, "centers": centers, "tol": 1e-8}
    labels = (y > 0).astype(int)
    kinds = ((mercer.KernelRidge, y), (mercer.KernelLogisticRegression, labels))
    for make, target in kinds if centers == "uniform" else kinds[:1]:
        model = make(mercer.RBF(1.5), random_state=7, **options)
        expected = model.fit(X, target)
        points, answers = np.asarray(expected.X_fit_), expected.predict(X)
        others = [
            (RowBlocks.from_arrays(X, target, block_rows=50), None),
            (da.from_array(X, chunks=(70, 3)), da.from_array(target, chunks=70)),
            (torch.as_tensor(X), torch.as_tensor(target)),
        ]
        for rows, given in others:
            found = make(mercer.RBF(1.5), random_state=7, **options).fit(rows, given)
            np.testing.assert_allclose(found.X_fit_, points, rtol=1e-12)
            np.testing.assert_allclose(found.predict(X), answers, atol=1e-6)


class Broken:
    """Blocks that end in an error when row 210 is reached, one time."""

    def __init__(self, error, at):
        self.error, self.at, self.times = error, at, 0

    def __call__(self):
        for start in range(0, 360, 30):
            self.times += start == 210
            if self.times == self.at and start == 210:
                raise self.error
            yield X[start : start + 30], y[start : start + 30]


@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.usefixtures("iterations")
def test_an_interrupted_fit_goes_on_with_the_same_bits(tmp_path, at):
    path = tmp_path / "fit.checkpoint"
    expected = ridge().fit(RowBlocks.from_generator(Broken(None, -1), n_rows=360))
    source = Broken(KeyboardInterrupt(), at)
    blocks = RowBlocks.from_generator(source, n_rows=360)
    model = ridge(checkpoint=str(path))
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(blocks)
    assert path.exists() and not hasattr(model, "dual_coef_")
    place = "the middle of its first pass" if at == 1 else "step 0"
    assert caught.value.__notes__ == [
        f"the same fit with checkpoint={str(path)!r} goes on from {place}"
    ]
    model.fit(blocks)
    np.testing.assert_array_equal(model.dual_coef_, expected.dual_coef_)
    with pytest.raises(InvalidInput, match="another problem"):
        ridge(checkpoint=str(path)).set_params(alpha=2.0).fit(blocks)


@pytest.mark.usefixtures("iterations")
def test_data_that_are_wrong_end_the_fit_and_leave_the_model(tmp_path):
    bad = X.copy()
    bad[210, 2] = np.nan
    np.save(tmp_path / "x.npy", bad)
    np.save(tmp_path / "y.npy", y)
    blocks = RowBlocks.from_npy(tmp_path / "x.npy", tmp_path / "y.npy", block_rows=30)
    model = ridge().fit(X, y)
    before = model.dual_coef_.copy()
    with pytest.raises(InvalidInput, match=r"nan at row 210, column 2 of .*x\.npy"):
        model.fit(blocks)
    np.testing.assert_array_equal(model.dual_coef_, before)
    with pytest.raises(InvalidInput, match="no target"):
        model.fit(RowBlocks.from_npy(tmp_path / "x.npy"))
    np.save(tmp_path / "x.npy", X)
    blocks = RowBlocks.from_npy(tmp_path / "x.npy", tmp_path / "y.npy", block_rows=30)

    def change(values):
        if change.left == 0:
            np.save(tmp_path / "x.npy", X + 1)
        change.left -= 1
        return values

    change.left = 30  # in the third pass or so
    with pytest.raises(InvalidInput, match=r"x\.npy' changed"):
        model.fit(blocks.with_targets(change))


def test_classes_come_in_blocks():
    labels = np.where(y > 0.3, "high", np.where(y < -0.3, "low", "mid"))
    blocks = RowBlocks.from_arrays(X, labels, w, block_rows=50)
    make = {"alpha": 1.0, "solver": "falkon", "centers": Z, "tol": 1e-10}
    found = mercer.KernelRidgeClassifier(mercer.RBF(1.5), **make).fit(blocks)
    expected = mercer.KernelRidgeClassifier(mercer.RBF(1.5), **make).fit(X, labels, w)
    np.testing.assert_allclose(
        found.decision_function(blocks), expected.decision_function(X), atol=1e-7
    )
    np.testing.assert_array_equal(found.classes_, expected.classes_)


@pytest.mark.parametrize("kernel", [mercer.RBF(), mercer.RBF(1.0)])
def test_what_no_kernel_takes_is_named_by_file_and_row_whoever_looks_first(tmp_path, kernel):
    da = pytest.importorskip("dask.array")
    bad = X.copy()
    bad[150:, 1], bad[200:, 2] = np.nan, np.inf
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", bad[120 * i : 120 * i + 120])
    files = RowBlocks.from_npy(tmp_path, block_rows=50)
    model = mercer.KernelRidge(kernel, solver="falkon", n_centers=90, random_state=0)
    classifier = mercer.KernelRidgeClassifier(kernel, solver="falkon", n_centers=90)
    here = r"nan at row 30, column 1 of '.*1\.npy'"
    with pytest.raises(InvalidInput, match=here):
        model.fit(files, y)
    with pytest.raises(InvalidInput, match=here):
        model.plan(files, y)
    with pytest.raises(InvalidInput, match=here):
        classifier.fit(files, y > 0)
    with pytest.raises(InvalidInput, match=here):
        mercer.Nystroem(kernel, 90).fit(files)
    with pytest.raises(InvalidInput, match="nan at row 150, column 1 of the dask data"):
        model.fit(da.from_array(bad, chunks=(50, 3)), y)


def test_text_columns_are_named_and_can_be_left_out():
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["label"] = ["u", None, "v"] * 120
    lazy = dd.from_pandas(frame, npartitions=3)
    model = mercer.KernelRidge(mercer.RBF(1.5), solver="falkon", n_centers=20)
    for ask in (model.plan, model.fit):
        for rows in (lazy, RowBlocks.from_arrays(frame)):
            with pytest.raises(InvalidInput, match=r"column 'label'.*leave it out.*kernel\.on"):
                ask(rows, y)
    some = mercer.RBF(1.5).on(list("abc"))
    model = mercer.KernelRidge(some, solver="falkon", centers=frame[:20], tol=1e-10)
    found = model.fit(RowBlocks.from_arrays(frame, block_rows=50), y)
    np.testing.assert_allclose(found.predict(frame), ridge().fit(X, y).predict(X), atol=1e-6)
