"""What a workload of the sweep is, and the data that all of them are made on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["PEER", "Cell", "Work", "Works", "blobs", "classes", "regression", "sizes", "width"]

Works = dict[str, Callable[[], Any]]  # of mercer, and of each peer by its name
PEER = "scikit-learn"


@dataclass(frozen=True)
class Work:
    """A kind of work: how it is made from settings, on which grid, and how they are drawn."""

    group: str
    make: Callable[..., Works]
    grid: tuple[dict[str, Any], ...]
    most: int = 4000  # rows of a workload drawn at random
    others: dict[str, tuple] = field(default_factory=dict)  # what else is drawn


@dataclass(frozen=True)
class Cell:
    """A work with its settings."""

    name: str
    group: str
    settings: dict[str, Any]
    make: Callable[..., Works]
    random: bool = False

    @property
    def title(self) -> str:
        """Work and settings in a line."""
        return " ".join([self.name, *(f"{k}={v}" for k, v in self.settings.items())])

    def works(self) -> Works:
        """Return what is to be timed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.make(**self.settings)


def sizes(*given: tuple[int, int], **more: Any) -> tuple[dict[str, Any], ...]:
    """Return settings of rows and columns, and others that all of them have."""
    return tuple({"n": n, "d": d, **more} for n, d in given)


# ---- data ----


def regression(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return standard normal rows and a smooth target with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, -1] + 0.3 * rng.standard_normal(n)
    return X, y


def classes(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two classes that overlap a little."""
    X, y = regression(n, d, seed)
    return X, (y > 0).astype(int)


def blobs(n: int, d: int, k: int = 5) -> np.ndarray:
    """Return points around k centres."""
    rng = np.random.default_rng(0)
    return 3.0 * rng.standard_normal((k, d))[rng.integers(0, k, n)] + rng.standard_normal((n, d))


def width(d: int) -> float:
    """Return the length scale that is scikit-learn's γ = 1/d."""
    return float((d / 2) ** 0.5)
