"""Figures of the page on explanations: shares of a row and of all rows, of pairs, effects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plane
from sklearn.datasets import load_diabetes

import mercer
from mercer.plot import PairsDisplay

__all__ = ["effects", "pairs", "shares"]


def _explained(**options: Any) -> Any:
    """Return the explanation of all patients by the ridge regression of the page."""
    data = load_diabetes(as_frame=True)
    model = mercer.KernelRidge(mercer.RBF("median"), alpha="loo").fit(data.data, data.target)
    return model.explain(data.data, background=data.data, **options)


def shares(path: Path) -> None:
    """Draw the shares of one patient, and those of all."""
    told = _explained()
    figure, (left, right) = plane.new(2, 9.6, 3.9)
    told.plot(row=0, ax=left, max_columns=8)
    told.plot("beeswarm", ax=right)
    plane.save(figure, path)


def pairs(path: Path) -> None:
    """Draw what two columns do together."""
    figure, (ax,) = plane.new(1, 5.6, 4.4)
    PairsDisplay.from_explanation(_explained(interactions=True), ax=ax)
    plane.save(figure, path)


def effects(path: Path) -> None:
    """Draw the largest components of a process on some of the patients."""
    data = load_diabetes(as_frame=True)
    kernel = mercer.Additive(mercer.RBF("median"), order=2)
    process = mercer.GaussianProcessRegressor(kernel, mean="constant")
    process.fit(data.data[:150], data.target[:150])
    figure, axes = plane.new(3, 9.6, 5.2, rows=2)
    mercer.effects(process).plot(ax=axes)
    plane.save(figure, path)
