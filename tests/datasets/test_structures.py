"""Data that are not vectors: what they promise to hold, reproducibility, bad sizes."""

from itertools import pairwise

import numpy as np
import pytest

from mercer.datasets import load_sentences, make_clinic, make_molecules, make_splice
from mercer.domains.graphs.value import Graph
from mercer.errors import InvalidInput


def test_splice_sites_have_gt_in_the_middle_and_halves_are_even():
    X, y = make_splice(41, length=30, random_state=2)
    assert all(len(s) == 30 and s[15:17] == "GT" and set(s) <= set("ACGT") for s in X)
    assert (y == "site").sum() == 21
    # the letter before GT of a site is G in four of five strings, by chance in one of four
    many, labels = make_splice(2000, random_state=0)
    before = np.array([s[29] == "G" for s in many])
    assert before[labels == "site"].mean() > 0.7 > 0.4 > before[labels == "decoy"].mean()


def test_active_molecules_have_a_nitro_group_and_the_others_none():
    graphs, y = make_molecules(30, random_state=1)
    nitrogen, oxygen = Graph(labels=["N", "O"]).node_labels
    for graph, label in zip(graphs, y, strict=True):
        kinds = graph.node_labels
        beside = [kinds[graph.indices[a:b]] for a, b in pairwise(graph.indptr)]
        nitro = [
            k == nitrogen and (b == oxygen).sum() == 2 for k, b in zip(kinds, beside, strict=True)
        ]
        assert sum(nitro) == (label == "active")
        assert (kinds == oxygen).sum() == 2 and (kinds == nitrogen).sum() == 1


def test_the_clinic_has_gaps_of_every_kind():
    table, y = make_clinic(400, missing=0.25, random_state=0)
    assert len(table) == len(y) == 400 and np.isfinite(y).all()
    for name in table.names:
        column = table[name]
        gone = np.isnan(column) if column.dtype.kind == "f" else column == None  # noqa: E711
        assert 0.15 < gone.mean() < 0.35, name
    whole, _ = make_clinic(20, missing=0.0, random_state=0)
    assert all(v is not None for v in whole["notes"])


@pytest.mark.parametrize("make", [make_splice, make_molecules, make_clinic])
def test_same_seed_same_data(make):
    A, a = make(12, random_state=3)
    B, b = make(12, random_state=3)
    if make is make_clinic:
        assert list(A["sequence"]) == list(B["sequence"]) and list(A["site"]) == list(B["site"])
    else:
        assert list(A) == list(B) != list(make(12, random_state=4)[0])
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make", [make_splice, make_molecules, make_clinic])
@pytest.mark.parametrize("bad", [0, 1.5, True, "ten"])
def test_bad_sizes(make, bad):
    with pytest.raises(InvalidInput, match="n="):
        make(bad)


def test_bad_length():
    with pytest.raises(InvalidInput, match="length=9"):
        make_splice(3, length=9)


@pytest.mark.parametrize("bad", [-0.1, 1.5, np.nan, "a", None, True])
def test_a_share_of_missing_cells_lies_between_0_and_1(bad):
    with pytest.raises(InvalidInput, match=r"make_clinic: missing=.*from 0 to 1"):
        make_clinic(5, missing=bad)


def test_all_cells_may_be_missing():
    table, _ = make_clinic(5, missing=1, random_state=0)
    assert all(np.isnan(np.asarray(table[name], dtype=float)).all() for name in table.names)


@pytest.mark.parametrize("bad", [-1, 0, 2.5, True, "all", None])
def test_bad_numbers_of_sentences(bad):
    with pytest.raises(InvalidInput, match="load_sentences: per_author="):
        load_sentences(bad)


def test_sentences_are_prose():
    sentences, authors = load_sentences(50)
    assert len(set(sentences)) == len(sentences) == len(authors) == 150
    assert all(60 <= len(s) <= 240 and s.endswith(".") and "\n" not in s for s in sentences)
