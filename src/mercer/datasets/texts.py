"""Real short texts that are on every machine: sentences from the documentation of numpy and kin."""

from __future__ import annotations

import importlib
import inspect
import re

import numpy as np

from mercer.datasets.generators import check_size

__all__ = ["load_sentences"]

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
