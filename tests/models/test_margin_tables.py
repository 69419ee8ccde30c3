"""Support vectors that are rows of a frame: what of them is kept."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import mercer
from mercer import RBF, SVC, SVR, Categorical, NuSVC, NuSVR, OneClassSVM
from mercer.domains import Table

KERNEL = RBF(1.0).on("size") * Categorical().on("colour")
N = 24


@pytest.fixture
def frame(rng):
    return pd.DataFrame(
        {
            "when": pd.date_range("2020-01-01", periods=N, tz="UTC"),
            "size": rng.standard_normal(N),
            "net": [nx.path_graph(1 + i % 3) for i in range(N)],
            "colour": rng.choice(["red", "green", "blue"], N),
        }
    )


def target(model, frame):
    size = frame["size"].to_numpy()
    if isinstance(model, SVR | NuSVR):
        return size**2
    return np.where(size > 0.4, "high", np.where(size < -0.4, "low", "middle"))


@pytest.mark.parametrize(
    "model",
    [
        SVC(KERNEL),
        SVC(KERNEL, C=np.inf),
        NuSVC(KERNEL, nu=0.2),
        SVR(KERNEL, epsilon=0.05),
        NuSVR(KERNEL),
        OneClassSVM(KERNEL),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("form", [pd.DataFrame, Table.from_frame])
def test_only_columns_that_the_kernel_looks_at_are_kept(tmp_path, frame, model, form):
    looked = frame[["size", "colour"]]
    model.fit(form(frame), target(model, frame))
    assert set(model.support_vectors_.names) == {"size", "colour"}
    answer = model.score_samples if isinstance(model, OneClassSVM) else model.predict
    before = answer(frame)
    less = clone(model).fit(looked, target(model, frame))
    np.testing.assert_array_equal(less.support_, model.support_)

    mercer.save(model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    answer = again.score_samples if isinstance(again, OneClassSVM) else again.predict
    np.testing.assert_array_equal(answer(frame), before)
    np.testing.assert_array_equal(answer(frame[["colour", "net", "size", "when"]]), before)
    np.testing.assert_allclose(again.function_(looked), model.function_(frame))


@pytest.mark.parametrize("model", [SVC(KERNEL), SVR(KERNEL)], ids=lambda m: type(m).__name__)
def test_leave_one_out_does_not_look_at_the_other_columns(frame, model):
    y = target(model, frame) if isinstance(model, SVR) else frame["size"].to_numpy() > 0
    model.fit(Table.from_frame(frame), y)
    changed = frame.assign(when=pd.Timestamp("1999-01-01"), net=0)
    np.testing.assert_array_equal(model.loo(changed), model.loo(frame))
    with pytest.raises(mercer.errors.InvalidInput, match="not what the model was fitted on"):
        model.loo(frame.assign(size=0.0))


def test_the_kept_rows_do_not_change_with_the_frame(frame):
    model = SVC(KERNEL).fit(frame, frame["size"] > 0)
    before = model.decision_function(frame.copy())
    new = frame.copy()
    frame["size"] = 0.0
    np.testing.assert_array_equal(model.decision_function(new), before)
