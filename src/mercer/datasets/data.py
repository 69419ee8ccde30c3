"""Random data of known shape: a noisy sine for regression, rings for classification."""

from __future__ import annotations

import importlib
import inspect
import re
from numbers import Real

import numpy as np
from sklearn import datasets

from mercer.domains import Table
from mercer.errors import InvalidInput


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
    n, noise, rng = _check("make_sine", n, noise, random_state)
    x = np.sort(rng.uniform(0.0, 1.0, n))
    return x[:, None], np.sin(2 * np.pi * x) + noise * rng.standard_normal(n)


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
    n, noise, rng = _check("make_rings", n, noise, random_state)
    y = rng.permutation(np.arange(n) % check_size("make_rings", "rings", rings, 1))
    angle = rng.uniform(0.0, 2 * np.pi, n)
    radius = 1.0 + y + noise * rng.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def _check(
    owner: str, n: int, noise: float, random_state: int | np.random.Generator | None
) -> tuple[int, float, np.random.Generator]:
    n = check_size(owner, "n", n, 1)
    return n, check_number(owner, "noise", noise), np.random.default_rng(random_state)


def check_number(owner: str, name: str, value: float, high: float | None = None) -> float:
    """Return a finite number of at least 0 and at most ``high``, or refuse it by name."""
    number = isinstance(value, Real) and not isinstance(value, bool) and 0 <= value < np.inf
    if not number or (high is not None and value > high):
        legal = "a finite number >= 0" if high is None else f"a number from 0 to {high:g}"
        raise InvalidInput(f"{owner}: {name}={value!r}; give {legal}.")
    return float(value)


def check_size(owner: str, name: str, value: int, low: int) -> int:
    """Return a whole number of at least ``low``, or refuse it by name."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InvalidInput(f"{owner}: {name}={value!r}; give a whole number of {low} or more.")
    return int(value)


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
    >>> table.shape, progression.mean().round(1)
    ((442, 10), np.float64(152.1))
    """
    data = datasets.load_diabetes(scaled=False)
    columns: dict[str, np.ndarray] = {}
    for name, values in zip(data.feature_names, data.data.T, strict=True):
        columns[_DIABETES[name]] = values
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
    per_author = check_size("load_sentences", "per_author", per_author, 1)
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
