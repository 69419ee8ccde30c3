"""Exact shares of columns beside explainers that draw, and beside the one other exact one.

    python benchmarks/explain.py

Peers are timed where they are installed (``pip install shap shapiq``) on the same scikit-learn
machine: shap.KernelExplainer on a few rows, with as many evaluations as it takes by default, and
the explainer of product kernels of shapiq, whose game is the baseline. Their differences from the
exact shares are told beside the times.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import svm

import mercer
from mercer import RBF, Function

ROWS, PEER_ROWS = 200, 2


def seconds(work: Callable[[], Any], rounds: int = 3) -> tuple[float, Any]:
    """Return the least time of a few rounds, and what came out."""
    best, out = float("inf"), None
    for _ in range(rounds):
        began = time.perf_counter()
        out = work()
        best = min(best, time.perf_counter() - began)
    return best, out


def machines() -> tuple[Any, Any, np.ndarray]:
    """Return an SVC of some 500 support vectors in 20 columns, its peer, and rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 1.0 * rng.normal(size=1000) > 0
    ours = mercer.SVC(RBF(5.0), C=3.0).fit(X, y)
    return ours, svm.SVC(gamma=0.5 / 5.0**2, C=3.0).fit(X, y), X


def line(what: str, took: float, rows: int, note: str = "") -> None:
    """Print a line of the table."""
    print(f"{what:58}{took:9.3f} s{1000 * took / rows:12.2f} ms a row  {note}", flush=True)


def main() -> None:
    """Print the table."""
    ours, theirs, X = machines()
    rows, behind = X[:ROWS], X[500:600]
    print(f"SVC, {len(ours.function_)} support vectors, d=20")
    exact = {}
    for game in ("background", "marginal", "baseline"):
        given = {} if game == "baseline" else {"background": behind}
        took, told = seconds(lambda g=game, b=given: ours.explain(rows, game=g, **b))
        off = np.abs(told.totals - ours.decision_function(rows)).max()
        line(f"mercer, {game}, {ROWS} rows", took, ROWS, f"Σφ + base − f: {off:.0e}")
        exact[game] = took / ROWS, told.values
    took, _ = seconds(lambda: ours.explain(rows, background=behind, interactions=True), 1)
    line("mercer, marginal, with all pairs", took, ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        beside(exact, theirs, rows, behind)

    rng = np.random.default_rng(1)
    f = Function(RBF(6.0), rng.normal(size=(10_000, 30)), rng.normal(size=10_000))
    new = rng.normal(size=(200, 30))
    for count in (50, 200):  # a table of means over the background is made once a call
        took, _ = seconds(lambda m=count: f.explain(new[:m], background=f.points[:500]), 2)
        line(f"f of 10,000 points, d=30, marginal, {count} rows", took, count)
    model = mercer.GaussianProcessRegressor(RBF(6.0), noise=0.1, optimizer=None)
    some = f.points[:50]
    model.fit(f.points[:1000], np.sin(f.points[:1000, 0]))
    for game in ("marginal", "background"):
        took, _ = seconds(lambda g=game: model.explain(new[:20], game=g, background=some), 1)
        line(f"process of 1000 rows, d=30, {game}, with deviations", took, 20)


def beside(exact: Any, theirs: Any, rows: np.ndarray, behind: np.ndarray) -> None:
    """Time the peers that are there, on a few rows."""
    some = rows[:PEER_ROWS]
    try:
        import shap
    except ImportError:
        print("shap is not installed")
    else:
        explainer = shap.KernelExplainer(theirs.decision_function, behind)
        took, drawn = seconds(lambda: explainer.shap_values(some, silent=True), 1)
        each, values = exact["background"]
        error = np.abs(drawn - values[: len(some)]).max() / np.abs(values[: len(some)]).max()
        ratio = took / PEER_ROWS / each
        line("shap.KernelExplainer", took, PEER_ROWS, f"{ratio:.0f} ×, differs by {error:.1%}")
    try:
        from shapiq.explainer.product_kernel.explainer import ProductKernelExplainer
    except ImportError:
        print("shapiq is not installed")
    else:
        explainer = ProductKernelExplainer(theirs, max_order=1)
        took, told = seconds(lambda: [explainer.explain_function(x) for x in some], 1)
        each, values = exact["baseline"]
        found = np.array([[one[(j,)] for j in range(some.shape[1])] for one in told])
        error = np.abs(found - values[: len(some)]).max() / np.abs(values[: len(some)]).max()
        ratio = took / PEER_ROWS / each
        line(
            "shapiq's explainer of product kernels", took, PEER_ROWS, f"{ratio:.0f} ×, {error:.0e}"
        )


if __name__ == "__main__":
    main()
