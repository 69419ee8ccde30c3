"""Samples as tests take them: columns by name, points of every kind, errors with a name."""

import networkx as nx
import numpy as np
import pytest

from mercer import RBF, Graph, Linear, TableEncoder, WeisfeilerLehman
from mercer.domains import Table
from mercer.errors import InvalidInput
from mercer.statistics import (
    hsic_test,
    k_sample_test,
    mmd,
    mmd_agg_test,
    mmd_split_test,
    mmd_test,
    witness,
)


def columns(n, seed):
    rng = np.random.default_rng(seed)
    return {"age": rng.normal(40, 10, n), "pay": rng.normal(3000, 500, n)}


def turned(data):
    return {name: data[name] for name in reversed(data)}


def kinds():
    found = [lambda data: data, Table]
    for module in ("pandas", "polars"):
        try:
            found.append(__import__(module).DataFrame)
        except ImportError:
            continue
    return found


@pytest.mark.parametrize("kind", kinds())
def test_columns_are_matched_by_name(kind):
    a, b = columns(60, 0), columns(50, 1)
    A, B = (np.column_stack([data["age"], data["pay"]]) for data in (a, b))
    other = kind(turned(b))
    assert mmd(kind(a), other) == mmd(A, B)
    calls = [
        lambda X, Y: mmd_test(X, Y, None, 99, 0),
        lambda X, Y: mmd_agg_test(X, Y, None, 19, 0, n_bandwidths=2),
        lambda X, Y: mmd_split_test(X, Y, None, 19, 0, n_bandwidths=2),
        lambda X, Y: k_sample_test(X, X, Y, n_permutations=19, rng=0),
    ]
    for call in calls:
        assert call(kind(a), other).pvalue == call(A, B).pvalue
    f, g = witness(kind(a), other), witness(A, B)
    np.testing.assert_allclose(f(A), g(A), atol=1e-15)
    # A sample without names is taken as it is.
    assert mmd(A, kind(b)) == mmd(A, B) == mmd(kind(a), B)


@pytest.mark.parametrize("kind", kinds())
def test_other_columns_are_named(kind):
    a = columns(9, 0)
    few = kind({"age": a["age"], "height": a["pay"]})
    for call in (mmd, mmd_test, mmd_agg_test, mmd_split_test, k_sample_test, witness):
        with pytest.raises(
            InvalidInput, match=f"{call.__name__}: .* lacks pay and has height more"
        ):
            call(kind(a), few)
    with pytest.raises(InvalidInput, match=r"Y lacks pay, compared to the columns of X"):
        mmd(kind(a), kind({"age": a["age"]}))
    with pytest.raises(InvalidInput, match=r"sample 2 has more more, compared"):
        k_sample_test(kind(a), kind(turned(a)), kind({**a, "more": a["age"]}))


def test_a_kernel_is_no_sample():
    X = np.arange(6.0)
    with pytest.raises(InvalidInput, match=r"sample 2 is a kernel.*write kernel=Linear\(\)"):
        k_sample_test(X, X, Linear())


@pytest.mark.parametrize("name", ["rbf", "matern", "laplacian", "rational_quadratic"])
def test_a_kernel_given_by_name_has_the_median_distance(name, rng):
    X, Y = rng.normal(size=(30, 3)), 2 * rng.normal(size=(20, 3))
    left_out = mmd_test(X, Y, rng=0).extra["kernel"]
    kernel = mmd_test(X, Y, name, rng=0).extra["kernel"]
    if name == "laplacian":  # its distance is another
        assert kernel.length_scale == type(kernel)("median").fit_params([*X, *Y]).length_scale
    else:
        assert kernel.length_scale == left_out.length_scale
    if name == "rbf":
        assert repr(kernel) == repr(left_out)
        assert mmd(X, Y, "rbf") == mmd(X, Y)
        z = rng.normal(size=30)
        assert tuple(hsic_test(X, z, "rbf", "rbf", 99, 0)) == tuple(
            hsic_test(X, z, None, None, 99, 0)
        )


def test_scales_that_do_not_come_from_the_data_stay(rng):
    X, Y = rng.normal(size=(30, 1)), 9 * rng.normal(size=(20, 1))
    assert mmd_test(X, Y, "periodic", 9).extra["kernel"].length_scale == 1.0
    assert mmd_test(X, Y, RBF(3.0), 9).extra["kernel"].length_scale == 3.0
    given = mmd_test(X, Y, RBF("scale"), 9).extra["kernel"].length_scale
    assert given != mmd_test(X, Y, "rbf", 9).extra["kernel"].length_scale


@pytest.mark.parametrize("kind", kinds())
def test_text_columns_name_the_encoder(kind, rng):
    def table(n, towns):
        return {"town": rng.choice(towns, n).tolist(), "age": rng.normal(size=n)}

    a, b = table(40, ["Bonn", "Kiel"]), table(30, ["Kiel", "Ulm"])
    for kernel in (None, "rbf"):
        with pytest.raises(InvalidInput, match=r"'town' of X .*TableEncoder\(\)\.fit\(both\)"):
            mmd_test(kind(a), kind(b), kernel)
    both = {name: [*a[name], *b[name]] for name in a}
    encoder = TableEncoder().fit(Table(both))
    first, second = (encoder.transform(Table(part)) for part in (a, b))
    assert mmd_test(first, second, rng=0).pvalue < 0.05


@pytest.mark.parametrize("test", [mmd, mmd_test, mmd_agg_test, mmd_split_test, hsic_test, witness])
@pytest.mark.parametrize("kernel", [None, "rbf", Linear()])
@pytest.mark.parametrize("sizes", [(6, 6), (3, 5)])
def test_graphs_without_a_kernel_for_them_are_refused(test, kernel, sizes):
    made = [nx.path_graph(sizes[i % 2]) for i in range(20)]
    own = [Graph(edges=[(0, 1)], n_nodes=n) for n in sizes * 10]
    given = () if kernel is None else (kernel,)
    for graphs in (made, own, np.array(own, dtype=object)):
        with pytest.raises(InvalidInput, match=r": X holds a Graph where numbers .*WeisfeilerL"):
            test(graphs[:10], graphs[10:], *given)


def test_a_kernel_for_graphs_takes_them():
    paths, cliques = [nx.path_graph(6)] * 20, [nx.complete_graph(6)] * 20
    assert mmd_test(paths, cliques, WeisfeilerLehman(1), rng=0).pvalue < 0.01


def test_rows_of_different_lengths_are_told_of():
    with pytest.raises(InvalidInput, match=r"^mmd_test: X .* its rows have different lengths"):
        mmd_test([[1.0, 2.0], [3.0]], [[1.0], [2.0]])


def test_points_given_for_a_gram_matrix_are_counted_in_words():
    x = np.arange(5.0)[:, None]
    with pytest.raises(
        InvalidInput, match=r"^mmd_test: X and Y hold 10 rows of .* with 1 column; "
    ):
        mmd_test(x, x, "precomputed")
    with pytest.raises(InvalidInput, match=r"^hsic_test: X holds 5 rows of .* with 1 column; "):
        hsic_test(x, x, "precomputed", "precomputed")
