"""Nodes of a graph: ids in every form a user has, unknown ones named."""

import numpy as np
import pytest

from mercer.domains import NodeCollection, Nodes
from mercer.errors import InvalidInput, ModelFileError


@pytest.mark.parametrize(
    "given",
    [
        [2, 0, 2],
        (2, 0, 2),
        np.array([2, 0, 2]),
        np.array([2, 0, 2], dtype=np.uint8),
        np.array([[2], [0], [2]]),
        np.array([2.0, 0.0, 2.0]),
        np.array([2, 0, 2], dtype=object),
    ],
    ids=lambda g: f"{type(g).__name__}-{getattr(g, 'dtype', '')}-{np.ndim(g)}",
)
def test_numbers_in_every_form(given):
    points = Nodes(3).check(given)
    assert points.ids.dtype == np.int64 and points.ids.tolist() == [2, 0, 2]
    assert Nodes(3).check(points) is points


def test_columns_of_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    nodes = Nodes(["a", "b"])
    for column in (
        pandas.Series(["b", "a"]),
        pandas.DataFrame({"node": ["b", "a"]}),
        polars.Series(["b", "a"]),
        polars.DataFrame({"node": ["b", "a"]}),
        np.array(["b", "a"]),
    ):
        assert nodes.check(column).ids == ("b", "a")
    with pytest.raises(InvalidInput, match="choose the one"):
        nodes.check(pandas.DataFrame({"node": ["a"], "other": ["b"]}))


def test_names_are_those_of_the_graph():
    nodes = Nodes([(0, 1), "x", 7])
    points = nodes.check([np.int64(7), (0, 1), 7.0])
    assert points.ids == (7, (0, 1), 7) and type(points[0]) is int
    assert nodes.positions(points).tolist() == [2, 0, 2]
    assert points.take([2, 1]).ids == (7, (0, 1))
    assert points.joined(nodes.check(["x"])).ids == (7, (0, 1), 7, "x")
    assert points[[True, False, True]].ids == (7, 7)


@pytest.mark.parametrize(
    ("nodes", "given", "says"),
    [
        (3, [0, 3], r"X\[1\] = 3 is no node.*0 to 2"),
        (3, [-1], r"X\[0\] = -1"),
        (3, [0.5], r"X\[0\] = 0.5"),
        (3, [True, False], r"X\[0\] = True"),
        (3, ["0"], r"X\[0\] = '0'"),
        (3, [0, None], r"X\[1\] is missing.*with_missing"),
        (3, [float("nan")], "is missing"),
        (3, [float("inf")], "inf"),
        (3, [1 + 2j], "no node"),
        (3, "0", "give a list"),
        (3, 1, "give a list"),
        (3, np.zeros((2, 2), dtype=int), "shape"),
        (0, [0], "it has none"),
        (["a", "b"], ["a", "c"], r"X\[1\] = 'c'.*'a', 'b'"),
        (["a", "b"], [["a"]], r"X\[0\] = \['a'\]"),
        (["a", "b"], [("a", ["b"])], "no node"),
        (["a", "b"], ["a", None], "is missing"),
        (list("abcdef"), ["z"], "…"),
    ],
)
def test_what_is_no_node_is_named(nodes, given, says):
    with pytest.raises(InvalidInput, match=says):
        Nodes(nodes).check(given)


def test_collections_of_another_graph_are_refused():
    with pytest.raises(InvalidInput, match="no node"):
        Nodes(2).check(Nodes(5).check([1, 4]))
    with pytest.raises(InvalidInput, match="no node"):
        Nodes(["a"]).check(Nodes(["a", "b"]).check(["b"]))
    with pytest.raises(InvalidInput, match="no node"):
        Nodes(2).check(Nodes(["a"]).check(["a"]))
    assert Nodes(2).check(Nodes(5).check([1])).ids.tolist() == [1]


def test_equal_domains_have_the_same_nodes_in_any_order():
    assert Nodes(3) == Nodes(3) and hash(Nodes(3)) == hash(Nodes(3)) and Nodes(3) != Nodes(4)
    assert Nodes(["a", "b"]) == Nodes(["b", "a"])
    assert hash(Nodes(["a", "b"])) == hash(Nodes(["b", "a"]))
    assert Nodes(["a", "b"]) != Nodes(["a"]) and Nodes(1) != Nodes(["a"])
    for numbers in ((1, 0, 2), (2.0, 1, 0), (0, 1, 2)):
        assert Nodes(3) == Nodes(numbers) == Nodes((0, 1, 2))
        assert hash(Nodes(3)) == hash(Nodes(numbers))
    assert Nodes(2) != Nodes((False, True)) != Nodes((0, 1)) and Nodes(3) != Nodes((1, 2, 3))
    assert repr(Nodes(3)) == "Nodes(3)" and repr(Nodes(["a"])) == "Nodes(1 names)"


def test_numbered_and_named_nodes_are_points_of_each_other():
    numbered, named = Nodes(3), Nodes((1, 0, 2))
    points = [numbered.check([2, 0]), named.check([2, 0])]
    assert points[0] == points[1]
    for given in points:
        assert numbered.positions(given).tolist() == [2, 0]
        assert named.positions(given).tolist() == [2, 1]


def test_true_is_not_the_node_1():
    for nodes in (Nodes(3), Nodes((1, 0, 2)), Nodes((1, 2, 3))):
        for one in (True, np.bool_(True)):
            with pytest.raises(InvalidInput, match=r"X\[1\] = .*True.* is no node"):
                nodes.check([1, one])
    flags = Nodes((True, False, "x"))
    assert flags.check([np.bool_(False), True]).ids == (False, True)
    with pytest.raises(InvalidInput, match=r"X\[0\] = 1 is no node"):
        flags.check([1])
    with pytest.raises(InvalidInput, match=r"X\[0\] = 1 is no node"):
        flags.check(Nodes(3).check([1]))


def test_empty_lists_and_samples():
    rng = np.random.default_rng(0)
    for nodes in (Nodes(4), Nodes(list("abcd"))):
        assert len(nodes.check([])) == 0
        assert len(nodes.check(nodes.sample(rng, 9))) == 9
    assert len(Nodes(0).sample(rng, 5)) == 0


def test_a_model_file_with_other_things_is_refused():
    for bad in ([1, 2], np.zeros(3), np.zeros((2, 1), dtype=np.int64), ([],), None):
        with pytest.raises(ModelFileError):
            NodeCollection.from_arrays(bad)
    assert NodeCollection.from_arrays(("a", (1, 2)))[1] == (1, 2)
