"""Packed collections in model files: each goes through and back, and none comes in malformed."""

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer import RBF, KernelRidge, SetKernel, models
from mercer.domains import (
    BagCollection,
    Bags,
    Nodes,
    Packed,
    SeriesCollection,
    StringCollection,
    Strings,
    Table,
    Tables,
    Vectors,
)
from mercer.errors import MercerError, ModelFileError
from mercer.io import load, registry, save
from mercer.kernels import Categorical, GlobalAlignment, Ordinal
from mercer.kernels.graphs import WeisfeilerLehman
from mercer.kernels.strings import Spectrum

WORDS = ["gattaca", "", "attac", "é😀", "cagga", "gattaca"]


def chain(n, labels):
    return mercer.Graph(edges=[(i, i + 1) for i in range(n - 1)], n_nodes=n, labels=labels)


GRAPHS = [chain(3, ["C", "O", "C"]), chain(2, ["C", "N"]), chain(4, list("CCCO")), chain(0, [])]


def collections():
    """One or more of every packed collection that a file may hold, found by the kernels."""
    yield Strings().check(WORDS)
    yield Strings().check([w.encode() for w in WORDS])
    yield Strings().check([])
    yield WeisfeilerLehman(1).domain.check(GRAPHS)
    yield Categorical().domain.check(["a", "b", "a"])
    yield Ordinal(["low", "high"]).domain.check(["low", "high", "low"])
    yield Bags(Strings()).check([WORDS[:2], [], WORDS[2:]])
    yield Bags(Vectors()).check([np.eye(2), np.zeros((1, 2))])
    yield Bags(Vectors()).check([sp.csr_array(np.eye(2)), sp.csr_array((1, 2))])
    yield Bags(Tables()).check([Table({"a": [1.0], "b": [2.0]}), Table({"a": [3.0], "b": [4.0]})])
    yield Bags(Bags(Strings())).check([[WORDS[:2]], [WORDS[2:], []]])
    yield Spectrum(2).with_missing().domain.check(["ab", None, "b"])
    yield Nodes(5).check([0, 4, 4])
    yield Nodes(("v", "w")).check(["w", "v", "w"])
    yield GlobalAlignment().domain.check([np.zeros((3, 2)), np.ones((1, 2))])


CASES = [c for c in collections() if isinstance(c, Packed)]


def test_every_packed_form_has_a_case():
    forms = registry.closed_list().values()
    known = {f.cls for f in forms if isinstance(f.cls, type) and issubclass(f.cls, Packed)}
    assert not known - {type(c) for c in CASES}


@pytest.mark.parametrize("points", CASES, ids=lambda c: f"{type(c).__name__}-{len(c)}")
def test_a_collection_goes_through_a_file(points, tmp_path):
    save(mercer.Function(_kernel(points), points, np.ones(len(points))), tmp_path / "f")
    again = load(tmp_path / "f").points
    assert type(again) is type(points) and again == points
    assert [repr(a) for a in again] == [repr(a) for a in points]


def _kernel(points):
    """A kernel that takes the points: only files are at stake here."""
    kernel = mercer.kernels.Constant(1.0)
    kernel.domain.check(points)
    return kernel


WRONG = {
    "nothing": lambda a: None,
    "text": lambda a: "abc",
    "a list": lambda a: [1, 2],
    "fewer entries": lambda a: a[:-1],
    "more entries": lambda a: np.append(a, a[-1:] + a[-1:] + 1).astype(a.dtype),
    "negative numbers": lambda a: a - 100 if a.dtype.kind in "if" else a.astype(np.int64) - 100,
    "large numbers": lambda a: (
        a + np.array(2**31 - 1, dtype=a.dtype) if a.dtype.kind == "i" else None
    ),
    "another dtype": lambda a: a.astype(np.float32 if a.dtype != np.float32 else np.int8),
    "complex numbers": lambda a: a.astype(complex),
    "objects": lambda a: a.astype(object),
    "two axes": lambda a: np.stack([a, a]),
    "the other order": lambda a: a[::-1],
    "wraps around": lambda a: (
        np.concatenate([a[:1], [2**63 - 1, -2], a[3:]]) if a.dtype == np.int64 else None
    ),
    "not a number": lambda a: a * np.nan if a.dtype.kind == "f" else None,
}


@pytest.mark.parametrize("points", CASES, ids=lambda c: f"{type(c).__name__}-{len(c)}")
@pytest.mark.parametrize("change", WRONG)
def test_malformed_arrays_are_refused_or_harmless(points, change):
    arrays = {name: getattr(points, name) for name in points._arrays}
    for name, value in arrays.items():
        if not isinstance(value, np.ndarray) or not value.size:
            continue
        try:
            with np.errstate(all="ignore"):
                forged = {**arrays, name: WRONG[change](value)}
        except (TypeError, ValueError):  # no such change of text
            continue
        try:
            made = type(points).from_arrays(**forged)
        except ModelFileError:
            continue
        # What is let in must be a collection that can be read to the end.
        assert made.take(slice(None)) is not None and len(list(made)) == len(made)


def test_offsets_whose_differences_wrap_around_are_refused():
    ends = np.array([0, 2**63 - 1, -2, 9])
    assert (np.diff(ends) > 0).all()
    numbers = np.zeros((9, 1))
    for cls, arrays in (
        (StringCollection, {"codes": np.zeros(9, dtype=np.uint32), "kind": "str"}),
        (SeriesCollection, {"values": numbers}),
        (BagCollection, {"points": numbers}),
    ):
        with pytest.raises(ModelFileError, match="offsets"):
            cls.from_arrays(offsets=ends, **arrays)
    arrays = chain(3, None)._arrays()
    arrays["indptr"] = np.array([0, 2**63 - 1, -2, 4])
    with pytest.raises(ModelFileError, match="offsets"):
        mercer.Graph.from_arrays(**arrays)


def test_a_model_with_such_offsets_is_not_loaded(tmp_path):
    model = KernelRidge(Spectrum(2)).fit(["abc", "bca", "cab"], [1.0, 2.0, 3.0])
    codes = model.X_fit_.codes
    model.X_fit_ = StringCollection(codes, np.array([0, 2**63 - 1, -2, 9]), "str")
    save(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="offsets"):
        load(tmp_path / "m")


@pytest.mark.parametrize(
    "points",
    [
        np.full((3, 1), np.nan),
        np.zeros(3),
        np.array(["a", "b", "c"]),
        np.zeros((3, 1, 1)),
        "graphs",
    ],
    ids=str,
)
def test_points_that_the_kernel_cannot_take_are_refused_with_the_file(points, tmp_path):
    points = WeisfeilerLehman(1).domain.check(GRAPHS[:3]) if isinstance(points, str) else points
    bags = KernelRidge(SetKernel(RBF())).fit([np.zeros((2, 1)), np.ones((1, 1))], [1.0, 2.0])
    bags.X_fit_ = BagCollection(points, np.array([0, 2, 3]))
    rows = KernelRidge(RBF()).fit(np.zeros((3, 1)), [1.0, 2.0, 0.0])
    rows.X_fit_ = points
    for model in (bags, rows):
        save(model, tmp_path / "m")
        with pytest.raises(ModelFileError):
            load(tmp_path / "m")


def test_a_fitted_kernel_without_numbers_is_refused_with_the_file(tmp_path):
    model = KernelRidge(GlobalAlignment(1.0)).fit([[1.0, 2.0], [2.0]], [0.0, 1.0])
    model.kernel_ = GlobalAlignment("median")
    save(model, tmp_path / "m")
    with pytest.raises(ModelFileError, match="length_scale"):
        load(tmp_path / "m")


def test_bags_of_networkx_graphs_in_a_column_are_kept(tmp_path):
    networkx = pytest.importorskip("networkx")
    paths = [networkx.path_graph(n) for n in (2, 3, 4)]
    networkx.set_node_attributes(paths[0], object(), "memo")
    bags = [paths[:1], [], (paths[1], paths[2])]
    for k, column in (
        (SetKernel(WeisfeilerLehman(1)), bags),
        (SetKernel(SetKernel(WeisfeilerLehman(1))), [[bag] for bag in bags]),
    ):
        frame = {"graphs": column, "x": [0.0, 1.0, 2.0]}
        model = KernelRidge(k.on("graphs") + RBF().on("x")).fit(frame, [0.0, 1.0, 2.0])
        save(model, tmp_path / "m")
        again = load(tmp_path / "m")
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_a_file_may_not_leave_out_or_add_an_array():
    points = CASES[0]
    arrays = {name: getattr(points, name) for name in points._arrays}
    form = next(f for f in registry.closed_list().values() if f.cls is type(points))
    assert form.name == "value:StringCollection"
    with pytest.raises((ModelFileError, TypeError)):
        type(points).from_arrays(**{k: v for k, v in arrays.items() if k != "codes"})


def models_to_keep():
    y = np.arange(6.0)
    frame = {"dna": WORDS, "age": y, "site": list("aabbab")}
    mixed = Spectrum(2).on("dna") + RBF().on("age") * Categorical().on("site")
    sides = ["x", "y"] * 3
    yield KernelRidge(Spectrum(2)).fit(WORDS, y), WORDS
    yield models.SVC(WeisfeilerLehman(1)).fit(GRAPHS[:3] * 2, sides), GRAPHS
    yield KernelRidge(mixed).fit(frame, y), frame
    yield KernelRidge(SetKernel(Spectrum(1))).fit([[w] for w in WORDS], y), [WORDS]
    yield models.KernelKMeans(2, Spectrum(1), init=WORDS[:3:2]).fit(WORDS), WORDS
    yield models.KernelMachine(Spectrum(1), WORDS[:3]).fit(WORDS, sides), WORDS
    yield models.StructuredKernelRidge(Spectrum(1), Spectrum(2)).fit(WORDS, WORDS), WORDS


@pytest.mark.parametrize("model, X", list(models_to_keep()), ids=lambda v: type(v).__name__)
def test_models_answer_with_the_same_bits_after_a_file(model, X, tmp_path):
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    save(again, tmp_path / "n")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()


def test_points_that_do_not_fit_the_kernel_are_named(tmp_path):
    model = KernelRidge(Spectrum(2)).fit(WORDS, np.arange(6.0))
    model.X_fit_ = WeisfeilerLehman(1).domain.check(GRAPHS)
    with pytest.raises(MercerError):
        save(model, tmp_path / "m")
        load(tmp_path / "m").predict(WORDS)
