"""Random data of known shape: a noisy sine, rings, DNA, molecules as graphs, a clinic, texts."""

from __future__ import annotations

import importlib
import inspect
import re
from numbers import Real
from typing import Any

import numpy as np
from sklearn import datasets

from mercer.checks import check_index
from mercer.domains import Graph, Table
from mercer.errors import InvalidInput, speaks, who


@speaks("make_sine")
def make_sine(
    n: int = 100, noise: float = 0.1, random_state: int | np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return points of :math:`y = \sin(2\pi x) + \varepsilon` on [0, 1], sorted by x.

    Parameters
    ----------
    n : int, default=100
        Number of points.
    noise : float, default=0.1
        Standard deviation of ε.
    random_state : int, Generator or None, optional
        Seed of the random numbers.

    Returns
    -------
    X : ndarray of shape (n, 1)
        The places.
    y : ndarray of shape (n,)
        The noisy values.

    Examples
    --------
    >>> from mercer.datasets import make_sine
    >>> X, y = make_sine(50, random_state=0)
    >>> X.shape, y.shape
    ((50, 1), (50,))
    """
    n, noise, rng = _check(n, noise, random_state)
    x = np.sort(rng.uniform(0.0, 1.0, n))
    return x[:, None], np.sin(2 * np.pi * x) + noise * rng.standard_normal(n)


@speaks("make_rings")
def make_rings(
    n: int = 200,
    rings: int = 2,
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return points on concentric circles of radius 1, 2, …; no straight line separates them.

    Parameters
    ----------
    n : int, default=200
        Number of points, shared among the rings as evenly as can be.
    rings : int, default=2
        Number of rings, one class each.
    noise : float, default=0.1
        Standard deviation of the radius.
    random_state : int, Generator or None, optional
        Seed of the random numbers.

    Returns
    -------
    X : ndarray of shape (n, 2)
        The points.
    y : ndarray of shape (n,)
        The ring of each point, from 0.

    Examples
    --------
    >>> from mercer.datasets import make_rings
    >>> X, y = make_rings(9, rings=3, random_state=0)
    >>> [int((y == k).sum()) for k in range(3)]
    [3, 3, 3]
    """
    n, noise, rng = _check(n, noise, random_state)
    y = rng.permutation(np.arange(n) % check_index(rings, "rings", 1))
    angle = rng.uniform(0.0, 2 * np.pi, n)
    radius = 1.0 + y + noise * rng.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def _check(
    n: int, noise: float, random_state: int | np.random.Generator | None
) -> tuple[int, float, np.random.Generator]:
    n = check_index(n, "n", 1)
    return n, check_amount("noise", noise), np.random.default_rng(random_state)


def check_amount(name: str, value: float, high: float | None = None) -> float:
    """Return a finite number of at least 0 and at most ``high``, or refuse it by name."""
    number = isinstance(value, Real) and not isinstance(value, bool) and 0 <= value < np.inf
    if not number or (high is not None and value > high):
        legal = "a finite number >= 0" if high is None else f"a number from 0 to {high:g}"
        raise InvalidInput(f"{who()}: {name}={value!r}; give {legal}.")
    return float(value)


# ---- Real tables that come with scikit-learn, with their columns named and in their own units ----


_DIABETES = {
    "age": "age",
    "sex": "sex",
    "bmi": "bmi",
    "bp": "blood_pressure",
    "s1": "total_cholesterol",
    "s2": "ldl",
    "s3": "hdl",
    "s4": "cholesterol_ratio",
    "s5": "log_triglycerides",
    "s6": "blood_sugar",
}


def load_diabetes_table() -> tuple[Table, np.ndarray]:
    """Return 442 patients with diabetes and the progress of the disease after one year.

    Nine columns of numbers in their own units and the categories of ``sex``, coded ``"1"`` and
    ``"2"`` by the authors (Efron, Hastie, Johnstone and Tibshirani, 2004).

    Returns
    -------
    table : Table
        The ten columns.
    progression : ndarray of shape (442,)
        A measure of disease progression, from 25 to 346.

    Examples
    --------
    >>> from mercer.datasets import load_diabetes_table
    >>> table, progression = load_diabetes_table()
    >>> table.shape, round(float(progression.mean()), 1)
    ((442, 10), 152.1)
    """
    data = datasets.load_diabetes(scaled=False)
    names = (_DIABETES[name] for name in data.feature_names)
    columns = dict(zip(names, data.data.T, strict=True))
    columns["sex"] = columns["sex"].astype(int).astype(str)
    return Table(columns), data.target


def load_wine_table() -> tuple[Table, np.ndarray]:
    """Return 178 wines by 13 chemical measurements, and which of three growers made each.

    Returns
    -------
    table : Table
        The thirteen columns of numbers.
    grower : ndarray of shape (178,)
        ``"grower 1"``, ``"grower 2"`` or ``"grower 3"``.

    Examples
    --------
    >>> from mercer.datasets import load_wine_table
    >>> table, grower = load_wine_table()
    >>> table.names[:2], str(grower[0])
    (('alcohol', 'malic_acid'), 'grower 1')
    """
    data = datasets.load_wine()
    names = [n.replace("/", "_") for n in data.feature_names]
    table = Table(dict(zip(names, data.data.T, strict=True)))
    return table, np.array([f"grower {k + 1}" for k in data.target])


# ---- Real short texts that are on every machine: sentences from the documentation of numpy and
# kin.


_MODULES = {
    "numpy": ("numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.polynomial"),
    "scipy": ("scipy.optimize", "scipy.integrate", "scipy.interpolate", "scipy.signal"),
    "scikit-learn": ("sklearn.linear_model", "sklearn.cluster", "sklearn.metrics", "sklearn.svm"),
}
_LETTERS = (60, 240)  # shortest and longest sentence that is kept


@speaks("load_sentences")
def load_sentences(per_author: int = 150) -> tuple[list[str], np.ndarray]:
    """Return sentences of docstrings, and which project wrote each: numpy, scipy or scikit-learn.

    The texts are those of the installed releases, so a few differ from one installation to the
    next.

    Parameters
    ----------
    per_author : int, default=150
        Number of sentences of each project, spread evenly over what it has, which are
        hundreds; all of them where it has fewer.

    Returns
    -------
    sentences : list of str
        The sentences, project by project.
    authors : ndarray of str
        ``"numpy"``, ``"scipy"`` or ``"scikit-learn"``.

    Examples
    --------
    >>> from mercer.datasets import load_sentences
    >>> sentences, authors = load_sentences(20)
    >>> len(sentences), sorted(set(authors.tolist()))
    (60, ['numpy', 'scikit-learn', 'scipy'])
    """
    per_author = check_index(per_author, "per_author", 1)
    texts: list[str] = []
    authors: list[str] = []
    for author, modules in _MODULES.items():
        found = _sentences(modules)
        chosen = np.linspace(0, len(found) - 1, min(per_author, len(found))).astype(int)
        texts += [found[i] for i in chosen]
        authors += [author] * len(chosen)
    return texts, np.array(authors)


def _sentences(modules: tuple[str, ...]) -> list[str]:
    """Return the sentences of the prose in the docstrings of what modules export, in order."""
    found: dict[str, None] = {}
    for name in modules:
        module = importlib.import_module(name)
        for public in sorted(getattr(module, "__all__", ())):
            text = inspect.getdoc(getattr(module, public, None)) or ""
            for part in re.split(r"\n\s*\n", text):
                lines = part.splitlines()
                if any(re.match(r"\s{2,}|[-=.>*]|.* : ", line) for line in lines):
                    continue  # headings, code, lists and parameters are no sentences
                for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", " ".join(lines)):
                    short, long = _LETTERS
                    if short <= len(sentence) <= long and sentence.endswith("."):
                        found.setdefault(sentence)
    return list(found)


# ---- Points that are not vectors: DNA at splice sites, molecules, the table of a clinic ----


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


@speaks("make_splice")
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
    n, rng = check_index(n, "n", 1), np.random.default_rng(random_state)
    length = check_index(length, "length", 10)
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


@speaks("make_molecules")
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
    n, rng = check_index(n, "n", 1), np.random.default_rng(random_state)
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


@speaks("make_clinic")
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
    n, rng = check_index(n, "n", 1), np.random.default_rng(random_state)
    missing = check_amount("missing", missing, 1.0)
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
            cells = zip(gone, values, strict=True)
            columns[name] = [None if lost else str(value) for lost, value in cells]
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
