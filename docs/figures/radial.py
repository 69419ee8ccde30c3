"""The figure of the page "Choosing a kernel": radial profiles, and a random function of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mercer import RBF, Matern, RationalQuadratic
from mercer.solvers import factor

__all__ = ["draw"]

KERNELS = {
    "Matern(nu=0.5)": Matern(nu=0.5),
    "Matern(nu=1.5)": Matern(nu=1.5),
    "Matern(nu=2.5)": Matern(nu=2.5),
    "RBF()": RBF(),
    "RationalQuadratic(alpha=0.5)": RationalQuadratic(alpha=0.5),
}
# Okabe and Ito's palette, told apart also by people who do not see all colours.
COLOURS = ("#D55E00", "#E69F00", "#009E73", "#0072B2", "#CC79A7")


def draw(path: Path) -> None:
    """Draw the figure into a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    _profiles(left)
    _samples(right)
    figure.get_layout_engine().set(wspace=0.08)
    figure.savefig(path, dpi=160, metadata={"Software": None})


def _profiles(axes) -> None:
    r = np.linspace(0.0, 4.0, 401)[:, None]
    for (name, kernel), colour in zip(KERNELS.items(), COLOURS, strict=True):
        axes.plot(r, kernel(r, [[0.0]])[:, 0], color=colour, label=name)
    axes.set(xlim=(0, 4), ylim=(0, 1.02), xticks=range(5), xlabel="$r$", ylabel="$k$")
    axes.set_title("kernel value at distance $r$, $\\ell = 1$", loc="left")
    axes.legend(frameon=False, fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)


def _samples(axes) -> None:
    """Draw f ~ N(0, K) for each kernel, from the same random numbers."""
    x = np.linspace(0.0, 10.0, 801)[:, None]
    z = np.random.default_rng(7).standard_normal(len(x))
    for i, ((name, kernel), colour) in enumerate(zip(KERNELS.items(), COLOURS, strict=True)):
        f = factor(kernel(x), owner=name).lower() @ z
        axes.plot(x, f - 4.5 * i, color=colour, linewidth=1.0)
        axes.text(10.15, f[-1] - 4.5 * i, name, color=colour, va="center", fontsize="small")
    axes.set(xlim=(0, 10), xticks=range(0, 11, 2), yticks=[], xlabel="$x$")
    axes.set_title("a random function of covariance $k$", loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)


if __name__ == "__main__":
    draw(Path("radial.png"))
