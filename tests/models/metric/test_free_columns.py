"""Feature machines on text, strings and graphs: principal coordinates of kernels of their own."""

import numpy as np
import pytest

import mercer
from mercer.datasets import make_splice
from mercer.domains import Graph, Table
from mercer.errors import InvalidInput, ModelFileError
from mercer.features import PrincipalCoordinates, TableEncoder
from mercer.kernels import RBF, BagOfWords, Spectrum
from mercer.models import FeatureMachineClassifier, FeatureMachineRegressor
from mercer.models.metric.learning import EncodedRows, descend, plain
from mercer.models.metric.scores import groups_of, numbers_of
from mercer.models.metric.trials import SMOOTH

FILLERS = ["the", "a", "of", "and", "then", "came", "went", "saw", "many", "near", "old", "far"]


def notes(n, seed=0):
    """Return a table whose notes, numbers and categories decide the target, in this order."""
    rng = np.random.default_rng(seed)
    words = np.array(["fever", "cough", "rash", "pain"])
    has = rng.random((n, 4)) < 0.5
    texts = []
    for row in has:
        said = [*words[row], *rng.choice(FILLERS, 6)]
        texts.append(" ".join(rng.permutation(said)))
    x, site = rng.normal(size=n), rng.choice(["a", "b"], n)
    y = 2 * has @ np.array([1.0, -1.0, 0.5, 0.0]) + 0.5 * x + 0.4 * (site == "a")
    noise = rng.normal(size=n)
    return Table({"noise": noise, "note": texts, "x": x, "site": site}), y


@pytest.fixture(scope="module")
def fitted():
    table, y = notes(120)
    return FeatureMachineRegressor(n_models=3).fit(table, y), table, y


def test_the_column_that_matters_is_the_text(fitted):
    model, table, _ = fitted
    new, target = notes(200, seed=1)
    assert model.encoder_.kinds_ == ("number", "kernel", "number", "category")
    assert table.names[model.importances_.argmax()] == "note"
    assert model.importances_.sum() == pytest.approx(1.0) and model.importances_.shape == (4,)
    error = np.mean((model.predict(new) - target) ** 2) / target.var()
    without = FeatureMachineRegressor(n_models=3, categorical=["note"]).fit(table, notes(120)[1])
    assert without.encoder_.kinds_[1] == "category"
    assert error < 0.35 < np.mean((without.predict(new) - target) ** 2) / target.var()


def test_files_hold_the_coordinates(fitted, tmp_path):
    model, table, _ = fitted
    mercer.save(model, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.encoder_.widths == model.encoder_.widths
    parts = vars(model.encoder_.maps_[1])
    with pytest.raises(ModelFileError, match="do not fit its landmarks"):
        PrincipalCoordinates.from_parts(**parts | {"mean": parts["mean"][1:]})


def test_strings_that_nobody_has_seen(fitted):
    model, table, y = fitted
    new = {name: table[name][:4] for name in table.names}
    answers = model.predict(new | {"note": ["", None, "zzz qqq", "fever"]})
    assert np.isfinite(answers).all()
    reach = np.ptp(y)
    assert y.min() - reach < answers.min() and answers.max() < y.max() + reach
    gaps = Table({n: table[n] for n in table.names} | {"note": [None, "", *table["note"][2:]]})
    other = FeatureMachineRegressor(n_models=1).fit(gaps, y)
    assert np.isfinite(other.predict(gaps)).all()


def test_text_alone_and_weights_of_zero():
    table, y = notes(90)
    only, weights = {"note": table["note"]}, (np.arange(90) % 3 > 0).astype(float)
    model = FeatureMachineRegressor(n_models=2).fit(only, y, sample_weight=weights)
    assert model.importances_ == pytest.approx([1.0])
    kept = {"note": table["note"][weights > 0]}
    rest = FeatureMachineRegressor(n_models=2).fit(kept, y[weights > 0])
    np.testing.assert_allclose(model.predict(only), rest.predict(only), rtol=1e-6)
    assert np.isnan(model.left_out_[weights == 0]).all()


def test_strings_are_classified_by_the_kernel_of_least_left_out_error():
    dna, kind = make_splice(100, random_state=0)
    model = FeatureMachineClassifier(n_models=2).fit({"dna": dna}, kind)
    assert "WeightedDegree" in repr(model.encoder_.kernels["dna"])
    assert model.left_out_error_ < 0.3
    two = FeatureMachineRegressor(n_models=1).fit(
        {"dna": dna}, np.column_stack([np.arange(100.0), 1e6 * (kind == kind[0])])
    )
    assert two.predict({"dna": dna[:3]}).shape == (3, 2)


def test_graphs():
    rng = np.random.default_rng(0)
    graphs = [
        Graph(edges=[(i, i + 1) for i in range(n)], n_nodes=n + 1) for n in rng.integers(2, 12, 40)
    ]
    column = np.fromiter(graphs, dtype=object, count=40)
    y = np.array([float(graph.n_nodes) for graph in graphs])
    model = FeatureMachineRegressor(n_models=1).fit({"g": column, "x": rng.normal(size=40)}, y)
    assert model.encoder_.kinds_ == ("kernel", "number") and model.left_out_error_ < 0.7


def test_rows_in_blocks():
    table, y = notes(150)
    blocks = mercer.RowBlocks.from_generator(
        lambda: ((table.take(np.arange(i, i + 50)), y[i : i + 50]) for i in (0, 50, 100)), 150
    )
    model = FeatureMachineRegressor(n_models=1).fit(blocks)
    assert model.encoder_.kinds_ == ("number", "kernel", "number", "category")
    assert np.mean((model.predict(table) - y) ** 2) < 0.3 * y.var()


# ----------------------------------------------------------------------------------- how it is made
def test_coordinates_keep_the_distances_of_the_kernel():
    table, _ = notes(60)
    texts, new = table["note"].tolist(), notes(5, seed=2)[0]["note"].tolist()
    kernel = BagOfWords().with_missing()
    found = PrincipalCoordinates.of(kernel, texts, None)
    Z = found(texts)
    assert Z.shape == (60, len(found))
    K = found.features.kernel_(texts + new)
    D = np.diagonal(K)[:, None] + np.diagonal(K) - 2 * K
    A = np.vstack([Z, found(new)])
    squares = ((A[:, None] - A[None, :60]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squares, found.scale**2 * D[:, :60], atol=1e-7)
    assert squares[:60].mean() == pytest.approx(1.0)
    twice = PrincipalCoordinates.of(kernel, [texts[0], *texts], None)
    heavy = PrincipalCoordinates.of(kernel, texts, np.r_[2.0, np.ones(59)])
    np.testing.assert_allclose(abs(twice(new)), abs(heavy(new)), atol=1e-6)
    one = PrincipalCoordinates.of(kernel, ["cold rain"] * 5, None)
    np.testing.assert_array_equal(one(["cold rain", "sun", None]), np.zeros((3, 1)))


def test_coordinates_of_a_column_share_a_factor():
    table, y = notes(60)
    kernels = {"note": BagOfWords().with_missing(), 0: None}
    encoder = TableEncoder(kernels=kernels).fit(table)
    group, width = groups_of(encoder), encoder.widths[1]
    assert encoder.kinds_ == ("left out", "kernel", "number", "category")
    np.testing.assert_array_equal(group, [0] * width + [1, 2, 3])
    np.testing.assert_array_equal(np.flatnonzero(numbers_of(encoder)), [width])
    assert encoder.get_feature_names_out()[0] == "note[0]"
    rows = EncodedRows(encoder.transform(table), (y - y.mean())[:, None] / y.std(), None, group)
    start = plain(rows, SMOOTH)
    found = descend(rows, start, mercer.checks.Clock(None))
    assert found.error < start.error
    assert np.ptp(found.map[:width]) == 0 and len(set(found.map)) == 4


def test_kernels_of_columns_are_checked():
    table, _ = notes(20)
    with pytest.raises(InvalidInput, match=r"gives the column 'note' 'words'.*None to leave"):
        TableEncoder(kernels={"note": "words"}).fit(table)
    with pytest.raises(InvalidInput, match="kernels names the column 'text', which is not"):
        TableEncoder(kernels={"text": Spectrum(3)}).fit(table)
    with pytest.raises(InvalidInput, match="give a dict from column to kernel"):
        TableEncoder(kernels=RBF()).fit(table)


def test_infinite_numbers_beside_text_are_refused_not_left_out():
    rng = np.random.default_rng(0)
    notes = [" ".join(rng.choice(["aa", "bb", "cc", "dd"], 5)) for _ in range(30)]
    x = rng.normal(size=30)
    table = Table({"x": np.where(np.arange(30) == 3, np.inf, x), "note": notes})
    with pytest.raises(InvalidInput, match=r"column 'x' holds inf .* at row 3"):
        FeatureMachineRegressor(max_time=1e-9).fit(table, x)


def test_columns_that_are_left_out_are_told_of():
    table, y = notes(40)
    days = np.datetime64("2026-01-01") + np.arange(40)
    columns = dict(zip(table.names, table.columns, strict=True)) | {"constant": np.ones(40)}
    with pytest.warns(UserWarning, match="column 'when' is left out: dates") as told:
        FeatureMachineRegressor(max_time=1e-9).fit(Table(columns | {"when": days}), y)
    assert not any("constant" in str(each.message) for each in told)
