"""The figure of a learned metric: patients on its two directions, and shares of the columns."""

from __future__ import annotations

from pathlib import Path

import plane

import mercer
from mercer.plot import ImportancesDisplay, MetricDisplay

__all__ = ["diabetes"]


def diabetes(path: Path) -> None:
    """Draw what the default for tables has learned of diabetes."""
    patients, progression = mercer.datasets.load_diabetes_table()
    model = mercer.TableRegressor().fit(patients, progression)
    figure, (left, right) = plane.new(2, 9.6, 3.9, width_ratios=(1.35, 1.0))
    shown = MetricDisplay.from_estimator(model, patients, progression, ax=left)
    shown.points_[0].colorbar.set_label("progression")
    ImportancesDisplay.from_estimator(model, ax=right)
    plane.save(figure, path)
