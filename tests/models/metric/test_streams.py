"""Feature machines on rows in blocks: metrics of a sample, fits to all rows."""

import numpy as np
import pytest

from mercer import RowBlocks
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.models import FeatureMachineClassifier, FeatureMachineRegressor
from mercer.models.metric import learning, streams

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
