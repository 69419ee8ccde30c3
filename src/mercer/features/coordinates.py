"""Principal coordinates: points of any kind as numbers, by a kernel that compares them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.errors import ModelFileError
from mercer.features.nystroem import Nystroem
from mercer.kernels import Kernel
from mercer.settings import get_config

LANDMARKS = 1000  # points at most that stand for all others
NOTHING = 1e-10  # variance of a coordinate, relative to k(x, x), that says nothing
_HELD = 8 * 4  # bytes for each row and landmark: features, centred ones, and room beside them


class PrincipalCoordinates:
    """The directions of largest variance in the feature space of a kernel, found from landmarks.

    The last coordinate is the distance from the span of the others, so that new points are as far
    from known ones as the kernel says. Rows are at a mean squared distance of 1 from one another,
    as two different categories are.

    Parameters
    ----------
    features : Nystroem
        The map to the span of the landmarks.
    mean : ndarray of shape (m,)
        The mean of the points there.
    rotation : ndarray of shape (m, c)
        From there to the coordinates, directions of length 1.
    scale : float
        What all distances are multiplied with.
    """

    def __init__(self, features: Nystroem, mean: np.ndarray, rotation: np.ndarray, scale: float):
        self.features = features
        self.mean = mean
        self.rotation = rotation
        self.scale = scale

    @classmethod
    def of(cls, kernel: Kernel, points: list, weights: np.ndarray | None) -> Self:
        """Return the coordinates of points; one of weight 0 is left out."""
        if weights is not None:
            points = [x for x, w in zip(points, weights, strict=True) if w > 0]
            weights = weights[weights > 0]
        most = max(2, get_config().memory // (_HELD * len(points)))
        features = Nystroem(kernel, n_components=min(LANDMARKS, most), random_state=0)
        phi = np.asarray(features.fit_transform(points, sample_weight=weights))
        mean = np.average(phi, axis=0, weights=weights)
        lengths = np.average(features.kernel_.diag(points), weights=weights)
        spread = 2.0 * float(lengths - mean @ mean)  # mean squared distance of two rows
        phi -= mean
        weighted = phi if weights is None else phi * (weights / weights.mean())[:, None]
        variances, vectors = np.linalg.eigh(phi.T @ weighted / len(phi))
        kept = np.flatnonzero(variances > NOTHING * float(lengths))[::-1]  # the largest first
        scale = spread**-0.5 if len(kept) else 0.0  # all points may be one
        return cls(features, mean, np.ascontiguousarray(vectors[:, kept]), scale)

    @classmethod
    def from_parts(cls, features: Any, mean: Any, rotation: Any, scale: Any) -> Self:
        """Return what a model file describes, or refuse what is malformed."""
        legal = (
            type(features) is Nystroem
            and all(isinstance(a, np.ndarray) for a in (mean, rotation))
            and all(a.dtype == np.float64 and np.isfinite(a).all() for a in (mean, rotation))
            and mean.shape == (features.n_components_,)
            and rotation.shape[:-1] == mean.shape
            and isinstance(scale, float)
            and 0 <= scale < np.inf
        )
        if not legal:
            raise ModelFileError("the coordinates of a column do not fit its landmarks")
        return cls(features, mean, rotation, scale)

    def __len__(self) -> int:
        return self.rotation.shape[1] + 1

    def __call__(self, points: list) -> np.ndarray:
        """Return the coordinates of points, one row for each."""
        phi = self.features.transform(points)
        beyond = self.features.kernel_.diag(points) - np.einsum("ij,ij->i", phi, phi)
        phi -= self.mean
        inside = phi @ self.rotation
        beyond += np.einsum("ij,ij->i", phi, phi) - np.einsum("ij,ij->i", inside, inside)
        return self.scale * np.column_stack([inside, np.sqrt(np.maximum(beyond, 0.0))])
