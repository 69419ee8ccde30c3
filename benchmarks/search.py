"""Grid searches, n=3000: `mercer.search` against GridSearchCV with scikit-learn's models.

Same process, data, folds and grids. The notes say whether both chose the same point, and how far
their scores are apart.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.kernel_ridge import KernelRidge as PeerRidge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as PeerSVC
from timing import Row

from mercer import RBF, SVC, KernelRidge, search

__all__ = ["rows"]


def rows(n: int = 3000) -> list[Row]:
    """Time both searches; about three minutes on two cores, nearly all of them scikit-learn's."""
    return [ridge(n), margin(n)]


def ridge(n: int, d: int = 10) -> Row:
    """10 penalties × 5 folds × 5 length scales for ridge regression."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.1 * rng.standard_normal(n)
    gammas, alphas = np.logspace(-3, 1, 5), np.logspace(-3, 2, 10)
    scales = np.sqrt(0.5 / gammas)
    return _compare(
        f"search ridge {len(alphas)} alphas × 5 folds × {len(scales)} scales n={n}",
        (KernelRidge(RBF()), {"kernel__length_scale": scales, "alpha": alphas}),
        (PeerRidge(kernel="rbf"), {"gamma": gammas, "alpha": alphas}),
        (X, y),
        10,
    )


def margin(n: int, d: int = 20) -> Row:
    """10 C × 5 folds × 3 length scales for support vector classification."""
    X, y = make_classification(
        n, d, n_informative=8, n_clusters_per_class=4, flip_y=0.05, random_state=0
    )
    X = StandardScaler().fit_transform(X)
    scales, Cs = np.array([0.5, 1.0, 2.0]) * d**0.5, np.geomspace(0.03, 300.0, 10)
    return _compare(
        f"search SVC {len(Cs)} C × 5 folds × {len(scales)} scales n={n}",
        (SVC(RBF()), {"kernel__length_scale": scales, "C": Cs}),
        (PeerSVC(), {"gamma": 0.5 / scales**2, "C": Cs}),
        (X, y),
        5,
    )


def _compare(work: str, ours: tuple, theirs: tuple, data: tuple, wanted: float) -> Row:
    """Time one search of each; the names of their parameters differ, the order of points does not.

    A grid is run through in the order of the sorted names of its parameters; the scores of the peer
    are put into ours.
    """
    search(*_smaller(ours), *_smaller_data(data))  # compiled code is loaded once a process
    began = time.perf_counter()
    found = search(*ours, *data)
    middle = time.perf_counter()
    peer = GridSearchCV(*theirs).fit(*data)
    end = time.perf_counter()
    order = _order(ours[1], theirs[1])
    scores = peer.cv_results_["mean_test_score"][order]
    apart = float(np.abs(found.results_["mean_test_score"] - scores).max())
    same = int(order[found.best_index_]) == int(peer.best_index_)
    note = f"wanted ≥ {wanted:g}×; {'the same' if same else 'ANOTHER'} point chosen, "
    note += f"mean scores at most {apart:.1e} apart; best {found.best_score_:.5f}"
    return Row(work, middle - began, end - middle, "GridSearchCV", note=note)


def _order(ours: dict[str, Any], theirs: dict[str, Any]) -> np.ndarray:
    """Return for each of our points the place of the same point in the peer's order."""
    mine, other = sorted(ours), sorted(theirs)
    shapes = [len(theirs[name]) for name in other]
    pairs = dict(zip(ours, theirs, strict=True))  # the dicts list the same things
    at = np.arange(np.prod(shapes)).reshape(shapes)
    return at.transpose([other.index(pairs[name]) for name in mine]).ravel()


def _smaller(ours: tuple) -> tuple:
    model, grid = ours
    return model, {name: values[:2] for name, values in grid.items()}


def _smaller_data(data: tuple) -> tuple:
    return tuple(part[:600] for part in data)
