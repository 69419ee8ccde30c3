"""The kernel proposed for a table: from the kinds of its columns, for every model."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import mercer
from mercer import kernels as mk
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.kernels import RBF, Categorical, Spectrum, auto_kernel, column_kinds
from tests.kernels.mixed_columns import N, columns, frames


# ---------------------------------------------------------------------------------- kernels
def test_the_proposed_kernel():
    data, several = frames()
    k = auto_kernel(data)
    assert all(auto_kernel(frame) == k for frame in several)
    assert all(name in repr(k) for name in ("'age'", "'dose'", "'site'", "'sequence'", "'note'"))
    assert not any(name in repr(k) for name in ("'id'", "'unit'", "'patient'"))
    names = {name: getattr(mk, name) for name in mk.__all__}
    assert eval(repr(k), {"__builtins__": {}}, names) == k
    K = k(data)
    np.testing.assert_allclose(np.diagonal(K), 1.0, rtol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-10 and K.min() >= 0
    for frame in several:
        np.testing.assert_allclose(k(frame), K, rtol=1e-12)


def test_units_do_not_matter():
    data = columns()
    milli = {**data, "age": data["age"] * 365.25, "dose": data["dose"] * 1e6}
    np.testing.assert_allclose(auto_kernel(milli)(milli), auto_kernel(data)(data), rtol=2e-3)


def test_every_part_takes_missing_values():
    data = columns()
    k = auto_kernel(data)  # nothing is missing there
    rng = np.random.default_rng(1)
    holed = {}
    for name, values in data.items():
        holed[name] = np.array(values, dtype=object)
        holed[name][rng.random(N) < 0.3] = None
    k = k.fit_params(data)
    assert np.linalg.eigvalsh(k(holed))[0] > -1e-10
    assert np.isfinite(k(holed, data)).all()
    empty = {name: [None, None] for name in data}
    np.testing.assert_allclose(k(empty), np.ones((2, 2)))


def test_an_irrelevant_column_does_not_hide_the_others():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 120)
    noise = ["".join(rng.choice(list("ACGT"), 10)) for _ in range(120)]
    frame = Table({"x": x, "noise": noise})
    y = np.sin(x)
    k = auto_kernel(frame)
    plain = k.k1.k2.k2 * k.k2.k2.k2
    scores = [
        cross_val_score(mercer.KernelRidge(kernel, alpha=0.01), frame, y, cv=4).mean()
        for kernel in (k, plain)
    ]
    assert scores[0] > 0.9 > scores[1]


def test_gaps_in_many_columns_cost_little():
    X, y = load_wine(return_X_y=True)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    frame = Table(dict(zip((f"x{j}" for j in range(X.shape[1])), X.T, strict=True)))
    models = (
        mercer.KernelRidgeClassifier(auto_kernel(frame), alpha=0.1),
        mercer.TableClassifier("rbf"),
    )
    scores = [cross_val_score(model, frame, y, cv=5).mean() for model in models]
    assert scores[0] > max(0.96, scores[1] - 0.01)


def test_very_many_categories():
    frame = {f"g{i}": ["AA", "AG", "GG", "AA"] for i in range(3000)}
    k = auto_kernel(frame)
    K = k(frame)
    assert K[0, 3] == 1 and K[0, 1] == pytest.approx(0.5, rel=1e-3)
    assert (k.theta < k.bounds[:, 1]).all()


def test_a_number_without_a_square_is_named():
    with pytest.raises(InvalidInput, match=r"column 'b' holds 1e\+308 at row 1"):
        auto_kernel({"a": [1.0, 2.0, 3.0], "b": [1.0, 1e308, 3.0]})


def test_arrays_are_called_by_position():
    X = np.random.default_rng(0).standard_normal((30, 3))
    k = auto_kernel(X)
    assert k.columns == [0, 1, 2] and k(X).shape == (30, 30)
    rows = np.array([[1.0, "a"], [2.0, "b"], [4.0, "a"], [3.0, "b"]], dtype=object)
    assert auto_kernel(rows)(rows).shape == (4, 4)
    assert list(column_kinds(rows)) == [0, 1]


@pytest.mark.parametrize("frame", [{}, {"a": [1, 1]}, {"a": []}, [], 3, None, "text", [[]]])
def test_tables_of_nothing_to_compare(frame):
    with pytest.raises(InvalidInput, match="auto_kernel"):
        auto_kernel(frame)


# ------------------------------------------------------------------- in every kind of model
K = RBF(10.0).on(["age", "dose"]) * Categorical().on("site") + Spectrum(3).on("sequence")


def test_a_kernel_on_mixed_columns_in_pipelines_searches_and_files(tmp_path):
    _, several = frames()
    y = np.array([1.0 if "AC" in s else -1.0 for s in columns()["sequence"]])
    for frame in several:
        pipe = make_pipeline(FunctionTransformer(), mercer.KernelRidge(K))
        assert cross_val_score(pipe, frame, y, cv=3).shape == (3,)
        grid = {
            "kernel__k1__k1__kernel__length_scale": [1.0, 20.0],
            "kernel__k2__kernel__length": [2],
        }
        search = GridSearchCV(mercer.KernelRidge(K), grid, cv=3).fit(frame, y)
        assert search.best_estimator_.kernel_.k2.kernel.length == 2
        model = clone(mercer.SVC(kernel=K)).fit(frame, y)
        expected = model.decision_function(frame)
        mercer.save(model, tmp_path / "m.mercer")
        for twin in (pickle.loads(pickle.dumps(model)), mercer.load(tmp_path / "m.mercer")):
            np.testing.assert_array_equal(twin.decision_function(frame), expected)


def test_other_columns_and_another_order_in_new_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns())
    y = np.arange(N) / N
    model = mercer.KernelRidge(K).fit(frame, y)
    expected = model.predict(frame)
    assert model.X_fit_.names == ("age", "dose", "site", "sequence")
    other = frame[["sequence", "site", "dose", "age"]].assign(
        new="x", when=pandas.Timestamp("2020")
    )
    np.testing.assert_array_equal(model.predict(other), expected)
    np.testing.assert_array_equal(model.predict(Table(other)), expected)
    with pytest.raises(InvalidInput, match=r"no column 'dose'.*Did you mean 'Dose'"):
        model.predict(frame.rename(columns={"dose": "Dose"}))
    with pytest.raises(InvalidInput, match="column names"):
        model.predict(frame[["age", "dose", "site", "sequence"]].to_numpy())
    by_position = mercer.KernelRidge(RBF().on([0, 1])).fit(frame[["age", "dose"]], y)
    with pytest.raises(InvalidInput, match="feature names"):
        by_position.predict(frame[["dose", "age"]])


def test_columns_of_graphs_and_arrays_in_files(tmp_path):
    networkx = pytest.importorskip("networkx")
    rng = np.random.default_rng(0)
    graphs = [networkx.gnp_random_graph(5, 0.5, seed=i) for i in range(20)]
    for graph in graphs:
        networkx.set_node_attributes(graph, {v: v % 2 for v in graph}, "label")
    frame = Table(
        {
            "graph": [*graphs[:-1], None],
            "bag": [rng.standard_normal((int(rng.integers(1, 4)), 2)) for _ in range(20)],
            "day": np.arange(20).astype("M8[D]"),
        }
    )
    k = mk.WeisfeilerLehman(2).with_missing().on("graph") + mk.SetKernel(RBF()).on("bag")
    model = mercer.KernelRidge(k).fit(frame, rng.standard_normal(20))
    mercer.save(model, tmp_path / "m.mercer")
    np.testing.assert_array_equal(
        mercer.load(tmp_path / "m.mercer").predict(frame), model.predict(frame)
    )


def test_a_column_is_converted_once_for_each_binding(monkeypatch):
    from mercer.domains.strings import StringCollection

    packed = []
    pack = StringCollection.pack
    monkeypatch.setattr(StringCollection, "pack", lambda s: packed.append(1) or pack(s))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns())
    k = Spectrum(2).normalized().on("sequence")
    k(frame)
    assert len(packed) == 1
    model = mercer.KernelRidge(k, alpha=0.1).fit(frame, np.arange(N))
    model.predict(frame[:2])
    packed.clear()
    model.predict(frame[:2])
    assert len(packed) == 1  # the new rows


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (RBF().on("site"), r"on\('site'\).*text or categories"),
        (Spectrum(2).on("age"), r"on\('age'\): Strings: X\[0\]"),
        (Spectrum(2).on(["sequence", "note"]), "has the columns 'sequence', 'note'"),
        (RBF().on("agee"), "no column 'agee'.*Did you mean 'age'"),
        (RBF().on(["age", 99]), "no column 99"),
        (RBF() + Categorical().on("site"), "where numbers belong"),
    ],
)
def test_kernels_that_do_not_fit_the_columns(kernel, words):
    _, several = frames()
    for frame in several:
        with pytest.raises(InvalidInput, match=words):
            mercer.KernelRidge(kernel).fit(frame, np.arange(N))
