"""Feature machines on rows in blocks: metrics of a sample, fits to all rows."""

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import RowBlocks
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.models import FeatureMachineClassifier, FeatureMachineRegressor
from mercer.models.metric import learning, streams
from mercer.models.metric.choice import RowsLeftOut
from mercer.models.metric.stacking import LogPool

N = 600


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=N), "b": rng.normal(size=N), "c": rng.choice(["u", "v", "w"], N)}
    X["a"][::50] = np.nan
    return X, np.sin(2 * np.nan_to_num(X["a"])) + (X["c"] == "u") + 0.1 * rng.normal(size=N)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(streams, "SAMPLE", 200)
    monkeypatch.setattr(learning, "CENTERS", 80)


def blocks(X, y, weight=None):
    def rows():
        for i in range(0, N, 130):
            part = slice(i, i + 130)
            told = (Table({name: column[part] for name, column in X.items()}), y[part])
            yield told if weight is None else (*told, weight[part])

    return RowBlocks.from_generator(rows, N)


def test_numbers(columns, few):
    X, y = columns
    model = FeatureMachineRegressor(2, max_rows=60).fit(blocks(X, y))
    table = Table(X)
    assert model.score(table, y) > 0.9 and model.left_out_error_ < 0.5
    assert all(len(member.X_fit_) == 80 for member in model.members_)
    assert all(member.n_rows_ == N for member in model.members_)
    np.testing.assert_allclose(model.predict(blocks(X, y)), model.predict(table))
    lower, upper = model.predict_interval(table)
    assert 0.8 < np.mean((lower <= y) & (y <= upper)) < 0.99
    # the sample is that of the blocks, in its order
    _, drawn, _ = blocks(X, y).sample(200, 0, with_targets=True)
    known = ~np.isnan(model.left_out_)
    assert np.corrcoef(model.left_out_[known], drawn[known])[0, 1] > 0.8


@pytest.mark.parametrize("cuts", [[0.5], [0.0, 1.0]])
def test_classes(columns, few, cuts):
    X, y = columns
    labels = np.array(["low", "mid", "top"])[np.digitize(y, cuts)]
    model = FeatureMachineClassifier(3, max_rows=60).fit(blocks(X, labels))
    assert model.score(Table(X), labels) > 0.8
    P = model.predict_proba(Table(X))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_proba(blocks(X, labels)), P)
    np.testing.assert_array_equal(model.predict(blocks(X, labels)), model.predict(Table(X)))
    with pytest.raises(InvalidInput, match="class_weight='balanced' with RowBlocks; give"):
        model.set_params(class_weight="balanced").fit(blocks(X, labels))


def test_a_class_that_no_sample_holds(columns, few):
    X, y = columns
    labels = np.where(y > 0.5, "high", "low").astype(object)
    sampled = set(blocks(X, np.arange(N)).sample(200, 0, with_targets=True)[1].tolist())
    labels[next(i for i in range(N) if i not in sampled)] = "rare"
    model = FeatureMachineClassifier(1, max_rows=40)
    with pytest.raises(InvalidInput, match="class 'rare' has too few rows to be among the 200"):
        model.fit(blocks(X, labels))
    assert not hasattr(model, "members_")


def test_a_refused_fit_leaves_the_machine_as_it_was(columns, few):
    X, y = columns
    model = FeatureMachineRegressor(1, max_rows=40).fit(Table(X), y)
    before = model.predict(Table(X))
    bad = y.copy()
    bad[-1] = np.nan
    with pytest.raises(InvalidInput, match=r"row 79 of block 4 .* is nan"):
        model.fit(blocks(X, bad))
    np.testing.assert_array_equal(model.predict(Table(X)), before)
    with pytest.raises(InvalidInput, match="the blocks carry no target"):
        model.fit(RowBlocks.from_arrays(np.zeros((9, 2))))


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_the_size_of_weights_does_not_matter_in_blocks(size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=120)
    weight = size * rng.uniform(0.9, 1.1, 120)
    models = [
        FeatureMachineRegressor(2, max_time=1e-9).fit(RowBlocks.from_arrays(X, y, w, block_rows=50))
        for w in (weight, weight / size)
    ]
    first, second = (model.predict(X) for model in models)
    np.testing.assert_allclose(first, second, atol=1e-3)


def test_weighted_classes_of_blocks_are_those_of_rows_in_memory():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=150) > 0).astype(int)
    weight = np.where(y == 1, 20.0, 1.0)
    machine = FeatureMachineClassifier(2, max_time=1e-9)
    blocks = RowBlocks.from_arrays(X, y, weight, block_rows=60)
    P = clone(machine).fit(blocks).predict_proba(X)[:, 1]
    Q = clone(machine).fit(X, y, weight).predict_proba(X)[:, 1]
    assert np.abs(P - Q).max() < 0.02


@pytest.mark.parametrize("classes", [False, True])
def test_the_first_members_do_without_those_that_there_is_no_time_for(classes, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=90)
    y = np.digitize(y, [-0.5, 0.5]) if classes else y
    machine = (FeatureMachineClassifier if classes else FeatureMachineRegressor)(4)
    whole = clone(machine).fit(RowBlocks.from_arrays(X, y, block_rows=40))
    assert len(whole.members_) > 1 and (np.diff(whole.weights_) <= 0).all()
    pools, pooled = [], RowsLeftOut.pooled
    monkeypatch.setattr(RowsLeftOut, "pooled", lambda *a: pools.append(pooled(*a)) or pools[-1])
    late, fit = [], streams.fitted_to_blocks
    now = mercer.checks.time.monotonic

    class Watch:
        def monotonic(self):
            return now() + 1e6 * len(late)

    def fits(*given):
        member = fit(*given)
        late.append(member)
        return member

    monkeypatch.setattr(mercer.checks, "time", Watch())
    monkeypatch.setattr(streams, "fitted_to_blocks", fits)
    machine.set_params(max_time=1e5)
    with pytest.warns(UserWarning, match="max_time=100000 s is too short for one metric"):
        model = machine.fit(RowBlocks.from_arrays(X, y, block_rows=40))
    assert len(model.members_) == 1 and model.weights_.tolist() == [1.0]
    model._check_state()
    assert model.score(X, y) > 0.7
    (judged,) = pools[-1].judged  # what is told is of the one that is kept
    assert not np.allclose(model.left_out_, whole.left_out_, atol=1e-9)
    if classes:
        alone = LogPool.of([judged.left_out], pools[-1].rows.labels, None, 4)
        np.testing.assert_allclose(model.offset_, alone.offset)
        np.testing.assert_allclose(model.slopes_, alone.slopes)
    else:
        _, drawn, _ = RowBlocks.from_arrays(X, y, block_rows=40).sample(90, 0, with_targets=True)
        np.testing.assert_allclose(model.residuals_[:, 0], np.abs(model.left_out_ - drawn))
        error = np.sqrt(np.mean(model.residuals_**2)) / drawn.std()
        assert model.left_out_error_ == pytest.approx(error)
