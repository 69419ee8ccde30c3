"""The figures of the page on prototypes: XOR, sparse functions, and the path of their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plane
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from sklearn.linear_model import LogisticRegression

from mercer import RBF, KernelMachine, KernelRidge, L1VMRegressor

__all__ = ["path", "sparse", "xor"]

CORNERS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
BOX = (-0.6, 1.6, -0.6, 1.6)


def cloud(n: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy corners of the unit square, opposite ones of one class."""
    rng = np.random.default_rng(seed)
    corner = np.arange(n) % 4
    return CORNERS[corner] + 0.17 * rng.standard_normal((n, 2)), np.isin(corner, (1, 2)).astype(int)


def wave(n: int = 90, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return a noisy wave whose second half is faster."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 10, n))
    return x[:, None], np.sin(x**2 / 8) + 0.15 * rng.standard_normal(n)


def xor(path: Path) -> None:
    """Draw logistic regression on the coordinates, and on four kernel values."""
    X, y = cloud()
    figure, (left, right) = plane.new(2, 7.0, 3.7)
    plain = LogisticRegression().fit(X, y)
    machine = KernelMachine(RBF(0.5), prototypes=CORNERS).fit(X, y)
    for axes, model, title in (
        (left, plain, "on the two coordinates"),
        (right, machine, "on kernel values with four prototypes"),
    ):
        plane.regions(axes, model, BOX, margins=False)
        for c in (0, 1):
            mine = X[y == c]
            axes.plot(*mine.T, plane.MARKERS[c], color=plane.COLOURS[c], ms=3.5, alpha=0.75)
        right_share = f"{100 * model.score(X, y):.0f} % right"
        axes.set_title(f"{title}\n{right_share}", loc="left", fontsize="medium")
    right.plot(*CORNERS.T, "X", color=plane.INK, ms=9, mec="white", label="prototypes")
    right.legend(loc="lower left", fontsize="small", framealpha=0.9)
    plane.save(figure, path)


def sparse(path: Path) -> None:
    """Draw one wave fitted with all points and with the few that the penalty keeps."""
    X, y = wave()
    grid = np.linspace(0, 10, 500)[:, None]
    figure, row = plane.new(2, 8.4, 3.2, sharey=True)
    ridge = KernelRidge(RBF(0.6), alpha=0.3, fit_intercept=True).fit(X, y)
    model = L1VMRegressor(RBF(0.6), alpha=0.3).fit(X, y)
    at = model.support_
    titles = (
        f"KernelRidge: {len(X)} of {len(X)} points",
        f"L1VMRegressor: {len(at)} of {len(X)} points",
    )
    for axes, fitted, title in zip(row, (ridge, model), titles, strict=True):
        axes.plot(X[:, 0], y, "o", color="#9A9A9A", ms=3)
        axes.plot(grid[:, 0], fitted.predict(grid), color=plane.COLOURS[0], lw=1.8)
        axes.set_title(title, loc="left", fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(xlabel="x", ylim=(-1.95, 1.55))
    height = model.predict(X[at])
    row[1].plot(
        X[at, 0], height, "X", color=plane.COLOURS[1], ms=7, mec="white", label="prototypes"
    )
    row[1].legend(loc="lower left", fontsize="small", frameon=False)
    plane.save(figure, path)


def path(path: Path) -> None:
    """Draw the weights and their number along the penalty."""
    X, y = wave()
    model = L1VMRegressor(RBF(0.6), prototypes="kmeans", n_prototypes=12, random_state=0)
    found = model.path(X, y, n_alphas=80, eps=3e-3)
    figure, (left, right) = plane.new(2, 8.4, 3.4)
    for x, weights in sorted(zip(found.prototypes[:, 0], found.coefs.T, strict=True)):
        left.semilogx(found.alphas, weights, color=colormaps["viridis"](x / 10.5), lw=1.6)
    scale = ScalarMappable(Normalize(0, 10.5), "viridis")
    figure.colorbar(scale, ax=left, label="place of the prototype", pad=0.02)
    left.set_title("weights of 12 prototypes", loc="left", fontsize="medium")
    new = np.linspace(0, 10, 400)
    truth = np.sin(new**2 / 8)
    errors = [np.sqrt(np.mean((m.predict(new[:, None]) - truth) ** 2)) for m in found.models]
    right.semilogx(found.alphas, found.n_nonzero, color=plane.INK, lw=1.6, drawstyle="steps-mid")
    right.set_title("prototypes in use, and error", loc="left", fontsize="medium")
    right.set_ylabel("prototypes in use")
    twin = right.twinx()
    twin.semilogx(found.alphas, errors, color=plane.COLOURS[1], lw=1.6)
    twin.set_ylabel("error of the fit (RMS)", color=plane.COLOURS[1])
    twin.set_ylim(0, None)
    right.set_ylim(0, None)
    twin.spines["top"].set_visible(False)
    for axes in (left, right):
        axes.set_xlabel("alpha")
        axes.invert_xaxis()
        axes.spines["top"].set_visible(False)
    left.spines["right"].set_visible(False)
    left.axhline(0, color=plane.INK, lw=0.6)
    plane.save(figure, path)
