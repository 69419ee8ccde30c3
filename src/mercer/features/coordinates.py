"""Principal coordinates: points of any kind as a few numbers, by a kernel that compares them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.errors import ModelFileError
from mercer.features.nystroem import Nystroem
from mercer.kernels import Kernel
from mercer.settings import get_config

#: Points that stand for all others, and the most coordinates that are kept.
LANDMARKS, COORDINATES = 1000, 100
NOTHING = 1e-10  # variance of a coordinate, relative to the largest, that says nothing
_HELD = 8 * 4  # bytes for each row and landmark: features, centred ones, and room beside them


class PrincipalCoordinates:
    """The directions of largest variance in the feature space of a kernel, found from landmarks.

    Rows are at a mean squared distance of 1 from one another, as two different categories are.

    Parameters
    ----------
    features : Nystroem
        The map to the span of the landmarks.
    rotation : ndarray of shape (m, c)
        From there to the coordinates.
    offset : ndarray of shape (c,)
        The coordinates of the mean, which are taken off.
    """

    def __init__(self, features: Nystroem, rotation: np.ndarray, offset: np.ndarray):
        self.features = features
        self.rotation = rotation
        self.offset = offset

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
        phi -= mean
        weighted = phi if weights is None else phi * weights[:, None]
        total = float(len(phi) if weights is None else weights.sum())
        variances, vectors = np.linalg.eigh(phi.T @ weighted / total)
        variances, vectors = variances[::-1][:COORDINATES], vectors[:, ::-1][:, :COORDINATES]
        kept = variances > NOTHING * max(float(variances[0]), 0.0)
        spread = 2.0 * float(variances[kept].sum())  # mean squared distance of two rows
        if not spread > 0:  # all points are one
            return cls(features, np.zeros((len(mean), 0)), np.zeros(0))
        rotation = np.ascontiguousarray(vectors[:, kept]) / np.sqrt(spread)
        return cls(features, rotation, mean @ rotation)

    @classmethod
    def from_parts(cls, features: Any, rotation: Any, offset: Any) -> Self:
        """Return what a model file describes, or refuse what is malformed."""
        legal = (
            type(features) is Nystroem
            and all(isinstance(a, np.ndarray) for a in (rotation, offset))
            and all(a.dtype == np.float64 and np.isfinite(a).all() for a in (rotation, offset))
            and rotation.shape == (features.n_components_, *offset.shape)
            and offset.ndim == 1
        )
        if not legal:
            raise ModelFileError("the coordinates of a column do not fit its landmarks")
        return cls(features, rotation, offset)

    def __len__(self) -> int:
        return len(self.offset)

    def __call__(self, points: list) -> np.ndarray:
        """Return the coordinates of points, one row for each."""
        return self.features.transform(points) @ self.rotation - self.offset
