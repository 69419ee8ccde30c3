"""Where Lloyd's algorithm starts: points drawn far from one another, or at random."""

from __future__ import annotations

import numpy as np

from mercer.models.cluster.lloyd import Space, compare, fill_empty

__all__ = ["draw", "draw_points", "nearest_labels", "start_at"]


def draw_points(
    space: Space, k: int, rng: np.random.RandomState, *, spread: bool = True
) -> np.ndarray:
    """Return positions of k different points of positive weight, fewer where there are fewer.

    k-means++ (Arthur and Vassilvitskii 2007) draws each in proportion to weight times squared
    distance to those drawn before, and keeps of 2 + log k such draws the one that lowers the sum of
    squares most, as scikit-learn does. Without `spread` each is drawn in proportion to its weight.
    Draws run along the rows, so that a row of weight 2 is drawn as two rows after one another are.
    """
    w, lengths = space.weights, space.lengths
    trials = 2 + int(np.log(k)) if spread else 1
    chosen: list[int] = []
    left = np.full(len(w), np.inf)
    for _ in range(k):
        if not chosen:
            mass = w
        else:
            mass = w * left if spread else w * (left > 0)
        if not mass.any():
            break
        drawn = draw(mass, rng.random_sample(trials if chosen else 1))
        squares = lengths + lengths[drawn, None]
        floor = space.rounding * squares
        squares = squares - 2 * space.rows(drawn)
        squares[squares <= floor] = 0.0
        squares[np.arange(len(drawn)), drawn] = 0.0
        np.minimum(squares, left, out=squares)
        best = int(np.argmin(squares @ w))
        chosen.append(int(drawn[best]))
        left = squares[best]
    return np.array(chosen, dtype=np.int64)


def draw(mass: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Draw positions in proportion to mass; one of no mass never comes."""
    total = np.cumsum(mass / mass.max())
    drawn = np.searchsorted(total, u * total[-1], side="right")
    return np.minimum(drawn, int(np.flatnonzero(mass)[-1]))


def nearest_labels(space: Space, inner: np.ndarray, squares: np.ndarray, k: int) -> np.ndarray:
    """Return the clusters of centres given by ⟨φ(x), μ⟩ (k, n) and ‖μ‖² (k,), none of them empty.

    Parameters
    ----------
    space : Space
        The points.
    inner, squares : ndarrays
        The centres.
    k : int
        Number of clusters; more than centres where the rest is to be filled.
    """
    look = compare(inner, squares, space.lengths, None, space.rounding)
    return fill_empty(look, space.weights, k)


def start_at(space: Space, index: np.ndarray, k: int) -> np.ndarray:
    """Return the clusters around the points at these positions."""
    return nearest_labels(space, space.rows(index), space.lengths[index], k)
