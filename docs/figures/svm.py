"""The figures of the page on support vector machines that show two classes in the plane."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plane
from scipy.spatial import ConvexHull
from sklearn.datasets import make_moons

from mercer import RBF, SVC, Laplacian, Linear, Polynomial
from mercer.datasets import make_rings
from mercer.errors import NotSeparable

__all__ = ["effect_of_c", "effect_of_kernel", "hard_margin", "margins", "path", "probabilities"]


def clouds(n: int = 70, apart: float = 2.6, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return two round clouds, `apart` standard deviations from one another."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 2)) * 0.8
    X += np.where(y[:, None] == 1, 0.5, -0.5) * apart * np.array([0.9, 0.5])
    return X, y


def moons(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Return two half moons with noise."""
    return make_moons(n, noise=0.28, random_state=4)


def margins(path: Path) -> None:
    """Draw margins and support vectors, of a line and of a curve."""
    figure, (left, right) = plane.new(2, 7.56, 3.98)
    X, y = clouds()
    model = SVC(Linear(), C=1.0).fit(X, y)
    plane.regions(left, model, (-3.4, 3.4, -3.0, 3.0))
    plane.points(left, X, y, model)
    left.set_title("Linear(), C = 1", loc="left", fontsize="medium")
    X, y = make_rings(110, noise=0.32, random_state=1)
    model = SVC(RBF(1.5), C=1.0).fit(X, y)
    plane.regions(right, model, (-3.4, 3.4, -3.0, 3.0))
    plane.points(right, X, y, model)
    right.set_title("RBF(1.5), C = 1", loc="left", fontsize="medium")
    plane.legend(figure)
    plane.save(figure, path)


def effect_of_c(path: Path) -> None:
    """Draw the same machine for three prices of a violation."""
    X, y = moons()
    figure, row = plane.new(3, 8.4, 3.05)
    for axes, C in zip(row, (0.1, 1.0, 1000.0), strict=True):
        model = SVC(RBF(0.7), C=C).fit(X, y)
        plane.regions(axes, model, (-1.9, 2.9, -1.6, 2.1))
        plane.points(axes, X, y, model, size=15)
        bound = int((model.support_kind_ == "bound").sum())
        count = f"{len(model.support_)} support vectors, {bound} at the bound"
        axes.set_title(f"C = {C:g}\n{count}", loc="left", fontsize="small")
    plane.legend(figure)
    plane.save(figure, path)


def effect_of_kernel(path: Path) -> None:
    """Draw three kernels, then three length scales of one."""
    X, y = moons()
    figure, row = plane.new(3, 8.4, 5.08, rows=2)
    kernels = {
        "Linear()": Linear(),
        "Polynomial(3)": Polynomial(3),
        "Laplacian(0.7)": Laplacian(0.7),
        "RBF(0.1)": RBF(0.1),
        "RBF(0.7)": RBF(0.7),
        "RBF(5)": RBF(5.0),
    }
    for axes, (name, kernel) in zip(row, kernels.items(), strict=True):
        model = SVC(kernel, C=1.0).fit(X, y)
        plane.regions(axes, model, (-1.9, 2.9, -1.6, 2.1))
        plane.points(axes, X, y, model, size=15)
        axes.set_title(name, loc="left", fontsize="medium")
    plane.legend(figure)
    plane.save(figure, path)


def hard_margin(path: Path) -> None:
    """Draw the nearest points of two hulls, and a point that two hulls share."""
    box = (-3.4, 3.4, -2.6, 2.6)
    figure, (left, right) = plane.new(2, 7.56, 3.27)
    X, y = clouds(26, apart=4.0, seed=7)
    model = SVC(Linear(), C=np.inf, tol=1e-6).fit(X, y)
    plane.regions(left, model, box)
    hulls(left, X, y)
    plane.points(left, X, y, model)
    a = np.zeros(len(X))
    a[model.support_] = np.abs(model.dual_coef_[0])
    ends = np.array([a[y == c] @ X[y == c] / a[y == c].sum() for c in (0, 1)])
    left.plot(*ends.T, color=plane.INK, lw=1.6, marker="D", ms=5, mfc="white", zorder=4)
    left.set_title("hard margin: midway between the hulls", loc="left", fontsize="medium")

    X, y = clouds(18, apart=2.2, seed=21)
    try:
        SVC(Linear(), C=np.inf).fit(X, y)
    except NotSeparable as error:
        proof = error.certificate
    hulls(right, X, y)
    plane.points(right, X, y)
    common = proof.positive_weights @ X[proof.positive]
    for rows, colour in ((proof.negative, 0), (proof.positive, 1)):
        for i in rows:
            right.plot(*np.stack([X[i], common], 1), color=plane.COLOURS[colour], lw=1.2, zorder=1)
    right.plot(*common, color=plane.INK, marker="D", ms=6, mfc="white", zorder=4)
    right.set(xlim=box[:2], ylim=box[2:], xticks=[], yticks=[], aspect="equal")
    right.set_title("not separable: a point of both hulls", loc="left", fontsize="medium")
    plane.save(figure, path)


def hulls(axes, X: np.ndarray, y: np.ndarray) -> None:
    """Draw the convex hull of each class."""
    for c in (0, 1):
        mine = X[y == c]
        corners = mine[ConvexHull(mine).vertices]
        axes.fill(*corners.T, facecolor=plane.COLOURS[c], alpha=0.13, zorder=0.5)
        axes.fill(*corners.T, fill=False, edgecolor=plane.COLOURS[c], lw=0.7, zorder=0.5)


def probabilities(path: Path) -> None:
    """Draw decision values and probabilities of the same machine."""
    X, y = moons(300)
    box = (-1.9, 2.9, -1.6, 2.1)
    model = SVC(RBF(0.7), C=1.0, probability=True, random_state=0).fit(X, y)
    figure, (left, right) = plane.new(2, 7.56, 3.4, width_ratios=(1.25, 1))
    x, t = np.linspace(*box[:2], plane.GRID), np.linspace(*box[2:], plane.GRID)
    grid = np.stack(np.meshgrid(x, t), axis=-1).reshape(-1, 2)
    p = model.predict_proba(grid)[:, 1].reshape(plane.GRID, plane.GRID)
    bands = left.contourf(x, t, p, levels=np.linspace(0, 1, 11), cmap=plane.blend(), zorder=0)
    f = model.decision_function(grid)
    left.contour(x, t, f.reshape(p.shape), levels=[0], colors=plane.INK, linewidths=1.4)
    plane.points(left, X, y, size=16)
    left.set(xlim=box[:2], ylim=box[2:], xticks=[], yticks=[], aspect="equal")
    left.set_title("probability of class +1", loc="left", fontsize="medium")
    figure.colorbar(bands, ax=left, ticks=np.linspace(0, 1, 6), shrink=0.85, pad=0.02)

    order = np.argsort(f)
    right.plot(f[order], p.ravel()[order], color=plane.INK, lw=1.4)
    f = model.decision_function(X)
    for c, (colour, marker) in enumerate(zip(plane.COLOURS, plane.MARKERS, strict=True)):
        mine = f[y == c]
        jitter = 0.03 * np.random.default_rng(c).uniform(-1, 1, len(mine))
        height = np.full(len(mine), c * 1.0) + jitter
        right.scatter(mine, height, s=9, c=colour, marker=marker, alpha=0.5, linewidths=0)
    right.axhline(0.5, color="#999999", lw=0.7, zorder=0)
    right.axvline(0.0, color="#999999", lw=0.7, zorder=0)
    right.set(ylim=(-0.06, 1.06), xlabel="$f(x) + b$", ylabel="probability")
    right.set_title("against the decision value", loc="left", fontsize="medium")
    right.spines[["top", "right"]].set_visible(False)
    plane.save(figure, path)


def path(path: Path) -> None:
    """Draw held-out accuracy and the number of support vectors along C."""
    X, y = moons(300)
    found = SVC(RBF(0.7), random_state=0).path(X, y, np.logspace(-2, 4, 31), cv=5)
    figure, (left, right) = plane.new(2, 7.56, 2.89)
    left.plot(found.Cs, found.scores, color=plane.COLOURS[0], lw=0.7, alpha=0.45)
    left.plot(found.Cs, found.mean_score, color=plane.COLOURS[0], lw=2)
    left.axvline(found.best_C, color=plane.INK, lw=0.9, ls=(0, (5, 3)))
    left.set_ylim(0.75, 1.0)
    left.set_title("accuracy on rows held out: folds and mean", loc="left", fontsize="medium")
    bound = [int((m.support_kind_ == "bound").sum()) for m in found.models]
    right.plot(found.Cs, found.n_support, color=plane.COLOURS[0], lw=2)
    right.plot(found.Cs, bound, color=plane.COLOURS[1], lw=2)
    right.axvline(found.best_C, color=plane.INK, lw=0.9, ls=(0, (5, 3)))
    right.text(2e4, found.n_support[-1], "all", color=plane.COLOURS[0], va="center")
    right.text(2e4, bound[-1], "at the bound", color=plane.COLOURS[1], va="center")
    right.set_title(f"support vectors of {len(y)} points", loc="left", fontsize="medium")
    right.set_ylim(0)
    for axes in (left, right):
        axes.set(xscale="log", xlabel="C", xlim=(1e-2, 1e4))
        axes.spines[["top", "right"]].set_visible(False)
    plane.save(figure, path)
