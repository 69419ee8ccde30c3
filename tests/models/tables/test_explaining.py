"""Table models tell shares of columns: texts, gaps and numbers, asked at mixed rows."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from mercer import FeatureMachineRegressor, TableClassifier, TableRegressor
from mercer.domains import Table
from mercer.errors import InvalidInput
from tests.rkhs.test_games import counted

N = 90
RNG = np.random.default_rng(0)
TABLE = {
    "a": np.where(np.arange(N) % 17 == 0, np.nan, RNG.normal(size=N)),
    "kind": RNG.choice(["red", "blue", "green"], N).astype(object),
    "b": RNG.normal(size=N),
}
Y = 2 * np.nan_to_num(TABLE["a"]) + 3 * (TABLE["kind"] == "red") + 0.1 * RNG.normal(size=N)
LABELS = np.digitize(Y, [0.0, 2.0])


def rows(*index):
    return {name: column[list(index)] for name, column in TABLE.items()}


def test_shares_are_those_of_all_mixed_rows():
    model = TableRegressor(model="ridge", alpha=0.1).fit(TABLE, Y)
    weights = np.array([1.0, 2.0, 0.0, 1.0])
    told = model.explain(rows(3, 34), background=rows(5, 6, 7, 8), background_weight=weights)
    names = ("a", "kind", "b")
    assert told.columns == names and told.data[0, 1] == TABLE["kind"][3]
    np.testing.assert_allclose(told.totals, model.predict(rows(3, 34)), atol=1e-8)

    def worth(S):
        mixed = {
            name: np.array([TABLE[name][34 if {j} <= set(S) else b] for b in (5, 6, 7, 8)], object)
            for j, name in enumerate(names)
        }
        mixed = {n: c if n == "kind" else c.astype(float) for n, c in mixed.items()}
        return model.predict(mixed) @ weights / weights.sum()

    np.testing.assert_allclose(told.values[1], counted(worth, 3)[0], atol=1e-8)
    repeated = model.explain(rows(34), background=rows(5, 6, 6, 8))
    np.testing.assert_allclose(repeated.values[0], told.values[1], atol=1e-9)


def test_classes_machines_and_groups():
    model = TableClassifier(max_time=2).fit(TABLE, LABELS)
    told = model.explain(TABLE, background=rows(*range(20)), groups=[["a", "b"]])
    assert told.outputs == ("0", "1", "2") and told.columns == ("a & b", "kind")
    np.testing.assert_allclose(told.totals, model.decision_function(TABLE), atol=1e-8)
    two = TableClassifier(model="ridge").fit(TABLE, LABELS > 1)
    told = two.explain(Table(rows(1)), background=Table(TABLE), interactions=True)
    assert told.values.shape == (1, 3)
    np.testing.assert_allclose(told.interactions.sum(axis=2), told.values, atol=1e-10)


def test_orders_are_drawn_for_many_columns():
    X = RNG.normal(size=(60, 11))
    model = FeatureMachineRegressor(1, max_time=2).fit(X, X[:, 0])
    told = model.explain(X[:3], background=X)
    assert told.std.shape == told.values.shape and told.columns[10] == "x10"
    np.testing.assert_allclose(told.totals, model.predict(X[:3]), atol=1e-8)


def test_what_is_refused():
    model = TableRegressor(model="ridge")
    with pytest.raises(NotFittedError):
        model.explain(TABLE, background=TABLE)
    model.fit(TABLE, Y)
    with pytest.raises(InvalidInput, match=r"TableRegressor.explain: .*background=None"):
        model.explain(TABLE)
    with pytest.raises(InvalidInput, match="background has other columns"):
        model.explain(TABLE, background={"a": TABLE["a"]})
    with pytest.raises(InvalidInput, match="names a column 'z'"):
        model.explain(TABLE, background=TABLE, groups=[["z"]])
