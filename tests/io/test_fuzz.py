"""Files forged at random, digests right: each is refused, or its model answers or says why not."""

import json
import warnings

import networkx
import numpy as np
import pytest

import mercer
from mercer import KernelRidge
from mercer.errors import MercerError, ModelFileError
from mercer.io.tree import Decoder, Encoder

ROUNDS = 40
WORDS = ["abc", "bca", "cab", "", "aab"]
ROWS = [[0.0, 1.0], [1.0, 0.5], [2.0, 0.0], [0.5, 2.0], [1.5, 1.0]]
SERIES = [[1.0, 2.0], [2.0], [3.0, 3.0], [], [1.0]]
CLUB = networkx.relabel_nodes(networkx.path_graph(5), dict(enumerate("vwxyz")))


def chain(n):
    return mercer.Graph(
        edges=[(i, i + 1) for i in range(n - 1)],
        n_nodes=n,
        labels=list("abcde")[:n],
        attributes=np.arange(2.0 * n).reshape(n, 2),
        edge_labels=list(range(n - 1)),
    )


GRAPHS = [chain(n) for n in (3, 4, 2, 5, 3)]
MODELS = {
    "vectors": (mercer.RBF(), ROWS),
    "strings": (mercer.Spectrum(2), WORDS),
    "bytes": (mercer.Subsequence(2), [w.encode() for w in WORDS]),
    "aligned": (mercer.LocalAlignment().normalized(), WORDS),
    "repaired": (mercer.EditDistance().repaired("clip"), WORDS),
    "texts": (mercer.BagOfWords(), ["a cat sat", "a dog", "cats and dogs", "cat", "dog"]),
    "series": (mercer.GlobalAlignment(1.0), SERIES),
    "graphs": (mercer.WeisfeilerLehman(1), GRAPHS),
    "attributes": (mercer.kernels.AttributedPath(mercer.RBF()), GRAPHS),
    "nodes": (mercer.Diffusion(CLUB, 0.3), list("vwxyz")),
    "bags": (mercer.SetKernel(mercer.RBF()), [[r] * (i % 3) for i, r in enumerate(ROWS)]),
    "bags of strings": (mercer.SetKernel(mercer.Spectrum(1)), [[w, "c"] for w in WORDS]),
    "categories": (mercer.Categorical(0.5), ["a", "b", None, "c", "a"]),
    "missing": (mercer.Spectrum(1).with_missing(), ["a", "b", None, "c", None]),
    "tables": (
        mercer.Spectrum(1).on("s") + mercer.WeisfeilerLehman(1).on("g"),
        {"s": WORDS, "g": GRAPHS},
    ),
}
WHOLE = [-1, -2, 0, 1, 2, 100, 2**31, 2**32 - 1, 2**62, 2**63 - 1, -(2**63)]
REAL = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, -1e-300]
WORDS_OF_HEADERS = [None, -1, 0, 1, "x", [], {}, True, 1.5, "median"]


def damaged(a, rng):
    """An array with an entry, its length, its type, its shape or its order changed."""
    way = rng.integers(0, 8) if a.ndim and a.size else 4
    if way < 4:
        a = a.copy()
        at = tuple(rng.integers(0, n) for n in a.shape)
        if a.dtype.kind in "iu":
            info = np.iinfo(a.dtype)
            a[at] = min(max(WHOLE[rng.integers(len(WHOLE))], info.min), info.max)
        elif a.dtype.kind == "f":
            a[at] = REAL[rng.integers(len(REAL))]
        elif a.dtype.kind == "b":
            a[at] = ~a[at]
        return a
    if way == 4:
        kinds = ["f4", "f8", "i4", "i8", "u4", "u8", "u1", "?"]
        return a if a.dtype.kind == "U" else a.astype(kinds[rng.integers(len(kinds))])
    if way == 5:
        return a[: rng.integers(0, len(a) + 1)]
    return np.concatenate([a, a]) if way == 6 else np.ascontiguousarray(a[::-1])


def wrapping(a, rng):
    """Whole numbers whose differences are positive only because they wrap around."""
    if a.dtype != np.int64 or a.ndim != 1 or len(a) < 4:
        return damaged(a, rng)
    at = rng.integers(1, len(a) - 2)
    return np.concatenate([a[:at], [2**63 - 1, -2], a[at + 2 :]])


def leaves(tree, path=()):
    """Where the single values of a header stand."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return [leaf for key, value in items for leaf in leaves(value, (*path, key))]
    return [path]


def put(tree, path, value):
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


@pytest.mark.parametrize("name", MODELS)
def test_a_forged_model_is_refused_or_answers_or_says_why_not(name):
    kernel, X = MODELS[name]
    encoder = Encoder()
    encoder.object(KernelRidge(kernel, 0.1).fit(X, np.arange(5.0)), "model")
    header = json.dumps(encoder.objects)
    places = leaves(encoder.objects)
    rng = np.random.default_rng(list(name.encode()))
    refused = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for turn in range(ROUNDS):
            objects, arrays = json.loads(header), [np.array(a) for a in encoder.arrays]
            if turn % 4:
                i = rng.integers(len(arrays))
                arrays[i] = (wrapping if turn % 4 == 1 else damaged)(arrays[i], rng)
            else:
                value = WORDS_OF_HEADERS[rng.integers(len(WORDS_OF_HEADERS))]
                put(objects, places[rng.integers(len(places))], value)
            try:
                model = Decoder(objects, arrays).model()
            except ModelFileError:
                refused += 1
                continue
            repr(model)
            try:
                model.predict(X)
            except MercerError:
                continue
    assert refused > 0
