"""Random data that are not vectors: DNA at splice sites, molecules as graphs, a clinic's table."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.datasets.data import check_number, check_size
from mercer.domains import Graph, Table

__all__ = ["make_clinic", "make_molecules", "make_splice"]

# Letters at the nine places around a donor site, from the last three of the exon on; each row has
# the chances of A, C, G and T, close to those counted in vertebrates.
_DONOR = np.array(
    [
        [0.35, 0.35, 0.18, 0.12],
        [0.60, 0.13, 0.12, 0.15],
        [0.09, 0.03, 0.80, 0.08],
        [0.00, 0.00, 1.00, 0.00],
        [0.00, 0.00, 0.00, 1.00],
        [0.52, 0.03, 0.42, 0.03],
        [0.70, 0.08, 0.12, 0.10],
        [0.07, 0.05, 0.81, 0.07],
        [0.16, 0.17, 0.21, 0.46],
    ]
)


def make_splice(
    n: int = 200, length: int = 60, random_state: int | np.random.Generator | None = None
) -> tuple[list[str], np.ndarray]:
    """Return strings of DNA with GT in the middle; one half of them are splice sites.

    Around GT a site has the letters that donor sites have, and exon and intron beside it differ a
    little in their letters. The others have GT by chance.

    Parameters
    ----------
    n : int, default=200
        Number of strings.
    length : int, default=60
        Letters of each, at least 10.
    random_state : int, Generator or None, optional
        Seed of the random numbers.

    Returns
    -------
    X : list of str
        The strings.
    y : ndarray of shape (n,)
        ``"site"`` or ``"decoy"``.

    Examples
    --------
    >>> from mercer.datasets import make_splice
    >>> X, y = make_splice(4, length=12, random_state=0)
    >>> X[0][6:8], sorted(set(y.tolist()))
    ('GT', ['decoy', 'site'])
    """
    n, rng = check_size("make_splice", "n", n, 1), np.random.default_rng(random_state)
    length = check_size("make_splice", "length", length, 10)
    middle, letters = length // 2, np.array(list("ACGT"))
    site = rng.permutation(np.arange(n) % 2 == 0)
    X = []
    for real in site:
        left = [0.24, 0.27, 0.27, 0.22] if real else [0.25] * 4
        right = [0.24, 0.19, 0.21, 0.36] if real else [0.25] * 4
        exon = rng.choice(letters, middle, p=left)
        s = np.concatenate([exon, rng.choice(letters, length - middle, p=right)])
        if real:
            places = np.arange(middle - 3, min(middle + 6, length))
            s[places] = [rng.choice(letters, p=p) for p in _DONOR[: len(places)]]
        s[middle : middle + 2] = ["G", "T"]
        X.append("".join(s))
    return X, np.where(site, "site", "decoy")


def make_molecules(
    n: int = 100, random_state: int | np.random.Generator | None = None
) -> tuple[list[Graph], np.ndarray]:
    """Return graphs that look like small organic molecules; one half of them have a nitro group.

    A molecule is a tree of carbon atoms with a ring or two, and some oxygen and nitrogen. Atoms are
    node labels, bonds are edge labels: 1, 2, or 1.5 in aromatic rings. The active ones have a ring
    that bears N(=O)O; the others have as many atoms of each kind, put elsewhere.

    Parameters
    ----------
    n : int, default=100
        Number of molecules.
    random_state : int, Generator or None, optional
        Seed of the random numbers.

    Returns
    -------
    graphs : list of Graph
        The molecules.
    y : ndarray of shape (n,)
        ``"active"`` or ``"inactive"``.

    Examples
    --------
    >>> from mercer.datasets import make_molecules
    >>> graphs, y = make_molecules(6, random_state=0)
    >>> len(graphs), sorted(set(y.tolist()))
    (6, ['active', 'inactive'])
    """
    n, rng = check_size("make_molecules", "n", n, 1), np.random.default_rng(random_state)
    active = rng.permutation(np.arange(n) % 2 == 0)
    graphs = [_molecule(rng, bool(a)) for a in active]
    return graphs, np.where(active, "active", "inactive")


def _molecule(rng: np.random.Generator, active: bool) -> Graph:
    labels = ["C"] * 6
    bonds: list[tuple[int, int, float]] = [(i, (i + 1) % 6, 1.5) for i in range(6)]

    def attach(atom: str, to: int, bond: float = 1.0) -> int:
        labels.append(atom)
        bonds.append((to, len(labels) - 1, bond))
        return len(labels) - 1

    chain = [attach("C", int(rng.integers(6)))]
    for _ in range(int(rng.integers(3, 10))):
        chain.append(attach("C", chain[int(rng.integers(len(chain)))]))
    if rng.random() < 0.5:  # a ring of five, not aromatic
        first = last = attach("C", chain[int(rng.integers(len(chain)))])
        for _ in range(4):
            last = attach("C", last)
        bonds.append((last, first, 1.0))
    place = int(rng.integers(6))
    if active:
        nitrogen = attach("N", place)
        attach("O", nitrogen, 2.0)
        attach("O", nitrogen)
    else:
        attach("N", chain[int(rng.integers(len(chain)))])
        attach("O", place)
        attach("O", chain[int(rng.integers(len(chain)))], 2.0)
    order = rng.permutation(len(labels))
    place_of = np.argsort(order)
    edges = [(int(place_of[i]), int(place_of[j])) for i, j, _ in bonds]
    return Graph(
        edges=edges,
        n_nodes=len(labels),
        labels=[labels[i] for i in order],
        edge_labels=[bond for *_, bond in bonds],
    )


def make_clinic(
    n: int = 200, missing: float = 0.1, random_state: int | np.random.Generator | None = None
) -> tuple[Table, np.ndarray]:
    """Return patients in columns of many kinds, and how well each recovered.

    Columns: ``age`` and ``dose`` (numbers), ``site`` (categories), ``severity`` (ordered: low,
    middle, high), ``sequence`` (a strand of DNA that may hold the marker GATTACA), ``notes`` (a
    sentence). Recovery depends on all of them, and not on a sum of what each says alone: the dose
    helps only those with the marker.

    Parameters
    ----------
    n : int, default=200
        Number of patients.
    missing : float, default=0.1
        Share of cells that are missing, in every column; from 0 to 1.
    random_state : int, Generator or None, optional
        Seed of the random numbers.

    Returns
    -------
    table : Table
        The patients; missing cells are NaN among numbers and None elsewhere.
    recovery : ndarray of shape (n,)
        A number for each.

    Examples
    --------
    >>> from mercer.datasets import make_clinic
    >>> table, recovery = make_clinic(5, random_state=0)
    >>> table
    Table(5 rows: age, dose, site, severity, sequence, notes)
    """
    n, rng = check_size("make_clinic", "n", n, 1), np.random.default_rng(random_state)
    missing = check_number("make_clinic", "missing", missing, 1.0)
    age, dose = rng.uniform(20.0, 80.0, n), rng.gamma(3.0, 10.0, n)
    site = rng.choice(["Bern", "Lund", "Pisa"], n)
    severity = rng.choice(["low", "middle", "high"], n, p=[0.4, 0.4, 0.2])
    marker = rng.random(n) < 0.5
    sequence = [_strand(rng, bool(m)) for m in marker]
    smoker = rng.random(n) < 0.3
    notes = [_note(rng, bool(s)) for s in smoker]
    rank = np.array([["low", "middle", "high"].index(s) for s in severity])
    recovery = (
        3.0 * marker * np.tanh(dose / 30.0)
        - 1.0 * rank
        - 1.5 * smoker
        + 0.5 * (site == "Lund")
        - ((age - 45.0) / 25.0) ** 2
        + 0.3 * rng.standard_normal(n)
    )
    columns: dict[str, Any] = {
        "age": age.round(1),
        "dose": dose.round(1),
        "site": site,
        "severity": severity,
        "sequence": sequence,
        "notes": notes,
    }
    for name, values in columns.items():
        gone = rng.random(n) < missing
        if name in ("age", "dose"):
            columns[name] = np.where(gone, np.nan, values)
        else:
            column = np.empty(n, dtype=object)
            column[:] = [None if g else str(v) for g, v in zip(gone, values, strict=True)]
            columns[name] = column
    return Table(columns), recovery


def _strand(rng: np.random.Generator, marker: bool) -> str:
    s = "".join(rng.choice(list("ACGT"), int(rng.integers(30, 50))))
    if marker:
        at = int(rng.integers(len(s)))
        s = s[:at] + "GATTACA" + s[at:]
    return s


def _note(rng: np.random.Generator, smoker: bool) -> str:
    habit = ["smokes daily", "heavy smoker", "still smokes"] if smoker else ["", "never smoked"]
    parts = [
        rng.choice(["patient slept well", "some pain at night", "no complaints", "feels weak"]),
        rng.choice(habit),
        rng.choice(["walks every day", "lives alone", "works part time", "has two children"]),
    ]
    return ", ".join(str(p) for p in rng.permutation(parts) if p)
