"""``mercer depend``: joint and pairwise tests, conditions, exit codes, what it refuses."""

import json

import numpy as np
import pytest

from mercer.statistics import hsic_test
from tests.cli.houses import write


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=120)
    u = rng.uniform(-1, 1, 120)
    columns = {
        "u": u,
        "square": u**2 + 0.05 * rng.normal(size=120),
        "noise": rng.normal(size=120),
        "z": z,
        "sine": np.sin(z) + 0.3 * rng.normal(size=120),
        "bowl": z**2 / 2 + 0.3 * rng.normal(size=120),
        "site": rng.choice(["a", "b"], 120),
    }
    return write(tmp_path / "t.csv", {k: v.tolist() for k, v in columns.items()})


def test_dependence_that_correlation_misses(mercer, table):
    outcome = mercer("depend", table, "--x", "u", "--y", "square", "--fail-under", "0.01")
    assert (outcome.code, outcome.err) == (3, "")
    assert "p-value       0.001" in outcome.out and "correlation" in outcome.out
    outcome = mercer("depend", table, "--x", "u", "--y", "noise", "--fail-under", "0.01")
    assert outcome.code == 0 and "not below" in outcome.out


def test_the_numbers_are_those_of_the_library(mercer, table):
    told = json.loads(mercer("depend", table, "--x", "u", "--y", "noise", "--json").out)
    u, noise = np.genfromtxt(table, delimiter=",", skip_header=1, usecols=(0, 2)).T
    scaled = []
    for v in (u, noise):
        low, middle, high = np.quantile(v, [0.25, 0.5, 0.75])
        scaled.append((v - middle) / ((high - low) / 1.349))
    result = hsic_test(*scaled, None, None, 999, 0)
    assert told["pvalue"] == result.pvalue
    assert told["statistic"] == pytest.approx(result.statistic, rel=1e-9)
    assert told["rows"] == 120 and told["pairs"] == []


def test_several_columns_are_also_tested_in_pairs(mercer, table):
    words = ("--x", "u", "noise", "--y", "square", "site")
    told = json.loads(mercer("depend", table, *words, "--permutations", "199", "--json").out)
    assert told["pvalue"] <= 0.01
    assert len(told["pairs"]) == 4
    first = told["pairs"][0]
    assert (first["x"], first["y"], first["pvalue"]) == ("u", "square", 0.005)
    assert first["adjusted"] == pytest.approx(0.02)
    assert all(pair["adjusted"] >= pair["pvalue"] for pair in told["pairs"])
    assert "pair" in mercer("depend", table, *words, "--permutations", "99").out


def test_given_a_cause(mercer, table):
    words = ("depend", table, "--x", "sine", "--y", "bowl", "--json")
    assert json.loads(mercer(*words).out)["pvalue"] < 0.01
    told = json.loads(mercer(*words, "--given", "z").out)
    assert told["pvalue"] > 0.05 and 0.1 < told["explained"]["y"] < 1
    assert "by leave-one-out" in mercer(*words[:-1], "--given", "z").out


def test_blocks(mercer, table):
    for words in (("--blocks", "10"), ("--strata", "site")):
        outcome = mercer("depend", table, "--x", "u", "--y", "square", *words)
        assert outcome.code == 0 and "p-value       0.001" in outcome.out, outcome


def test_rows_with_gaps_are_left_out(mercer, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    y = ["" if i < 10 else v for i, v in enumerate(rng.normal(size=40))]
    path = write(tmp_path / "t.csv", {"x": x.tolist(), "y": y})
    outcome = mercer("depend", path, "--x", "x", "--y", "y")
    assert outcome.code == 0
    assert "30 of" in outcome.out and "10 with a missing cell left out" in outcome.out


def test_refused(fails, misused, table, tmp_path):
    assert "named twice" in misused("depend", table, "--x", "u", "--y", "u")
    assert "no column 'nope'" in fails("depend", table, "--x", "u", "--y", "nope")
    assert "is tested" in misused("depend", table, "--x", "u", "--y", "z", "--drop", "z")
    assert "no permutations" in misused(
        "depend", table, "--x", "u", "--y", "z", "--given", "noise", "--blocks", "5"
    )
    few = write(tmp_path / "few.csv", {"a": [1, 2, 3], "b": [2, 1, 4]})
    assert "five are needed" in fails("depend", few, "--x", "a", "--y", "b")
    flat = write(tmp_path / "flat.csv", {"a": [1] * 9, "b": list(range(9))})
    assert "no column is left" in fails("depend", flat, "--x", "a", "--y", "b")


def test_usage(mercer, table):
    assert mercer("depend", table, "--x", "u").code == 2


def test_dependence_is_explained_by_columns_and_pairs(mercer, table):
    words = ("--x", "u", "noise", "site", "--y", "square", "bowl", "--permutations", "99")
    told = mercer("depend", table, *words, "--explain")
    assert told.code == 0
    shares = [line for line in told.out.splitlines() if line.startswith("share")]
    assert "u and square together: 0.0" in shares[0] and "in 1 % of cases" in shares[0]
    assert "by 5 columns and 6 pairs" in told.out
    found = json.loads(mercer("depend", table, *words, "--explain", "--json").out)
    columns = [s["value"] for s in found["shares"]["of"] if len(s["columns"]) == 1]
    assert sum(columns) == pytest.approx(found["statistic"], rel=1e-9)
    refused = mercer("depend", table, "--x", "u", "--y", "z", "--given", "sine", "--explain")
    assert refused.code == 2 and "--explain" in refused.err and "--given" in refused.err
