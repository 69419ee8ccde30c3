"""Table models on rows in blocks: text and categories are encoded as in memory."""

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RowBlocks
from mercer.domains import Table
from mercer.errors import InvalidInput, MemoryBudgetExceeded
from mercer.features import TableEncoder
from mercer.kernels import RBF, Categorical
from mercer.models import TableClassifier, TableRegressor
from mercer.models.metric import streams
from mercer.models.tables.proposal import some_rows

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N = 120


@pytest.fixture(scope="module")
def columns():
    """Columns of every kind, with gaps; what stands in the last third stands there alone."""
    rng = np.random.default_rng(0)
    site = rng.choice(["u", "v", None], N).tolist()
    site[2 * N // 3 :] = rng.choice(["u", "new", ""], N - 2 * N // 3).tolist()
    code = [int(c) for c in rng.integers(0, 3, N)]
    return {
        "age": [None if r < 0.2 else float(a) for r, a in rng.normal(1, 2, (N, 2)).round(2)],
        "site": site,
        "code": code[: N // 2] + [f"k{c}" for c in code[N // 2 :]],  # numbers, then text
        "level": [int(c) for c in rng.integers(1, 4, N)],
        "truth": [bool(c) for c in rng.integers(0, 2, N)],
        "empty": [None] * (N // 2) + rng.choice(["p", "q"], N - N // 2).tolist(),
    }


@pytest.fixture(scope="module")
def target(columns):
    rng = np.random.default_rng(1)
    age = np.nan_to_num(np.array(columns["age"], dtype=float))
    return 1e3 + 5 * age + np.array([s == "u" for s in columns["site"]]) + rng.normal(0, 0.1, N)


@pytest.fixture(scope="module")
def folder(columns, target, tmp_path_factory):
    """The columns in four files, each of which writes them in another way."""
    path = tmp_path_factory.mktemp("files")
    texts = [
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ]
    for k, text in enumerate(texts):
        rows = slice(k * N // 4, (k + 1) * N // 4)
        table = {n: pa.array(c[rows]) for n, c in columns.items()}
        table["site"] = pa.array(columns["site"][rows], pa.string()).cast(text)
        if k >= 2:
            table["code"] = table["code"].cast(text)
        table["y"] = pa.array(target[rows])
        table["w"] = pa.array([float(i % 3) for i in range(N)][rows])
        names = list(table) if k != 1 else list(table)[::-1]  # in another order
        parquet.write_table(
            pa.table({n: table[n] for n in names}), path / f"{k}.parquet", row_group_size=17
        )
    return path


@pytest.fixture(scope="module")
def frame(columns):
    """The same in memory."""
    return Table(columns)


def blocks_of(folder, **options):
    return RowBlocks.from_parquet(folder, "y", drop=["w"], **options)


def same_encoder(a, b):
    assert (a.columns_, a.kinds_, a.categories_) == (b.columns_, b.kinds_, b.categories_)
    np.testing.assert_array_equal(a.fill_, b.fill_)
    np.testing.assert_allclose(a.mean_, b.mean_, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(a.scale_, b.scale_, rtol=1e-13)


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_an_encoder_learns_the_same_from_blocks(folder, frame, block_rows):
    expected = TableEncoder().fit(frame)
    assert expected.kinds_ == tuple(
        "number" if n in ("age", "level") else "category" for n in frame.names
    )
    blocks = blocks_of(folder, block_rows=block_rows)
    found = TableEncoder().fit(blocks)
    same_encoder(found, expected)
    np.testing.assert_allclose(found.transform(blocks), expected.transform(frame), atol=1e-12)
    few = TableEncoder(["age", "level"], max_categories=2)
    same_encoder(TableEncoder(["age", "level"], 2).fit(blocks), few.fit(frame))


def test_weights_of_blocks_count_rows(folder, frame):
    weight = np.arange(N) % 3
    expected = TableEncoder().fit(frame, sample_weight=weight)
    carried = RowBlocks.from_parquet(folder, "y", weight="w", block_rows=11)
    same_encoder(TableEncoder().fit(carried), expected)
    same_encoder(TableEncoder().fit(blocks_of(folder), sample_weight=weight), expected)
    repeated = frame.take(np.repeat(np.arange(N), weight))
    same_encoder(TableEncoder().fit(RowBlocks.from_arrays(repeated, block_rows=9)), expected)
    with pytest.raises(InvalidInput, match="all sample weights are zero"):
        TableEncoder().fit(blocks_of(folder), sample_weight=np.zeros(N))


@pytest.mark.parametrize("seed", range(12))
def test_moments_of_blocks_are_those_of_the_column(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    x = rng.choice([0.0, -0.0, 1.0, -1.0, 5e-324, -3.5, 1e200, -1e200, np.nan], n)
    if seed % 2:
        x = np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n) * 10.0 ** rng.integers(-9, 9))
    table = Table({"x": x, "c": ["a"] * n})
    weight = None if seed % 3 else np.where(np.arange(n) == 0, 1.0, rng.integers(0, 4, n) / 2)
    expected = TableEncoder().fit(table, sample_weight=weight)
    blocks = RowBlocks.from_arrays(table, None, weight, block_rows=int(rng.integers(1, 9)))
    same_encoder(TableEncoder().fit(blocks), expected)


def test_a_regressor_predicts_as_in_memory(folder, frame, target):
    blocks = blocks_of(folder, block_rows=13)
    expected = TableRegressor("rbf").fit(frame, target).predict(frame)
    model = TableRegressor("rbf").fit(blocks)  # all rows are centres
    np.testing.assert_allclose(model.predict(blocks), expected, atol=1e-8)
    np.testing.assert_allclose(model.predict(frame), expected, atol=1e-8)
    given = TableRegressor("rbf").fit(blocks_of(folder), target / 7)
    np.testing.assert_allclose(7 * given.predict(blocks), expected, atol=1e-7)
    assert model.score(blocks) == pytest.approx(model.score(frame, target))
    weight = np.arange(N) % 3
    heavy = TableRegressor("rbf").fit(RowBlocks.from_parquet(folder, "y", weight="w", block_rows=9))
    light = TableRegressor("rbf").fit(frame, target, sample_weight=weight)
    np.testing.assert_allclose(heavy.predict(frame), light.predict(frame), atol=1e-6)


def test_a_classifier_predicts_as_in_memory(folder, frame, target):
    labels = np.where(target > np.median(target), "high", "low")
    model = TableClassifier("rbf", class_weight="balanced").fit(
        blocks_of(folder, block_rows=13), labels
    )
    expected = TableClassifier("rbf", class_weight="balanced").fit(frame, labels)
    found = model.decision_function(blocks_of(folder, block_rows=50))
    np.testing.assert_allclose(found, expected.decision_function(frame), atol=1e-8)
    np.testing.assert_array_equal(model.predict(blocks_of(folder)), expected.predict(frame))
    with pytest.raises(InvalidInput, match="model='ridge' fits them"):
        TableClassifier(model="svc").fit(blocks_of(folder), labels)


def test_kernels_on_columns_and_proposed_ones_take_blocks(folder, frame, target):
    kernel = RBF(2.0).with_missing().on("age") + Categorical().on(["site", "empty"])
    for asked in (kernel, "auto"):
        model = TableRegressor(asked).fit(blocks_of(folder, block_rows=13))
        expected = TableRegressor(asked).fit(frame, target)
        found = model.predict(blocks_of(folder, block_rows=29))
        np.testing.assert_allclose(found, expected.predict(frame), atol=1e-5)


def test_what_is_left_out_is_tuned_as_in_memory(folder, frame, target):
    blocks = blocks_of(folder, block_rows=50)
    ridge = TableRegressor(model="ridge")
    model, expected = clone(ridge).fit(blocks), clone(ridge).fit(frame, target)
    assert model.alpha_ == pytest.approx(expected.alpha_, rel=1e-3)
    np.testing.assert_allclose(model.kernel_.theta, expected.kernel_.theta, rtol=1e-3)
    assert (clone(ridge).fit(blocks).predict(frame) == model.predict(frame)).all()
    assert TableRegressor(alpha=1.0).fit(blocks).alpha_ == 1.0
    weight = np.arange(N) % 3
    heavy = clone(ridge).fit(RowBlocks.from_parquet(folder, "y", weight="w"))
    light = clone(ridge).fit(frame, target, sample_weight=weight)
    assert heavy.alpha_ == pytest.approx(light.alpha_, rel=1e-3)
    labels = np.where(target > np.median(target), "high", "low")
    found = TableClassifier(model="ridge").fit(blocks_of(folder), labels)
    assert found.alpha_ == pytest.approx(
        TableClassifier(model="ridge").fit(frame, labels).alpha_, rel=1e-3
    )


def test_columns_of_numbers_keep_their_names(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    rows = {"a": X[:, 0], "b": X[:, 1]}
    parquet.write_table(pa.table(rows | {"y": X[:, 0]}), tmp_path / "t.parquet")
    other = RowBlocks.from_parquet(tmp_path / "t.parquet", columns=["b", "a"], block_rows=25)
    for kernel in ("rbf", "auto", RBF().on("a")):
        blocks = RowBlocks.from_parquet(tmp_path / "t.parquet", "y", block_rows=25)
        model = TableRegressor(kernel).fit(blocks)
        names = ["a"] if isinstance(kernel, mercer.kernels.Kernel) else ["a", "b"]
        assert model.feature_names_in_.tolist() == names
        np.testing.assert_allclose(model.predict(other), model.predict(Table(rows)), atol=1e-12)


def test_some_rows_of_weighted_blocks_count_once():
    n = 2600
    blocks = RowBlocks.from_arrays(np.zeros((n, 1)), np.arange(n), np.full(n, 7.0), block_rows=900)
    Z, y, weight = some_rows(blocks)
    assert len(Z) == len(set(y)) == 2000
    np.testing.assert_allclose(weight, 1.0)


def test_unseen_categories_and_missing_cells_in_blocks(folder, frame, target, tmp_path):
    other = {"age": [None, 2.0], "site": ["elsewhere", None], "code": ["zz", None]}
    other |= {"level": [9, None], "truth": [None, True], "empty": [None, None]}
    parquet.write_table(pa.table(other), tmp_path / "o.parquet")
    model = TableRegressor("rbf").fit(blocks_of(folder))
    found = model.predict(RowBlocks.from_parquet(tmp_path / "o.parquet", block_rows=1))
    expected = TableRegressor("rbf").fit(frame, target).predict(Table(other))
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_a_model_of_blocks_can_be_saved(folder, frame, tmp_path):
    for kernel in ("rbf", Categorical().on("site")):
        model = TableRegressor(kernel).fit(blocks_of(folder))
        mercer.save(model, tmp_path / "m.mercer", overwrite=True)
        loaded = mercer.load(tmp_path / "m.mercer")
        np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))


def test_what_is_wrong_is_named_by_file_row_and_column(folder, tmp_path):
    good = {"a": [1.0, 2.0, 3.0, 4.0], "s": ["u", "v", "u", "v"], "y": [1.0, 2.0, 3.0, 5.0]}
    parquet.write_table(pa.table(good), tmp_path / "0.parquet")
    parquet.write_table(pa.table(good | {"a": [1.0, 2.0, 3.0, np.inf]}), tmp_path / "1.parquet")
    with pytest.raises(InvalidInput, match=r"inf at row 3, column 'a' of '.*1\.parquet'"):
        TableRegressor().fit(RowBlocks.from_parquet(tmp_path, "y", block_rows=2))
    model = TableRegressor().fit(RowBlocks.from_parquet(tmp_path / "0.parquet", "y"))
    parquet.write_table(pa.table(good | {"a": [None, "2", "3", "x"]}), tmp_path / "1.parquet")
    bad = RowBlocks.from_parquet(tmp_path / "1.parquet", "y", block_rows=2)
    with pytest.raises(InvalidInput, match=r"rows 0 to 1 of '.*1.parquet'.*'a' holds '2' at row 1"):
        model.predict(bad)
    parquet.write_table(pa.table(good | {"a": [None, None, None, "x"]}), tmp_path / "1.parquet")
    bad = RowBlocks.from_parquet(tmp_path / "1.parquet", "y", block_rows=2)
    with pytest.raises(InvalidInput, match=r"rows 2 to 3 of '.*1.parquet'.*'a' holds 'x' at row 3"):
        model.predict(bad)
    with pytest.raises(InvalidInput, match="carry no target"):
        TableRegressor().fit(RowBlocks.from_parquet(tmp_path / "0.parquet"))
    with pytest.raises(InvalidInput, match="the blocks carry 2 targets"):
        two = RowBlocks.from_parquet(tmp_path / "0.parquet", ["y", "a"])
        TableRegressor().fit(two)


def test_memory_stays_within_the_budget():
    many = Table({"k": [f"t{i}" for i in range(1500)]})
    with mercer.config(memory="1MB"):
        with pytest.raises(InvalidInput, match=r"'k' holds more than 1000 .*drop=\['k'\]"):
            TableEncoder().fit(RowBlocks.from_arrays(many))
        some = many.take(slice(900))
        with pytest.raises(MemoryBudgetExceeded, match=r"block_rows=34, or lower max_categories"):
            TableEncoder(max_categories=900).fit(RowBlocks.from_arrays(some, block_rows=900))
        encoder = TableEncoder(max_categories=900).fit(RowBlocks.from_arrays(some, block_rows=34))
    assert encoder.categories_ == TableEncoder(max_categories=900).fit(some).categories_


def test_blocks_of_text_are_shorter(folder):
    with mercer.config(memory="100kB"):
        lengths = [len(block) for block in blocks_of(folder)]
    assert max(lengths) * (6 * 8 + 3 * 900) < 2 * 100_000 / 16 and sum(lengths) == N


def test_a_ridge_of_blocks_has_no_probabilities_and_the_cures_do():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    labels = np.where(X[:, 0] > 0, "u", "v")
    blocks = RowBlocks.from_arrays(X, labels, block_rows=30)
    model = TableClassifier(model="ridge").fit(blocks)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError) as error:
        model.predict_proba(X)
    said = str(error.value.__cause__)
    assert "all rows in memory" in said and "RowBlocks" in said
    rows, y, weight = blocks.sample(20000, with_targets=True)
    for cure in (
        TableClassifier("rbf", model="svc", probability=True).fit(rows, y, weight),
        TableClassifier(model="features", max_time=1e-9).fit(blocks),
    ):
        assert cure.predict_proba(X).shape == (80, 2)


HURRY = {"max_time": 1e-9}


def test_a_feature_machine_is_the_default_of_blocks(folder, frame, target, tmp_path):
    blocks = blocks_of(folder, block_rows=50)
    model = TableRegressor(**HURRY).fit(blocks)
    inside = mercer.FeatureMachineRegressor(**HURRY).fit(blocks)
    assert type(model.model_) is mercer.FeatureMachineRegressor
    for rows in (frame, blocks):
        np.testing.assert_array_equal(model.predict(rows), inside.predict(rows))
    lower, upper = model.predict_interval(frame)
    assert 0.8 < np.mean((lower <= target) & (target <= upper))
    assert model.score(blocks) == pytest.approx(model.score(frame, target)) and model.score(blocks)
    asked = TableRegressor(model="features", **HURRY).fit(blocks_of(folder), target)
    np.testing.assert_allclose(asked.predict(frame), model.predict(frame), atol=1e-6)
    mercer.save(model, tmp_path / "m")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m").predict(frame), model.predict(frame))
    heavy = TableRegressor(**HURRY).fit(RowBlocks.from_parquet(folder, "y", weight="w"))
    assert isinstance(heavy.model_, mercer.FeatureMachineRegressor)
    # all rows are drawn here, so that all of them are left out
    np.testing.assert_array_equal(model.loo(frame), model.loo())
    with pytest.raises(InvalidInput, match="X is not what the model was fitted on"):
        model.loo(frame.take(np.arange(N)[::-1]))


def test_classes_of_blocks_have_probabilities(folder, frame, target):
    labels = np.where(target > np.median(target), "high", "low")
    model = TableClassifier(**HURRY).fit(blocks_of(folder, block_rows=50), labels)
    P = model.predict_proba(blocks_of(folder))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert model.score(frame, labels) > 0.7
    np.testing.assert_array_equal(model.predict(frame), model.classes_[P.argmax(axis=1)])
    balanced = TableClassifier(class_weight="balanced", **HURRY).fit(blocks_of(folder), labels)
    assert type(balanced.model_) is mercer.KernelRidgeClassifier  # as before
    with pytest.raises(InvalidInput, match=r"^TableClassifier: class_weight='balanced' with Row"):
        TableClassifier(class_weight="balanced", model="features").fit(blocks_of(folder), labels)


def test_text_in_blocks_is_read_by_a_machine_and_few_rows_are_left_to_a_ridge():
    rng = np.random.default_rng(0)
    words = ["red", "blue", "deep", "pale", "wide", "cold"]
    table = Table({"note": [" ".join(rng.choice(words, 6)) for _ in range(60)]})
    y = np.array([text.count("red") for text in table["note"].tolist()], dtype=float)
    blocks = RowBlocks.from_arrays(table, y, block_rows=25)
    model = TableRegressor(**HURRY).fit(blocks)
    assert type(model.model_) is mercer.FeatureMachineRegressor
    assert model.encoder_.kinds_ == ("kernel",) and model.score(blocks) > 0.8
    few = RowBlocks.from_arrays(np.arange(8.0)[:4, None], np.arange(4.0), block_rows=3)
    assert type(TableRegressor().fit(few).model_) is mercer.KernelRidge


def test_a_class_too_rare_to_be_drawn_is_left_to_a_ridge(monkeypatch):
    monkeypatch.setattr(streams, "SAMPLE", 60)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    labels = np.where(X[:, 0] > 0, "u", "v")
    drawn = RowBlocks.from_arrays(X, np.arange(300)).sample(60, 0, with_targets=True)[1].tolist()
    labels[next(i for i in range(300) if i not in drawn)] = "w"
    blocks = RowBlocks.from_arrays(X, labels, block_rows=90)
    with pytest.warns(UserWarning, match=r"^TableClassifier: class 'w' .* in place of a feature"):
        model = TableClassifier(**HURRY).fit(blocks)
    assert type(model.model_) is mercer.KernelRidgeClassifier and "w" in model.classes_
    with pytest.raises(InvalidInput, match=r"^TableClassifier: class 'w' has too few rows"):
        TableClassifier(model="features", **HURRY).fit(blocks)
    model = TableRegressor(**HURRY).fit(RowBlocks.from_arrays(X, X[:, 0], block_rows=90))
    with pytest.raises(
        InvalidInput, match=r"^TableRegressor\.loo: .* 300 rows in blocks, of which 60"
    ):
        model.loo()
    assert len(model.model_.left_out_) == 60
