"""The figures of components, clusters, densities and statistics, from the examples' data."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import plane

from mercer import PCA, RBF, DPMeans, KernelDensity, KernelPCA, SpectralClustering, penalty_from_k
from mercer.plot import (
    ClustersDisplay,
    DensityDisplay,
    DependenceDisplay,
    ProjectionDisplay,
    WitnessDisplay,
)
from mercer.statistics import mmd_test

__all__ = ["clusters", "density", "dependence", "rings", "witness"]

EXAMPLES = Path(__file__).parents[2] / "examples"


def _example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def witness(path: Path) -> None:
    """Draw two densities with their witness, and the null of the test."""
    x, y = _example("witness")["samples"]()
    figure, (left, right) = plane.new(2, 8.4, 3.3)
    WitnessDisplay.from_samples(x, y, RBF(0.3), labels=("normal", "Laplace"), ax=left)
    left.legend(frameon=False, fontsize="x-small")
    mmd_test(x, y, RBF(0.5), rng=0).plot(right)
    plane.save(figure, path)


def dependence(path: Path) -> None:
    """Draw six kinds of dependence."""
    data = _example("dependence")["shapes"]()
    figure, axes = plane.new(3, 9.6, 5.6, rows=2)
    for ax, (name, (x, y)) in zip(axes, data.items(), strict=True):
        DependenceDisplay.from_samples(x, y, ax=ax, point_kwargs={"s": 5})
        found = ax.get_title()
        ax.set_title("")
        ax.set_title(f"{name}: {found}", fontsize="x-small", loc="left")
    plane.save(figure, path)


def rings(path: Path) -> None:
    """Draw two rings on linear components and on those of an RBF kernel."""
    X, ring = _example("rings")["rings"]()
    names = np.array(["inner", "outer"])[ring]
    figure, (left, right) = plane.new(2, 8.4, 3.6)
    ProjectionDisplay.from_estimator(PCA(2).fit(X), X, names, ax=left)
    ProjectionDisplay.from_estimator(KernelPCA(2, RBF(1.5)).fit(X), X, names, ax=right)
    left.set_title("linear", loc="left", fontsize="medium")
    right.set_title("RBF", loc="left", fontsize="medium")
    plane.save(figure, path)


def clusters(path: Path) -> None:
    """Draw clusters that DP-means found, and moons told apart."""
    X, _ = _example("how_many_clusters")["points"]()
    rng = np.random.default_rng(0)
    angle = np.pi * rng.uniform(size=200)
    upper = np.c_[np.cos(angle), np.sin(angle)]
    lower = np.c_[1 - np.cos(angle), 0.5 - np.sin(angle)]
    moons = np.where((np.arange(200) % 2 == 0)[:, None], upper, lower)
    moons = moons + 0.06 * rng.normal(size=(200, 2))
    figure, (left, right) = plane.new(2, 8.4, 3.6)
    ClustersDisplay.from_estimator(DPMeans(penalty_from_k(X, 5)).fit(X), X, ax=left)
    left.get_legend().remove()
    model = SpectralClustering(2, RBF(0.15), random_state=0).fit(moons)
    ClustersDisplay.from_estimator(model, moons, ax=right)
    plane.save(figure, path)


def density(path: Path) -> None:
    """Draw three bandwidths over the true density."""
    told = _example("density")
    X = told["draw_points"](np.random.default_rng(0))
    grid = np.linspace(-6, 4, 600)
    figure, axes = plane.new(3, 9.6, 3.1, sharey=True)
    for ax, width in zip(axes, (2.0, "loo", 0.02), strict=True):
        DensityDisplay.from_estimator(KernelDensity(width).fit(X), X, resolution=600, ax=ax)
        ax.plot(grid, told["truth"](grid), "--", color=plane.COLOURS[1], lw=1.2, label="truth")
        ax.set_title(f"bandwidth {width}", loc="left", fontsize="medium")
        ax.legend(frameon=False, fontsize="x-small")
    plane.save(figure, path)
