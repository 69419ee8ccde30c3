"""Counted: sums over codes in every way they are computed, against dense arrays of counts."""

import numpy as np
import pytest
import scipy.sparse as sp

import mercer
from mercer.domains import Objects
from mercer.engines import tiles as blocks
from mercer.engines.tiles import small_tiles
from mercer.errors import InvalidInput
from mercer.kernels import counted as module
from mercer.kernels.counted import Counted, CountedBound, Counts, by_code


class Given(Counted):
    """Counts that are given: a point is a row of an array with a column for each code."""

    domain = Objects()

    def __init__(self, kinds=1):
        super().__init__(kinds=kinds)

    def _parts(self, X):
        phi = np.array(list(X), dtype=float).reshape(len(X), -1 if len(X) else 1)
        for part in np.array_split(phi, self.kinds, axis=1):
            rows, columns = np.nonzero(part)
            # codes far apart, and the same ones in every kind
            codes = (columns.astype(np.uint64) + np.uint64(1)) * np.uint64(0x1234567890ABCDEF)
            yield Counts(len(X), rows, codes, part[rows, columns])


def points(phi):
    return Objects().check([tuple(row) for row in phi])


def sample(n, F, rate, rng, largest=4):
    return rng.integers(1, largest, (n, F)) * (rng.random((n, F)) < rate)


def mixed(n, rng, **more):
    """Some codes that nearly all points have, some that few have, and one that nobody has."""
    rates = np.repeat([0.9, 0.3, 0.05, 0.0], [5, 10, 200, 1])
    return sample(n, len(rates), rates, rng, **more)


@pytest.fixture(params=["plain", "dense", "rare", "both"])
def way(request, monkeypatch):
    monkeypatch.setattr(module, "PLAIN", 2**60 if request.param == "plain" else 0)
    share = {"dense": 0.0, "rare": 2.0}.get(request.param, module.DENSE)
    monkeypatch.setattr(module, "DENSE", share)
    return request.param


@pytest.mark.parametrize("kinds", [1, 3])
@pytest.mark.parametrize("scale", [1.0, 0.3, 1e4])
def test_values_products_and_diagonal(way, kinds, scale):
    rng = np.random.default_rng(0)
    A, B = scale * mixed(31, rng), scale * mixed(17, rng)
    X, Y = points(A), points(B)
    k = Given(kinds)
    tolerance = {"rtol": 1e-13} if scale == 0.3 else {"rtol": 0, "atol": 0}
    for entries in (10**6, 50):
        with small_tiles(entries):
            np.testing.assert_allclose(k(X), A @ A.T, **tolerance)
            np.testing.assert_allclose(k(X, Y), A @ B.T, **tolerance)
            assert (k(X) == k(X).T).all()
    np.testing.assert_allclose(k.diag(X), (A * A).sum(1), **tolerance)
    V = rng.standard_normal((17, 3))
    np.testing.assert_allclose(k.matmul(X, Y, V), A @ (B.T @ V), rtol=1e-11, atol=1e-10 * scale**2)
    np.testing.assert_allclose(
        k.matmul(X, None, V[:, 0].repeat(2)[:31]), A @ (A.T @ V[:, 0].repeat(2)[:31]), rtol=1e-10
    )


def test_bits_do_not_depend_on_threads_nor_on_tiles_of_whole_numbers(way):
    rng = np.random.default_rng(1)
    whole, real = mixed(60, rng), 0.1 * mixed(60, rng)
    for phi in (whole, real):
        X = points(phi)
        with small_tiles(64):
            found = []
            for threads in (1, 2, 3):
                with mercer.config(threads=threads):
                    found.append((Given()(X).tobytes(), Given(2)(X, X[:7]).tobytes()))
        assert len(set(found)) == 1


def test_single_precision_only_where_it_is_exact(monkeypatch):
    monkeypatch.setattr(module, "PLAIN", 0)
    monkeypatch.setattr(module, "DENSE", 0.0)
    odd = np.array([[4095.0, 3.0], [4097.0, 1.0]])  # 4097² + 1 > 2²⁴
    for phi, kind in [(odd[:1], np.float32), (odd, np.float64), (odd[:1] / 2, np.float64)]:
        bound = CountedBound(Given(), points(phi))
        assert bound._left.dtype == kind
        assert (blocks.gram(bound) == phi @ phi.T).all()


def test_dense_columns_keep_to_the_memory_budget(monkeypatch):
    monkeypatch.setattr(module, "PLAIN", 0)
    phi = mixed(400, np.random.default_rng(2))
    wide = CountedBound(Given(), points(phi))._left.shape[1]
    with mercer.config(memory=200_000):
        bound = CountedBound(Given(), points(phi))
        rows = slice(0, 40)
        assert 0 < bound._left.shape[1] < wide
        assert (bound.tile(rows, rows) == phi[:40] @ phi[:40].T).all()


def test_some_rows_against_all_points(way):
    rng = np.random.default_rng(3)
    phi = mixed(40, rng)
    bound = CountedBound(Given(), points(phi))
    whole = slice(0, 40)
    before = bound.tile(whole, whole)
    for index in (np.array([7, 3, 3]), np.arange(40)[::-1], np.zeros(0, dtype=int)):
        part = bound.rows_of(index)
        assert part.shape == (len(index), 40) and not part.symmetric
        assert (part.tile(slice(0, len(index)), whole) == phi[index] @ phi.T).all()
        again = part.rows_of(np.arange(len(index))[:2])
        assert (again.tile(slice(0, again.shape[0]), whole) == phi[index][:2] @ phi.T).all()
    cross = CountedBound(Given(), points(phi[:9]), points(phi)).rows_of(np.array([8, 0]))
    assert (cross.tile(slice(0, 2), whole) == phi[[8, 0]] @ phi.T).all()
    assert (bound.tile(whole, whole) == before).all()


def test_bands_of_other_sizes_may_be_asked_for(monkeypatch):
    monkeypatch.setattr(module, "PLAIN", 0)
    phi = mixed(30, np.random.default_rng(4))
    bound = CountedBound(Given(), points(phi))
    for step in (1, 2, 3, 7, 30):
        for i in range(0, 30, step):
            rows = slice(i, min(30, i + step))
            assert (bound.tile(rows, slice(5, 30)) == phi[rows] @ phi[5:].T).all()
    assert sum(stop - start for _, start, stop in bound._bands) <= 5 * 30


def test_products_ask_for_no_tile_unless_memory_forbids(monkeypatch):
    phi = mixed(30, np.random.default_rng(5))
    X, V = points(phi), np.ones((30, 40))
    tiles = []
    tile = CountedBound.tile
    monkeypatch.setattr(CountedBound, "tile", lambda *a: tiles.append(a) or tile(*a))
    expected = phi @ (phi.T @ V)
    assert (Given().matmul(X, None, V) == expected).all() and not tiles
    with mercer.config(memory=100_000):
        assert (Given().matmul(X, None, V) == expected).all() and tiles


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_points_and_points_without_parts(way, n):
    phi = np.zeros((n, 4))
    k = Given()
    assert k(points(phi)).tolist() == np.zeros((n, n)).tolist()
    assert k(points(phi), points(np.ones((3, 4)))).tolist() == np.zeros((n, 3)).tolist()
    assert k.matmul(points(np.ones((3, 4))), points(phi), np.ones(n)).tolist() == [0, 0, 0]
    assert k.diag(points(phi)).tolist() == [0] * n


def test_repeated_occurrences_are_added_and_none_counts_one():
    class Twice(Given):
        def _parts(self, X):
            rows = np.repeat(np.arange(len(X)), 3)
            yield Counts(len(X), rows, np.tile(np.uint64([9, 9, 2**64 - 1]), len(X)))

    assert Twice()(["a", "b"]).tolist() == [[5, 5], [5, 5]]
    assert Twice().diag(["a"]).tolist() == [5]
    assert Twice().collision_probability(["a", "b"]) == 2 / 2.0**65


def test_an_author_is_told_what_to_write():
    with pytest.raises(InvalidInput, match=r"define _count\(x\) or _counts\(X\)"):
        Counted()(np.eye(2))


def test_by_code_lists_columns_in_order():
    phi = sp.csr_array(np.array([[0, 2.0, 0, 1], [5, 3, 0, 0], [0, 0, 4, 0]]))
    names, starts, rows, values = by_code(phi, np.array([True, True, False, True]))
    assert names.tolist() == [0, 1, 3] and starts.tolist() == [0, 1, 3, 4]
    assert rows.tolist() == [1, 0, 1, 0] and values.tolist() == [5, 2, 3, 1]
    empty = by_code(phi[:0], np.ones(4, dtype=bool))
    assert [len(part) for part in empty] == [0, 1, 0, 0]


def test_the_compiled_sum_is_the_sparse_product():
    from mercer.jit.counts import add_common

    rng = np.random.default_rng(6)
    A, B = (sp.csr_array(sample(n, 50, 0.2, rng).astype(float)) for n in (12, 20))
    every = np.ones(50, dtype=bool)
    bands = (*by_code(A, every), *by_code(B[:, :0:-1], every[1:]))
    for band in bands:
        band.flags.writeable = False
    out = np.full((12, 20), 7.0)
    add_common(*bands, out)
    assert (out == 7 + (A[:, :49] @ B[:, :0:-1].T).toarray()).all()


class Words(mercer.kernels.Counted):
    """Words of a sentence, each counted by its length."""

    def __init__(self, of=len):
        super().__init__(of=of)

    def _count(self, x):
        return {word: self.of(word) for word in x.split()}


def test_an_author_may_count_the_parts_of_one_object():
    X, Y = ["a big cat", "big", ""], ["cat cat big", "dog"]

    def formula(x, y):
        return float(sum(len(w) ** 2 for w in set(x.split()) & set(y.split())))

    np.testing.assert_array_equal(Words()(X, Y), [[formula(x, y) for y in Y] for x in X])
    np.testing.assert_array_equal(Words().diag(X), [formula(x, x) for x in X])


@pytest.mark.parametrize("bad", [float("nan"), "two", float("inf")])
def test_what_is_counted_must_be_a_finite_number(bad):
    with pytest.raises(InvalidInput, match="_count gave"):
        Words(lambda word: bad)(["a cat"])
