"""``mercer cluster`` and ``mercer embed``: answers, reports, every request they refuse."""

import csv
import io

import numpy as np
import polars as pl
import pytest

from mercer import RBF, DPMeans, KernelKMeans, KernelPCA, TableEncoder
from tests.cli.houses import write


def columns(n=90):
    rng = np.random.default_rng(0)
    group = np.arange(n) % 3
    return {
        "id": [f"row{i}" for i in range(n)],
        "x": (np.array([0.0, 8.0, 0.0])[group] + rng.normal(size=n)).tolist(),
        "y": (np.array([0.0, 0.0, 8.0])[group] + rng.normal(size=n)).tolist(),
        "colour": np.array(["red", "red", "blue"])[group].tolist(),
    }


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "t.csv", columns())


def vectors():
    data = {k: v for k, v in columns().items() if k != "id"}
    return TableEncoder().fit_transform(data)


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def partition(labels):
    groups = {}
    for i, label in enumerate(labels):
        groups.setdefault(str(label), set()).add(i)
    return {frozenset(g) for g in groups.values()}


@pytest.mark.parametrize(
    "words",
    [("-k", "3"), ("-k", "3", "--method", "spectral"), ("-k", "3", "--method", "dpmeans")],
)
def test_clusters(mercer, table, words):
    outcome = mercer("cluster", table, *words)
    assert (outcome.code, outcome.err) == (0, "")
    labels = [row["cluster"] for row in read(outcome.out)]
    assert partition(labels) == partition(np.arange(90) % 3)


def test_the_answers_are_those_of_the_library(mercer, table):
    labels = [int(row["cluster"]) for row in read(mercer("cluster", table, "-k", "4").out)]
    assert labels == KernelKMeans(4, RBF("median"), random_state=0).fit(vectors()).labels_.tolist()
    told = read(mercer("cluster", table, "--penalty", "3", "--kernel", "linear").out)
    assert [int(row["cluster"]) for row in told] == DPMeans(3.0).fit(vectors()).labels_.tolist()


def test_files_and_report(mercer, table, tmp_path):
    outcome = mercer("cluster", table, "-k", "3", "--keep", "id", "-o", tmp_path / "o.parquet")
    assert outcome.code == 0, outcome
    assert "3" in outcome.out and "30 rows" in outcome.out and "'id'" in outcome.out
    frame = pl.read_parquet(tmp_path / "o.parquet")
    assert frame.columns == ["id", "cluster"] and frame["id"][0] == "row0"


def test_cluster_refuses(fails, misused, table):
    assert "-k" in misused("cluster", table)
    assert "leave out -k" in misused("cluster", table, "-k", "2", "--penalty", "1")
    assert "--penalty is for dpmeans" in misused(
        "cluster", table, "--penalty", "1", "--method", "spectral"
    )
    assert "91 clusters of 90 rows" in fails("cluster", table, "-k", "91")
    assert "no column 'nope'" in fails("cluster", table, "-k", "2", "--keep", "nope")


def test_embed(mercer, table):
    outcome = mercer("embed", table, "-n", "3", "--keep", "id", "--novelty")
    assert (outcome.code, outcome.err) == (0, "")
    rows = read(outcome.out)
    assert list(rows[0]) == ["id", "component_1", "component_2", "component_3", "novelty"]
    X = vectors()
    model = KernelPCA(3, RBF("median"), random_state=0).fit(X)
    Z = np.array([[float(row[f"component_{i}"]) for i in (1, 2, 3)] for row in rows])
    np.testing.assert_array_equal(Z, model.transform(X))
    novelty = [float(row["novelty"]) for row in rows]
    np.testing.assert_array_equal(novelty, model.reconstruction_error(X))


def test_embed_report(mercer, table, tmp_path):
    outcome = mercer("embed", table, "-o", tmp_path / "o.tsv", "--kernel", "linear")
    assert outcome.code == 0 and "explained" in outcome.out
    assert (tmp_path / "o.tsv").read_text().startswith("component_1\tcomponent_2\n")


def test_embed_refuses(fails, table, tmp_path):
    assert "90 components of 90 rows" in fails("embed", table, "-n", "90")
    named = write(tmp_path / "n.csv", {"component_1": [1, 2, 3, 5], "v": [2, 1, 3, 9]})
    assert "has that name" in fails("embed", named, "-n", "1", "--keep", "component_1")


def test_spectral_clusters_follow_rings(mercer, tmp_path):
    rng = np.random.default_rng(0)
    ring = np.arange(200) % 2
    radius = np.where(ring == 0, 1.0, 3.0) + 0.05 * rng.normal(size=200)
    angle = rng.uniform(0, 2 * np.pi, 200)
    points = {"x": (radius * np.cos(angle)).tolist(), "y": (radius * np.sin(angle)).tolist()}
    path = write(tmp_path / "rings.csv", points)
    told = read(mercer("cluster", path, "-k", "2", "--method", "spectral").out)
    assert partition([row["cluster"] for row in told]) == partition(ring)
