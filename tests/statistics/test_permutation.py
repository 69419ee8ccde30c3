"""Ways to shuffle, and the p-value of a null that is drawn."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from mercer.errors import InvalidInput, speaking_for
from mercer.statistics import TestResult as Result
from mercer.statistics.permutation import Relabel, Shuffle, Signs, resample, row_labels


def draws(design, size, seed=0):
    return design.draw(np.random.default_rng(seed), size)


@pytest.mark.parametrize(
    "design",
    [
        Shuffle(9),
        Shuffle(9, blocks=2),
        Shuffle(9, strata=[0, 0, 0, 1, 1, 1, 2, 2, 2]),
        Relabel([0] * 4 + [1] * 5),
        Relabel([0] * 4 + [1] * 5, strata=[0, 0, 1, 1, 0, 0, 1, 1, 1]),
        Signs(9),
        Signs(9, blocks=4),
    ],
)
def test_draws_do_not_depend_on_how_many_are_asked_at_once(design):
    rng = np.random.default_rng(3)
    parts = np.concatenate([design.draw(rng, size) for size in (1, 4, 7)])
    assert np.array_equal(parts, draws(design, 12, 3))


def test_every_permutation_is_equally_likely():
    p = draws(Shuffle(4), 24_000)
    codes = p @ [64, 16, 4, 1]
    wanted = sorted(np.array(list(itertools.permutations(range(4)))) @ [64, 16, 4, 1])
    found, counts = np.unique(codes, return_counts=True)
    assert list(found) == wanted
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_rows_of_a_block_move_together_and_a_short_run_stays():
    p = draws(Shuffle(8, blocks=3), 400)
    assert np.array_equal(p[:, 6:], np.broadcast_to([6, 7], (400, 2)))
    assert {tuple(row) for row in p[:, :6]} == {(0, 1, 2, 3, 4, 5), (3, 4, 5, 0, 1, 2)}


def test_labelled_blocks_change_places_with_blocks_of_their_length():
    labels = np.array(["a", "b", "a", "c", "b", "d"])  # lengths 2, 2, 1, 1
    p = draws(Shuffle(6, blocks=labels), 400)
    pairs = {(tuple(row[[0, 2]]), tuple(row[[1, 4]]), row[3], row[5]) for row in p}
    a, b = (0, 2), (1, 4)
    assert pairs == {(a, b, 3, 5), (b, a, 3, 5), (a, b, 5, 3), (b, a, 5, 3)}


def test_strata_are_kept():
    strata = np.array([1, 0, 1, 0, 1])
    p = draws(Shuffle(5, strata=strata), 300)
    assert (strata[p] == strata).all()
    assert len({tuple(row) for row in p}) == 12


def test_relabelled_blocks_of_one_length_change_places():
    labels = np.array([0, 0, 0, 1, 1, 1])
    blocks = np.array([0, 0, 1, 2, 3, 3])
    drawn = draws(Relabel(labels, blocks=blocks), 500)
    assert (drawn[:, 0] == drawn[:, 1]).all() and (drawn[:, 4] == drawn[:, 5]).all()
    assert {tuple(row[[0, 2, 3, 4]]) for row in drawn} == {
        (a, b, 1 - b, 1 - a) for a in (0, 1) for b in (0, 1)
    }
    assert set(drawn.sum(1)) == {3}  # samples keep their sizes


def test_short_runs_keep_their_label():
    drawn = draws(Relabel([0] * 5 + [1] * 6, blocks=2), 200)
    assert (drawn[:, 4] == 0).all() and (drawn.sum(1) == 6).all()
    for i in (0, 2, 5, 7, 9):
        assert (drawn[:, i] == drawn[:, i + 1]).all() and set(drawn[:, i]) == {0, 1}


def test_counts_make_the_length_of_a_block():
    labels, blocks = [0, 0, 0, 1, 1], [0, 0, 1, 2, 3]
    drawn = draws(Relabel(labels, blocks=blocks, counts=np.array([1, 1, 1, 2, 4])), 200)
    assert {tuple(row) for row in drawn} == {(0, 0, 0, 1, 1), (1, 1, 0, 0, 1)}


def test_runs_begin_anew_in_each_sample():
    drawn = draws(Relabel([0, 0, 0, 1, 1, 1], blocks=2), 200)
    assert (drawn[:, 0] == drawn[:, 1]).all() and (drawn[:, 3] == drawn[:, 4]).all()


def test_signs_are_fair_and_shared_by_blocks():
    signs = draws(Signs(6, blocks=[2, 2, 1, 1, 0, 0]), 4000)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert (signs[:, 0] == signs[:, 1]).all()
    assert abs(signs.mean(0)).max() < 5 / np.sqrt(4000)
    assert abs((signs[:, 0] * signs[:, 2]).mean()) < 5 / np.sqrt(4000)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Shuffle(4, blocks=[1, 2]), "blocks has shape"),
        (lambda: Shuffle(4, blocks=0), "blocks=0"),
        (lambda: Shuffle(3, blocks=[0, 0, 1]), "nothing can change places"),
        (lambda: Shuffle(4, strata=[0, 1, 2, 3]), "nothing can change places"),
        (lambda: Shuffle(4, strata=[0.0, np.nan, 1.0, 1.0]), "strata holds NaN"),
        (lambda: Shuffle(4, blocks=[0, 0, 1, 1], strata=[0, 1, 1, 1]), "several strata"),
        (lambda: Relabel([0, 0, 1, 1], blocks=[0, 1, 1, 2]), "several samples"),
        (lambda: Relabel([0, 0, 1, 1], strata=[0, 0, 1, 1]), "nothing can change places"),
        (lambda: Relabel([0, 0, 1, 1, 1], blocks=[0, 0, 1, 1, 1]), "nothing can change places"),
        (lambda: Relabel([0, 0, 0, 1], blocks=2.5), "blocks=2.5"),
        (lambda: Relabel([0, 0, 0, 1], blocks=True), "blocks=True"),
    ],
)
def test_what_cannot_be_shuffled_is_refused(make, text):
    with pytest.raises(InvalidInput, match=text):
        make()


def test_labels_of_rows():
    assert row_labels(None, [3], "blocks") is None
    runs = row_labels(2, [5, 3], "blocks")
    assert runs[:5].tolist() == [0, 0, 1, 1, 2] and (np.diff(runs[5:]) == [0, 1]).all()
    assert len(np.unique(runs)) == 5
    # Names of blocks may repeat in another sample, those of strata mean the same there.
    named = (["a", "b", "a"], ["a", "b"])
    assert len(np.unique(row_labels(named, [3, 2], "blocks"))) == 4
    assert row_labels(named, [3, 2], "strata").tolist() == [0, 1, 0, 0, 1]
    mixed = row_labels(([1, 2], [1.0, 2.0]), [2, 2], "strata")
    assert mixed.tolist() == [0, 1, 0, 1]
    with (
        pytest.raises(InvalidInput, match=r"f: strata has shape \(\); give a label for each of"),
        speaking_for("f"),
    ):
        row_labels(3, [2, 2], "strata")
    with pytest.raises(InvalidInput, match="f: blocks=0"), speaking_for("f"):
        row_labels(0, [2, 2], "blocks")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_statistic_that_is_no_number_is_no_significant_one(wrong):
    rng = np.random.default_rng(0)
    with (
        pytest.raises(InvalidInput, match=r"f: the statistic overflows.*Scale the columns"),
        speaking_for("f"),
    ):
        resample(wrong, evaluate, Numbered(), 9, rng)

    def one(draws):
        return np.where(np.arange(len(draws)) == 5, wrong, 0.0)

    with pytest.raises(InvalidInput, match="f: the statistic overflows"), speaking_for("f"):
        resample(0.0, one, Numbered(), 9, rng)
    with pytest.raises(InvalidInput, match="f: the statistic overflows"), speaking_for("f"):
        resample(np.zeros(2), lambda d: np.tile(one(d)[:, None], 2), Numbered(), 9, rng)


class Numbered:
    """Draws that are numbers, so that the null is known."""

    def draw(self, rng, size):
        return rng.normal(size=(size, 1))


def evaluate(draws):
    return draws[:, 0]


@pytest.mark.parametrize("batch", [1, 7, None])
def test_pvalue_counts_the_data_among_the_arrangements(batch):
    null = resample(1.0, evaluate, Numbered(), 99, np.random.default_rng(0), largest_batch=batch)
    values = np.random.default_rng(0).normal(size=99)
    assert np.array_equal(null.values, values)
    assert null.exceedances == (values >= 1.0).sum()
    assert null.pvalue == (null.exceedances + 1) / 100
    assert resample(50.0, evaluate, Numbered(), 99, np.random.default_rng(0)).pvalue == 0.01


def test_ties_by_rounding_reach_the_statistic():
    same = resample(
        0.1 + 0.2, lambda d: np.full(len(d), 0.3), Numbered(), 9, np.random.default_rng()
    )
    assert same.pvalue == 1.0
    near = resample(
        1.0,
        lambda d: np.full(len(d), 0.999),
        Numbered(),
        9,
        np.random.default_rng(),
        resolution=0.01,
    )
    assert near.pvalue == 1.0


@pytest.mark.parametrize("batch", [1, 5, None])
def test_early_stopping_ends_at_the_exceedance_agreed_on(batch):
    values = np.random.default_rng(0).normal(size=999)
    last = int(np.flatnonzero(values >= 0.5)[9])
    null = resample(
        0.5, evaluate, Numbered(), 999, np.random.default_rng(0), early_stop=10, largest_batch=batch
    )
    assert null.stopped and null.n_drawn == last + 1 == len(null.values)
    assert null.pvalue == 10 / (last + 1)
    never = resample(9.0, evaluate, Numbered(), 99, np.random.default_rng(0), early_stop=10)
    assert not never.stopped and never.pvalue == 0.01


def test_sequential_pvalues_keep_the_level():
    rng = np.random.default_rng(5)
    runs = 3000
    p = [
        resample(rng.normal(), evaluate, Numbered(), 199, rng, early_stop=5).pvalue
        for _ in range(runs)
    ]
    for level in (0.01, 0.05, 0.3):
        assert (np.array(p) <= level).sum() <= binom.ppf(0.999, runs, level)


def test_several_statistics_have_no_single_pvalue():
    null = resample(np.zeros(2), lambda d: np.tile(d, 2), Numbered(), 9, np.random.default_rng(0))
    assert null.values.shape == (9, 2) and null.pvalue is None
    with pytest.raises(InvalidInput, match="early_stop"):
        resample(
            np.zeros(2),
            lambda d: np.tile(d, 2),
            Numbered(),
            9,
            np.random.default_rng(0),
            early_stop=1,
        )


def test_intervals_of_the_pvalue_cover_it():
    truth, covered = 0.04, 0
    for seed in range(400):
        drawn = np.random.default_rng(seed).random(200) < truth
        k = int(drawn.sum())
        low, high = Result(0.0, (k + 1) / 201, None, "", 200, (), k).confidence_interval(0.9)
        covered += low <= truth <= high
    assert covered >= 0.9 * 400 - 15


def test_interval_after_stopping_covers_it():
    truth, covered = 0.04, 0
    for seed in range(400):
        draws = np.random.default_rng(seed).negative_binomial(8, truth) + 8
        low, high = Result(
            0.0, 8 / draws, None, "", int(draws), (), 8, stopped=True
        ).confidence_interval(0.9)
        covered += low <= truth <= high
    assert abs(covered / 400 - 0.9) < 0.06


def test_a_formula_has_no_error_of_drawing():
    result = Result(1.0, 0.2, None, "gamma")
    assert result.confidence_interval() == (0.2, 0.2)
    statistic, pvalue = result
    assert (statistic, pvalue) == (1.0, 0.2)
    assert "p-value    0.2" in result.summary()
    assert len(result) == 2 and list(result) == [result[0], result[1]]
    assert (result[0], result[-1]) == (result.statistic, result.pvalue)
    with pytest.raises(IndexError):
        result[2]
    for wrong in (95, 0, "a", None, [0.9]):
        with pytest.raises(InvalidInput, match="confidence_level"):
            result.confidence_interval(wrong)


@pytest.mark.parametrize("early_stop", [None, 3])
def test_the_data_may_be_evaluated_with_the_first_batch(early_stop):
    """One pass less, and nothing else changes: neither the draws nor the p-value."""
    labels = np.array([0, 0, 0, 1, 1, 1, 1])
    values = np.array([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 2.5])
    asked = []

    def evaluate(draws):
        asked.append(len(draws))
        return draws @ values

    def run(observed, data):
        asked.clear()
        rng = np.random.default_rng(1)
        return resample(
            observed, evaluate, Relabel(labels), 99, rng, early_stop=early_stop, data=data
        )

    known, lazy = run(float(labels @ values), None), run(None, labels)
    assert asked[0] == (64 if early_stop else 99) + 1
    assert lazy.observed == known.observed == labels @ values
    assert lazy.pvalue == known.pvalue
    assert np.array_equal(lazy.values, known.values)


def test_labels_without_blocks_are_blocks_of_one_row():
    labels, strata = np.array([0, 1, 1, 0, 1, 0]), np.array([0, 0, 0, 1, 1, 1])
    for groups in (None, strata):
        alone = draws(Relabel(labels, strata=groups), 50)
        named = draws(Relabel(labels, blocks=np.arange(6), strata=groups), 50)
        assert np.array_equal(alone, named)
        assert np.array_equal(np.sort(alone, 1), np.sort(np.broadcast_to(labels, (50, 6)), 1))
