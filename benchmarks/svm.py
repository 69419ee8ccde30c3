"""Support vector machines against scikit-learn's (LIBSVM) and scikit-learn-intelex's (oneDAL).

Same process, same data, same tolerance, every program with the defaults it comes with. The notes
give each answer's dual objective, recomputed in float64: an answer is only as fast as it is good.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from duals import classification_dual, regression_dual
from sklearn import svm as sklearn_svm
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification as sample,
)
from sklearn.preprocessing import StandardScaler
from timing import Row, best_of

from mercer import RBF, SVC, SVR

try:
    from sklearnex import svm as intel_svm
except ImportError:
    intel_svm = None

__all__ = ["rows"]

TOL = 1e-3
PATIENCE = 40.0  # seconds for all rounds of one program
LIBSVM, INTEL = "scikit-learn", "scikit-learn-intelex"


def rows() -> list[Row]:
    """Time everything; about ten minutes on two cores, most of them scikit-learn's."""
    out = [*classes(), *digits(), *regression(), *small(), *path(), *growth(), *memory()]
    if intel_svm is None:
        out[0].note += f"; {INTEL} is not installed, its rows are left out"
    return out


# -- data ---------------------------------------------------------------------------------------
def problem(n: int, d: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of the figures: 10 informative columns, 4 clusters each, 5 % flipped."""
    X, y = sample(n, d, n_informative=10, n_clusters_per_class=4, flip_y=0.05, random_state=0)
    return StandardScaler().fit_transform(X), y


def rbf(gamma: float) -> RBF:
    """Return the kernel exp(−γ‖x − x′‖²)."""
    return RBF(length_scale=(1 / (2 * gamma)) ** 0.5)


def spread(X: np.ndarray) -> float:
    """Return scikit-learn's gamma="scale"."""
    return float(1 / (X.shape[1] * X.var()))


# -- ours and theirs ----------------------------------------------------------------------------
def machines(name: str, gamma: float, **options: Any) -> dict[str, Callable[[], Any]]:
    """Return makers of unfitted machines: mercer's first, then those of the peers."""
    ours = {"SVC": SVC, "SVR": SVR}[name]
    out = {"mercer": lambda: ours(rbf(gamma), tol=TOL, **options)}
    for peer, module in ((LIBSVM, sklearn_svm), (INTEL, intel_svm)):
        if module is not None:
            theirs = getattr(module, name)
            out[peer] = lambda theirs=theirs: theirs(gamma=gamma, tol=TOL, **options)
    return out


def compare(
    work: str, times: dict[str, float], note: str = "", wanted: dict[str, float] | None = None
) -> list[Row]:
    """Return one row for each peer; `wanted` is how many times as long each is to take."""
    ours, out = times["mercer"], []
    for peer, seconds in times.items():
        if peer != "mercer":
            goal = f"wanted ≥ {wanted[peer]:g}×" if wanted and peer in wanted else ""
            out.append(Row(work, ours, seconds, peer, note="; ".join(filter(None, (goal, note)))))
            note = ""
    return out


def race(rounds: int, works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Time the works one after the other, each several times in a row, best of each.

    In a row, because some of them use a gigabyte: fresh memory may cost more than the fit, and a
    minute after its release memory is fresh again on a virtual machine.
    """
    out = {}
    for name, work in works.items():
        times: list[float] = []
        while len(times) < rounds and (not times or sum(times) + min(times) < PATIENCE):
            times += best_of(1, work)
        out[name] = min(times)
    return out


def fits(makers: dict[str, Callable[[], Any]], X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return works that fit."""
    return {name: lambda make=make: make().fit(X, y) for name, make in makers.items()}


def say_duals(models: dict[str, Any], dual: Callable[[Any], float]) -> str:
    """Return the objectives as words: ours, and theirs relative to it."""
    values = {name: dual(model) for name, model in models.items()}
    best = values.pop("mercer")
    others = ", ".join(f"{name} {(v - best) / abs(best):+.1e}" for name, v in values.items())
    return f"dual {best:.6g}, {others}"


# -- the figures --------------------------------------------------------------------------------
def classes(n: int = 20000, d: int = 100, new: int = 5000, rounds: int = 6) -> list[Row]:
    """Two classes, n=20000, d=100: fit, and prediction of 5000 rows."""
    X, y = problem(n + new, d)
    X, y, Z, z = X[:n], y[:n], X[n:], y[n:]
    makers = machines("SVC", 0.01, C=1.0)
    times = race(rounds, fits(makers, X, y))
    models = {name: make().fit(X, y) for name, make in makers.items()}
    note = say_duals(models, lambda m: classification_dual(m, 0.01))
    note += f"; gap {models['mercer'].solution_.gap:.1e}, {len(models['mercer'].support_)} SVs"
    out = compare(f"SVC.fit n={n} d={d}", times, note, {LIBSVM: 10, INTEL: 2.2})

    works = {name: lambda model=model: model.predict(Z) for name, model in models.items()}
    scores = ", ".join(f"{name} {np.mean(m.predict(Z) == z):.4f}" for name, m in models.items())
    times = race(rounds, works)
    out += compare(f"SVC.predict {new} rows", times, f"accuracy {scores}", {LIBSVM: 12, INTEL: 1})
    return out


def digits(copies: int = 5, rounds: int = 6) -> list[Row]:
    """Ten classes: the digits of scikit-learn several times over, with noise."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    X, y = np.tile(X / 16, (copies, 1)), np.tile(y, copies)
    X += 0.15 * rng.standard_normal(X.shape)
    gamma = spread(X)
    makers = machines("SVC", gamma, C=1.0)
    times = race(rounds, fits(makers, X, y))
    models = {name: make().fit(X, y) for name, make in makers.items()}
    note = say_duals(models, lambda m: classification_dual(m, gamma))
    return compare(
        f"SVC.fit digits ×{copies} n={len(y)}, 10 classes", times, note, {LIBSVM: 1.5, INTEL: 1.5}
    )


def regression(n: int = 10000, d: int = 10, rounds: int = 6) -> list[Row]:
    """Regression with the ε-insensitive loss."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + 0.1 * rng.standard_normal(n)
    makers = machines("SVR", 0.1, C=1.0, epsilon=0.1)
    times = race(rounds, fits(makers, X, y))
    models = {name: make().fit(X, y) for name, make in makers.items()}
    note = say_duals(models, lambda m: regression_dual(m, 0.1, y, 0.1))
    return compare(f"SVR.fit n={n} d={d}", times, note, {LIBSVM: 4, INTEL: 2})


def small(rounds: int = 30) -> list[Row]:
    """Tables of a few hundred rows: overhead is all there is. Breast cancer: 500 of its 569."""
    out = []
    for name, load in {
        "iris": load_iris,
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
    }.items():
        X, y = load(return_X_y=True)
        keep = np.random.default_rng(0).permutation(len(y))[:500]
        X, y = StandardScaler().fit_transform(X[keep]), y[keep]
        gamma = spread(X)
        makers = machines("SVC", gamma, C=1.0)
        times = race(rounds, fits(makers, X, y))
        models = {maker: make().fit(X, y) for maker, make in makers.items()}
        beyond = 1000 * (times["mercer"] - times[LIBSVM])
        note = f"{beyond:+.2f} ms, wanted ≤ 2× and ≤ +5 ms; "
        note += say_duals(models, lambda m, gamma=gamma: classification_dual(m, gamma))
        out += compare(f"SVC.fit {name} n={len(y)}", times, note)
    return out


def path(n: int = 10000, d: int = 100, points: int = 20, rounds: int = 2) -> list[Row]:
    """20 values of C with warm starts, against one fit at the middle one, and against 20 fits."""
    X, y = problem(n, d)
    Cs = np.logspace(-2, 2, points)
    middle = float(Cs[points // 2])
    along, one, last, every = best_of(
        rounds,
        lambda: SVC(rbf(0.01), tol=TOL).path(X, y, Cs),
        lambda: SVC(rbf(0.01), C=middle, tol=TOL).fit(X, y),
        lambda: SVC(rbf(0.01), C=float(Cs[-1]), tol=TOL).fit(X, y),
        lambda: [SVC(rbf(0.01), C=float(C), tol=TOL).fit(X, y) for C in Cs],
    )
    note = (
        f"wanted ≤ 4 single fits; it is {along / last:.1f} fits at C={Cs[-1]:g} ({last:.3f} s), "
        f"{points * along / every:.1f} mean fits"
    )
    return [
        Row(
            f"SVC.path {points} C from {Cs[0]:g} to {Cs[-1]:g} n={n}",
            along,
            every,
            f"{points} cold fits",
            one,
            f"one fit, C={middle:.2g}",
            note,
        )
    ]


def growth(
    sizes: tuple[int, ...] = (5000, 10000, 20000, 40000), up_to: int = 20000, d: int = 100
) -> list[Row]:
    """How time grows with n. scikit-learn stops at `up_to`: a double n takes minutes there."""
    times: dict[str, dict[int, float]] = {"mercer": {}, LIBSVM: {}, INTEL: {}}
    makers = machines("SVC", 0.01, C=1.0)
    for n in sizes:
        X, y = problem(n, d)
        works = fits({k: m for k, m in makers.items() if n <= up_to or k != LIBSVM}, X, y)
        for name, seconds in race(2 if n <= 20000 else 1, works).items():
            times[name][n] = seconds
    said = []
    for name, found in times.items():
        if len(found) > 1:
            slope = np.polyfit(np.log(list(found)), np.log(list(found.values())), 1)[0]
            listed = ", ".join(f"{t:.2f}" for t in found.values())
            said.append(f"{name} n^{slope:.2f} ({listed} s to n={max(found)})")
    most = max(times[LIBSVM])
    note = "; ".join(said)
    return [
        Row(
            f"SVC.fit n={most} of {min(sizes)} … {max(sizes)}",
            times["mercer"][most],
            times[LIBSVM][most],
            LIBSVM,
            note=note,
        )
    ]


CHILD = """
import json, sys, time
sys.path.insert(0, sys.argv[3])
import mercer, svm

def status(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) / 1000

n = int(sys.argv[1])
svm.SVC(svm.rbf(0.01)).fit(*svm.problem(4000))
X, y = svm.problem(n)
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
with mercer.config(memory=sys.argv[2]):
    start = time.perf_counter()
    model = svm.SVC(svm.rbf(0.01), tol=svm.TOL).fit(X, y)
    seconds = time.perf_counter() - start
    peak = status("VmHWM") - before
    model.predict(X[:5000])
s = model.solution_
print(json.dumps([seconds, peak, status("VmHWM") - before, s.converged, s.gap / s.dual]))
"""


def memory(n: int = 50000, budget: str = "1GB") -> list[Row]:
    """A fit whose Gram matrix is many times the budget, in a process of its own."""
    here = str(Path(__file__).parent)
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(n), budget, here],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, fit, both, converged, gap = json.loads(child.stdout)
    note = (
        f"peak {fit:.0f} MB beyond the data, {both:.0f} MB with a prediction, budget {budget}; "
        f"converged {converged}, relative gap {gap:.0e}"
    )
    return [Row(f"SVC.fit n={n} inside {budget}", seconds, note=note)]
