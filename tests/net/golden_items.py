"""The fitted models and the kernels of the golden files, with new points for each.

Only `make_golden.py` runs this: once written, the files are read as they are, and what stands here
says how they were made.
"""

import inspect
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import features as mf, kernels as mk, losses as ml, models as mm
from mercer.domains import BagCollection, NodeCollection, Table
from mercer.testing import estimator_examples, kernel_examples
from tests.net import authors

N, NEW = 24, 4


@dataclass(frozen=True)
class Item:
    """A model or a kernel, the name of its new points, and these."""

    name: str
    kind: str
    model: Any
    points: str
    given: Any
    saved: bool = True  # kernels made of Python functions have no file, but a pickle


def items():
    """Yield every item, the same ones at each call."""
    yield from _vector_items()
    yield from _solver_items()
    yield from _loss_items()
    yield from _string_items()
    yield from _graph_items()
    yield from _table_items()
    yield from _other_items()
    yield from _function_items()
    yield from _kernel_items()
    yield from _author_items()


# ------------------------------------------------------------------------------------------- data
def _rng(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


def vectors():
    """Return rows of three numbers, the training rows first."""
    return _rng("vectors").standard_normal((N + NEW, 3)).round(3)


def targets(outputs=1):
    """Return numbers for the training rows."""
    X = vectors()[:N]
    noise = 0.1 * _rng("noise").standard_normal((N, outputs))
    Y = np.sin(2 * X[:, :1]) + X[:, 1:2] * np.arange(1, outputs + 1) + noise
    return Y[:, 0].round(3) if outputs == 1 else Y.round(3)


def colours():
    """Return labels of three classes for the training rows."""
    X = vectors()[:N]
    y = np.array(["red", "green", "blue"])[(X[:, 0] > 0) + (X[:, 1] > 0.3).astype(int)]
    y[:3] = ["red", "green", "blue"]
    return y


def words():
    """Return words over four letters."""
    rng = _rng("words")
    return ["".join(rng.choice(list("acgt"), rng.integers(3, 9))) for _ in range(N + NEW)]


def graphs():
    """Return rings and chains with a few more edges, their nodes labelled."""
    rng, out = _rng("graphs"), []
    for i in range(N + NEW):
        size = int(rng.integers(3, 7))
        edges = [(a, a + 1) for a in range(size - 1)] + [(size - 1, 0)] * (i % 2)
        labels = rng.choice(["C", "N", "O"], size, p=[0.6, 0.2, 0.2]).tolist()
        out.append(mercer.Graph(edges=edges, n_nodes=size, labels=labels))
    return out


def clinic():
    """Return columns of numbers, categories, levels and sequences, a tenth of them missing."""
    rng, n = _rng("clinic"), N + NEW
    columns = {
        "age": rng.uniform(20, 60, n).round(1).astype(object),
        "dose": rng.standard_normal(n).round(3).astype(object),
        "site": rng.choice(["here", "there"], n).astype(object),
        "severity": rng.choice(["low", "middle", "high"], n).astype(object),
        "sequence": np.array(
            ["".join(rng.choice(list("ACGT"), rng.integers(3, 9))) for _ in range(n)], dtype=object
        ),
    }
    for values in columns.values():
        values[rng.random(n) < 0.1] = None
    return Table(columns)


def plain_table():
    """Return columns of numbers and categories with nothing missing."""
    rng, n = _rng("table"), N + NEW
    return Table(
        {
            "age": rng.uniform(20, 60, n).round(1),
            "site": rng.choice(["here", "there", "nowhere"], n),
            "dose": rng.standard_normal(n).round(3),
            "smoker": rng.random(n) < 0.5,
        }
    )


def _clinic_kernel():
    return (
        mk.RBF(9.0).with_missing().on(["age", "dose"]) * mk.Categorical(0.4).on("site")
        + mk.Ordinal(["low", "middle", "high"], 2.0).with_missing().on("severity")
        + mk.Spectrum(2).normalized().with_missing().on("sequence")
    )


def _sides(n=N):
    return np.array(["no", "yes"])[np.arange(n) // 2 % 2]


# ------------------------------------------------------------------------------------- estimators
#: Examples left out of the golden files: what they show, others show too.
_LEFT_OUT = {
    "KernelRidge-median",
    "KernelRidge-noise",
    "KernelERM-squared-hinge",
    "KernelQuantileRegressor-no-offset",
    "KernelLogisticRegression-linear",
    "KernelHuberRegressor-primal",
    "KernelRidgeClassifier-loo",
    "KernelPerceptron-plain",
    "KernelPerceptron-batch",
    "SVC-linear",
    "NuSVC-rest",
    "SVR-no-offset",
    "NuSVR-no-offset",
    "OneClassSVM-few",
    "KDEClassifier-shared",
    "KDEClassifier-compact",
    "KernelDensity-cosine",
    "GaussianProcessClassifier-probit",
    "GaussianProcessClassifier-ep-tuned",
    "GaussianProcessClassifier-vi-probit",
    "GaussianProcessClassifier-ep-probit",
    "GaussianProcessRegressor-noisy",
    "GaussianProcessRegressor-as-is",
    "SparseGaussianProcessRegressor-outputs",
    "KernelNeighborsRegressor-outputs",
    "NadarayaWatson-rule",
    "L1VM-squared",
    "L1VM-hinge",
    "L1VMClassifier-net",
    "L1VMRegressor-matern",
    "L1VMRegressor-ridge",
    "KernelKMeans-few",
    "KernelKMeans-random",
    "KernelKMeans-linear",
    "DPMeans-many",
    "DPMeans-matern",
    "SpectralClustering-matern",
    "KernelPCA-share",
    "Nystroem-means",
    "RandomFourierFeatures",
    "TensorSketch",
    "Prototypes-kmeans",
}


def _vector_items():
    """The examples of `mercer.testing`, each fitted to rows of three numbers."""
    X = vectors()
    K = mk.RBF(1.3)(X)
    for example in estimator_examples():
        if example.name in _LEFT_OUT:
            continue
        model = _seeded(example.estimator)
        y = colours() if is_classifier(model) else targets(example.outputs)
        if getattr(model, "kernel", None) == "precomputed":
            model.fit(np.ascontiguousarray(K[:N, :N]), y)
            yield Item(example.name, "estimator", model, "gram", K[N:, :N].copy())
        else:
            yield Item(example.name, "estimator", model.fit(X[:N], y), "vectors", X[N:])


def _seeded(model):
    model = clone(model)
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    return model


def _solver_items():
    """Other ways to fit: on centres, by conjugate gradients, in batches, on other arrays."""
    X, y, c = vectors(), targets(), colours()
    falkon = {"solver": "falkon", "n_centers": 8, "random_state": 0}
    made = {
        "KernelRidge-falkon": mm.KernelRidge(mk.RBF(2.0), 0.1, **falkon).fit(X[:N], y),
        "KernelRidge-cg": mm.KernelRidge(mk.RBF(2.0), 0.1, solver="cg", tol=1e-12).fit(X[:N], y),
        "KernelRidge-blocks": mm.KernelRidge(mk.RBF(2.0), 0.1, **falkon).fit(
            mercer.RowBlocks.from_arrays(X[:N], y)
        ),
        "KernelRidgeClassifier-falkon": mm.KernelRidgeClassifier(mk.RBF(2.0), 0.1, **falkon).fit(
            X[:N], c
        ),
        "KernelLogisticRegression-falkon": mm.KernelLogisticRegression(
            mk.RBF(2.0), 0.1, **falkon
        ).fit(X[:N], c),
        "KernelRidge-auto": mm.KernelRidge(mercer.auto_kernel(X[:N]), "loo").fit(X[:N], y),
        "KernelRidge-tuned": mercer.tune(mm.KernelRidge(mk.RBF("median")), X[:N], y).model,
        "SVC-two": mm.SVC(mk.RBF(1.5), class_weight="balanced").fit(X[:N], c == "red"),
        "GaussianProcessClassifier-two": mm.GaussianProcessClassifier(mk.RBF(1.5)).fit(
            X[:N], c == "red"
        ),
        "Pipeline": make_pipeline(StandardScaler(), mm.KernelRidge(mk.RBF(2.0), 0.1)).fit(X[:N], y),
        "Pipeline-features": make_pipeline(
            mf.Nystroem(mk.RBF(2.0), 6, random_state=0), mm.KernelRidge("linear", 0.1)
        ).fit(X[:N], y),
        "FeatureLeastSquares": mercer.srm(
            [mk.Polynomial(m) for m in (1, 2, 3)], X[:N, :1], y
        ).best_estimator_,
    }
    for name, model in made.items():
        given = X[N:, :1].copy() if name == "FeatureLeastSquares" else X[N:]
        yield Item(name, "estimator", model, _named(name, given), given)
    for name, model in (
        ("KernelPerceptron-batches", mm.KernelPerceptron(mk.RBF(), random_state=0)),
        ("PCA-batches", mm.PCA(2)),
        ("KernelPCA-batches", mm.KernelPCA(2, mk.RBF(1.5))),
    ):
        more = {"classes": np.unique(c)} if is_classifier(model) else {}
        for rows in (slice(0, 12), slice(12, N)):
            labels = {"y": c[rows]} if more else {}
            model.partial_fit(X[rows], **labels, **more)
        yield Item(name, "estimator", model, "vectors", X[N:])
    counts = sp.csr_array(np.maximum(X.round(0), 0.0))
    model = mm.KernelRidge(mk.RBF(2.0)).fit(counts[:N], y)
    yield Item("KernelRidge-sparse", "estimator", model, "sparse", counts[N:])
    single = X.astype(np.float32)
    model = mm.KernelRidge(mk.RBF(2.0)).fit(single[:N], y)
    yield Item("KernelRidge-float32", "estimator", model, "float32", single[N:])


def _named(name, given):
    return "vectors" if given.shape[1] == 3 else "column"


def _loss_items():
    """Every loss that can be fitted, as an object."""
    X, y, c = vectors(), targets(), colours() == "red"
    given = {
        "Squared": (ml.Squared(), y),
        "Absolute": (ml.Absolute(), y),
        "EpsilonInsensitive": (ml.EpsilonInsensitive(0.1), y),
        "Huber": (ml.Huber(0.3), y),
        "Pinball": (ml.Pinball(0.7), y),
        "Hinge": (ml.Hinge(), c),
        "SquaredHinge": (ml.SquaredHinge(), c),
        "Logistic": (ml.Logistic(), c),
        "Exponential": (ml.Exponential(), c),
    }
    for name, (loss, target) in given.items():
        model = mm.KernelERM(mk.RBF(1.5), loss, 0.1).fit(X[:N], target)
        yield Item(f"KernelERM-loss-{name}", "estimator", model, "vectors", X[N:])


def _string_items():
    """Every class with a kernel to choose, on words."""
    W, k = words(), mk.Spectrum(2).normalized()
    y = np.array([w.count("a") - 0.5 * w.count("c") for w in W[:N]])
    for cls in _with_kernel():
        model = _seeded(cls(kernel=k))
        if cls is mm.StructuredKernelRidge:
            model.set_params(output_kernel=k)
            model.fit(W[:N], [w[::-1] for w in W[:N]])
        elif is_classifier(model):
            model.fit(W[:N], _sides())
        else:
            model.fit(W[:N], y)
        yield Item(f"{cls.__name__}-words", "estimator", model, "words", W[N:])


def _with_kernel():
    """The classes whose kernel may be one on words; the others say why not."""
    vectors_only = {"KernelEstimator", "RandomFourierFeatures", "TensorSketch", "KernelDensity"}
    tables = {"TableRegressor", "TableClassifier", "KDEClassifier", "PCA"}
    for module in (mm, mf):
        for name in module.__all__:
            cls = getattr(module, name)
            if not hasattr(cls, "fit") or name in vectors_only | tables:
                continue
            if "kernel" in inspect.signature(cls).parameters:
                yield cls


def _graph_items():
    G, k = graphs(), mk.WeisfeilerLehman(2).normalized()
    y = np.array([g.n_edges - 0.5 * g.n_nodes for g in G[:N]])
    for model, target in (
        (mm.KernelRidge(k, "loo"), y),
        (mm.SVC(k), _sides()),
        (mm.GaussianProcessRegressor(k, 0.1, optimizer=None), y),
        (mm.GaussianProcessClassifier(k, optimizer=None), _sides()),
        (mm.KernelPCA(3, k), y),
        (mm.KernelKMeans(3, k, random_state=0), y),
        (mm.OneClassSVM(mk.ShortestPath()), y),
        (mf.Nystroem(k, 5, random_state=0), y),
        (mf.SparseCounts(mk.WeisfeilerLehman(1)), y),
    ):
        name = f"{type(model).__name__}-graphs"
        yield Item(name, "estimator", model.fit(G[:N], target), "graphs", G[N:])


def _table_items():
    T, k, P = clinic(), _clinic_kernel(), plain_table()
    rows, new = np.arange(N), np.arange(N, N + NEW)
    y = targets()
    for model, target in (
        (mm.KernelRidge(k, 0.1), y),
        (mm.SVC(k), _sides()),
        (mm.GaussianProcessRegressor(k, 0.1, optimizer=None), y),
        (mm.KernelPCA(3, k), y),
        (mm.KernelNeighborsClassifier(k, 3), _sides()),
        (mm.TableRegressor("auto", alpha=0.1), y),
        (mm.TableClassifier("auto", alpha=0.1), _sides()),
        (mf.Prototypes(k, "random", n_prototypes=5, random_state=0), y),
    ):
        name = f"{type(model).__name__}-clinic"
        model.fit(T.take(rows), target)
        yield Item(name, "estimator", model, "clinic", T.take(new))
    for model, target in (
        (mm.TableRegressor("rbf", alpha="loo"), y),
        (mm.TableClassifier("rbf", model="svc", probability=True), colours()),
        (mm.FeatureMachineRegressor(1, max_rows=10), y),
        (mm.FeatureMachineClassifier(1, max_rows=10), colours()),
        (mm.TableRegressor(max_time=1e-9), y),
        (mm.TableClassifier(max_time=1e-9), colours()),
        (mf.TableEncoder(), y),
        (mm.KernelRidge(mk.RBF(9.0).on(["age", "dose"]) + mk.Categorical(0.3).on("site")), y),
    ):
        learns = getattr(model, "max_time", None) is not None and hasattr(model, "kernel")
        name = f"{type(model).__name__}-table{'-features' * learns}"
        model.fit(P.take(rows), target)
        yield Item(name, "estimator", model, "table", P.take(new))


def _other_items():
    """Bags, series, nodes, documents, categories, gaps, and a similarity that was repaired."""
    X, W, y = vectors(), words(), targets()
    bags = [X[i : i + 1 + i % 3, :2].tolist() for i in range(N + NEW)]
    bags[-3:] = [X[a : a + 2, :2].tolist() for a in (3, 5, 8)]
    series = [np.cumsum(X[i : i + 4, :2], axis=0).round(3) for i in range(N)]
    series += [np.cumsum(X[i : i + 3, 1:], axis=0).round(3) for i in range(NEW)]
    nodes = [0, 1, 2, 3, 4, 5] * (N // 6)
    house = mercer.Graph(edges=[(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (3, 4)], n_nodes=6)
    texts = [" ".join(W[j % N] for j in range(i, i + 4)) for i in range(N + NEW)]
    repaired = mk.EditDistance(3.0).repaired("clip")
    kinds = np.array([[w[0], len(w) % 3] for w in W], dtype=object)
    gaps = [None if i % 7 == 3 else w for i, w in enumerate(W)]
    incomplete = mk.Spectrum(2).with_missing()
    for name, model, points, given in (
        ("KernelRidge-bags", mm.KernelRidge(mk.SetKernel(mk.RBF(1.3)), 0.1), bags, bags[N:]),
        ("KernelRidge-series", mm.KernelRidge(mk.GlobalAlignment(), 0.1), series, series[N:]),
        ("KernelRidge-nodes", mm.KernelRidge(mk.Diffusion(house, 0.5), 0.1), nodes, [5, 0, 2, 3]),
        ("KernelRidge-texts", mm.KernelRidge(mk.BagOfWords(), 0.1), texts, texts[N:]),
        ("KernelRidge-repaired", mm.KernelRidge(repaired, 0.1), W, W[N:]),
        ("KernelRidge-kinds", mm.KernelRidge(mk.Categorical(0.4), 0.1), kinds, kinds[N:]),
        ("KernelRidge-gaps", mm.KernelRidge(incomplete, 0.1), gaps, gaps[N:]),
    ):
        model.fit(points[:N], y)
        yield Item(name, "estimator", model, name.partition("-")[2], given)
    stacked = mercer.stack_outputs(X[:N], targets(2))
    k = mk.RBF(1.5).on([0, 1, 2]) * mk.Coregion(2).on([3])
    model = mm.GaussianProcessRegressor(k, 0.1, optimizer=None).fit(*stacked)
    given = mercer.for_output(X[N:], 1)
    yield Item("GaussianProcessRegressor-stacked", "estimator", model, "stacked", given)


def _function_items():
    X, y, W = vectors(), targets(), words()
    f = mercer.Function(mk.RBF(2.0), X[:N], y, 0.25)
    yield Item("Function", "function", f, "vectors", X[N:])
    mean = mercer.mean_embedding(mk.Matern("median"), X[:N])
    yield Item("Function-mean", "function", mean, "vectors", X[N:])
    g = mercer.Function(mk.Spectrum(2), W[:N], y)
    yield Item("Function-words", "function", g, "words", W[N:])


# ---------------------------------------------------------------------------------------- kernels
_LEFT_OUT_KERNELS = {
    "BagOfWords-counts",
    "Constant-zero",
    "Coregion-start",
    "Cosine-zeros",
    "Diffusion-signed",
    "Diffusion-unit",
    "GlobalAlignment-short",
    "Graphlet-four",
    "Linear-singular",
    "LocalAlignment-steep",
    "Matern-0.2",
    "Matern-3.7",
    "Matern-60",
    "Minimum-two",
    "Normalized-linear",
    "Product-constants",
    "Product-right",
    "RBF-wide",
    "RandomWalk-labels",
    "RandomWalk-plain",
    "SetKernel-linear",
    "ShortestPath-plain",
    "Spectrum-long",
    "Subsequence-one",
    "Sum-right",
    "VertexHistogram-plain",
    "WeightedDegree-long",
    "WeisfeilerLehman-plain",
    "WeisfeilerLehman-zero",
}


def _kernel_items():
    """The examples of `mercer.testing` that are made of mercer's own classes."""
    for example in kernel_examples():
        name, kernel = example.name, example.kernel
        if name in _LEFT_OUT_KERNELS or "author" in name or _holds_functions(kernel):
            continue
        rng = _rng(f"kernel {name}")
        both = tuple(_listed(example.sample(rng, n)) for n in (4, 3))
        name = "kernel-" + name.replace("/", "_")
        yield Item(name, "kernel", kernel, name, both)


def _holds_functions(kernel):
    """Whether a kernel is made of functions, or of classes that stand with the examples."""
    held = [kernel, *kernel.get_params().values()]
    kernels = [v for v in held if isinstance(v, mk.Kernel)]
    functions = any(callable(v) and not isinstance(v, mk.Kernel) for v in held)
    return functions or any(type(k).__name__ not in mk.__all__ for k in kernels)


def _listed(points):
    """Return packed bags and nodes as lists, as a user gives them."""
    if isinstance(points, BagCollection) and isinstance(points.points, Table):
        ends = zip(points.offsets[:-1].tolist(), points.offsets[1:].tolist(), strict=True)
        return [points.points[a:b] if b > a else [] for a, b in ends]
    if isinstance(points, BagCollection):
        return [list(bag) for bag in points]
    return list(points) if isinstance(points, NodeCollection) else points


def _author_items():
    """Kernels that a user wrote, and kernels made of functions."""
    X, W = vectors(), words()
    both, pair = (X[:4], X[4:7]), (W[:4], W[4:7])
    numbers = (X[:4, :1].copy(), X[4:7, :1].copy())
    own = {
        "NetRadial": (authors.NetRadial([1.0, 2.0, 0.5], 0.4), both),
        "NetDot": (2.0 * authors.NetDot(0.7) + mk.Linear(), both),
        "NetScalar": (authors.NetScalar(), numbers),
        "NetExplicit": (authors.NetExplicit().normalized(), both),
        "NetPairwise": (authors.NetPairwise() + 1.0, pair),
        "NetCounted": (authors.NetCounted(), pair),
    }
    made = {
        "FromFunction": (mk.FromFunction(authors.product_of_first), both),
        "FromFeatures": (mk.FromFeatures(authors.squares), both),
        "Warped": (mk.RBF().warp(authors.halved), both),
        "ScaledBy": (mk.RBF().scale_by(authors.first_plus_four), both),
        "Repaired-function": (mk.FromFunction(authors.overlap).repaired("shift"), pair),
    }
    for saved, kernels in ((True, own), (False, made)):
        for name, (kernel, given) in kernels.items():
            points = {3: "pair of vectors", 1: "pair of numbers"}.get(np.shape(given[0])[-1])
            points = "pair of words" if given is pair else points
            yield Item(f"author-{name}", "kernel", kernel, points, given, saved)
