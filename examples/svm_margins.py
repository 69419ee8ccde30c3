"""Margins, support vectors, C and ν in numbers, and a proof that two classes cannot be separated.

Run it with ``python examples/svm_margins.py``; it takes a few seconds.
"""

from __future__ import annotations

from textwrap import wrap

import numpy as np

from mercer import RBF, SVC, Linear, NuSVC
from mercer.errors import NotSeparable


def clouds(n: int, apart: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return two round clouds whose centres are so far apart."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    return rng.standard_normal((n, 2)) + 0.5 * apart * y[:, None] * [1, 0], y


def main() -> None:
    """Tell the story."""
    hard_margin()
    not_separable()
    price()
    share()


def hard_margin() -> None:
    """Clouds far apart: the widest street between them."""
    X, y = clouds(40, apart=6)
    model = SVC(Linear(), C=np.inf, tol=1e-8).fit(X, y)
    print("1. Two clouds far apart, hard margin")
    print(f"   margin {model.margin_:.4f}, held up by {len(model.support_)} of {len(y)} points:")
    for i in model.support_:
        value = model.decision_function(X[[i]])[0]
        print(f"      ({X[i, 0]:+.2f}, {X[i, 1]:+.2f})  class {y[i]:+d}  f + b = {value:+.4f}")
    w = model.coef_[0]
    distance = np.abs(X @ w + model.intercept_) / np.linalg.norm(w)
    print(f"   nearest point to the line, measured with a ruler: {distance.min():.4f}")
    rest = np.setdiff1d(np.arange(len(y)), model.support_)
    fewer = np.setdiff1d(np.arange(len(y)), rest[:30])
    again = SVC(Linear(), C=np.inf, tol=1e-8).fit(X[fewer], y[fewer])
    print(f"   margin without thirty points that are not among them: {again.margin_:.4f}\n")


def not_separable() -> None:
    """Clouds that overlap: no street at all, and why."""
    X, y = clouds(40, apart=3, seed=3)
    print("2. Two clouds that overlap, hard margin")
    try:
        SVC(Linear(), C=np.inf).fit(X, y)
    except NotSeparable as error:
        print("   " + "\n   ".join(wrap(str(error), 90)))
        proof = error.certificate
        means = []
        for rows, weights in (
            (proof.positive, proof.positive_weights),
            (proof.negative, proof.negative_weights),
        ):
            means.append(weights @ X[rows])
            terms = " + ".join(
                f"{w:.3f}·({x[0]:+.2f}, {x[1]:+.2f})" for w, x in zip(weights, X[rows], strict=True)
            )
            print(f"   class {y[rows[0]]:+d}: {terms}")
            print(f"             = ({means[-1][0]:+.6f}, {means[-1][1]:+.6f})")
        apart = np.linalg.norm(means[0] - means[1])
        print(f"   The same point, to {apart:.0e}. No line has it on both sides.\n")


def price() -> None:
    """What C does, and the bound on the leave-one-out error."""
    X, y = clouds(60, apart=2.5, seed=1)
    print("3. The price C of a violated margin, 60 points, RBF(2)")
    print("         C   margin   on the margin   at the bound   leave-one-out error   bound on it")
    for C in (0.01, 0.1, 1.0, 10.0, 100.0):
        model = SVC(RBF(2.0), C=C).fit(X, y)
        bound = int((model.support_kind_ == "bound").sum())
        wrong = sum(
            SVC(RBF(2.0), C=C).fit(np.delete(X, i, 0), np.delete(y, i)).predict(X[[i]])[0] != y[i]
            for i in range(len(y))
        )
        print(
            f"   {C:7g} {model.margin_:8.3f} {len(model.support_) - bound:15} {bound:14}"
            f" {wrong / len(y):21.2f} {model.loo_bound_:13.2f}"
        )
    print()


def share() -> None:
    """What ν means."""
    X, y = clouds(200, apart=2.5, seed=1)
    print("4. ν instead: at most this share is at the bound, at least this share supports")
    print("        ν   at the bound   support vectors   the same machine as C =")
    for nu in (0.2, 0.3, 0.5, 0.8):
        model = NuSVC(RBF(2.0), nu=nu).fit(X, y)
        bound = float((model.support_kind_ == "bound").sum() / len(y))
        total = len(model.support_) / len(y)
        print(f"   {nu:6g} {bound:14.3f} {total:17.3f} {float(model.C_):25.3g}")


if __name__ == "__main__":
    main()
