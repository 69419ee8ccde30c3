"""The mode of a posterior of latent values by Newton's method with factors that serve twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer.engines.threads import times

__all__ = ["CONVERGED", "LOOSE", "TIGHT", "Mode", "Problem", "distance", "find_mode", "unconverged"]

#: A mode is taken as found where it is off by less than this part of its length.
CONVERGED = 1e-6
#: How near to come: in the end, and on the way of a search for parameters.
TIGHT, LOOSE = 1e-11, 1e-8
#: A step with an old factor must cut the residual to this part, or a new factor is made.
CHORD = 0.5
HALVINGS = 40
#: Changes of the objective below this part of it are rounding.
ROUNDING = 1e-13
#: Latent values that differ from 0 by less than this are small.
SMALL = 0.01
EPS = float(np.finfo(float).eps)


class Problem(Protocol):
    """A likelihood of labels given latent values f of shape (n,) or (n, C)."""

    def log_likelihood(self, f: np.ndarray) -> float:
        """Return log p(labels | f)."""

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return ∇ log p, of the shape of f."""

    def factor(self, f: np.ndarray) -> Any:
        """Return what applies (K + W⁻¹)⁻¹ with W = −∇∇ log p at f, as a method ``apply``."""

    def tangent(self, f: np.ndarray) -> np.ndarray:
        """Return ∇ log p + W f at f."""


@dataclass(frozen=True)
class Mode:
    """Where Newton's method ended: f = K coef, the objective there, and how it went."""

    coef: np.ndarray
    f: np.ndarray
    objective: float
    steps: int


def find_mode(
    K: np.ndarray,
    problem: Problem,
    shape: tuple[int, ...],
    start: np.ndarray | None = None,
    tol: float = TIGHT,
    max_iter: int = 100,
) -> Mode:
    """Maximise log p(labels | f) − ½ Σ aᵀf over a, f = Ka.

    The mode solves a = ∇log p(f). Newton's step on it is δ = −(F − RKF) with F = a − ∇log p and
    R = (K + W⁻¹)⁻¹ (Rasmussen & Williams, algorithms 3.1 and 3.3, written for the step instead of
    the point). The factor of one step serves the next ones while the residual falls quickly, so
    that a good start needs one factorisation. Steps that lower the objective are halved.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix.
    problem : Problem
        The likelihood.
    shape : tuple
        That of f.
    start : ndarray, optional
        A mode for another K. The first step is Newton's from there, with its W.
    tol : float
        Length of the last step as a part of f; rounding may end the iteration before.
    max_iter : int
        Limit on steps.
    """
    a, f = np.zeros(shape), np.zeros(shape)
    value = problem.log_likelihood(f)
    steps, last, gain, moved = 0, np.inf, np.inf, np.inf
    factor: Any = None
    largest = float(np.diagonal(K).max(initial=0.0))
    if start is not None and start.shape == shape:
        factor, steps = problem.factor(start), 1
        v = problem.tangent(start)
        warm = v - factor.apply(times(K, v))  # a = ∇log p − W(Ka − start), linear in a
        there = times(K, warm)
        reached = _objective(problem, warm, there)
        if reached > value:
            value, a, f = reached, warm, there
        else:  # far parameters can make an old mode worse than none
            factor = None
    while steps < max_iter:
        g = problem.gradient(f)
        F = a - g
        KF = times(K, F)
        size = float(np.linalg.norm(KF))
        # Where K is singular f does not tell a; gradients of the evidence are made of a = ∇log p.
        same = np.linalg.norm(F) <= CONVERGED * np.linalg.norm(g)
        # f = Ka may be a small difference of large terms, and aᵀf with it.
        noise = ROUNDING * (1.0 + abs(value)) + EPS * largest * float(np.abs(a).sum()) ** 2
        lost = size > 0.5 * last and gain <= noise
        if same and (lost or moved <= tol or size == 0.0):
            break
        new = factor is None or size > CHORD * last
        if new:
            factor = problem.factor(f)
        found = _line_search(problem, K, a, f, factor.apply(KF) - F, value - noise)
        steps += 1
        if found is None:
            if new:
                break
            factor = None  # the direction of an old factor led nowhere
            continue
        gain, last = (found[0] - value if new else np.inf), size
        moved = float(np.linalg.norm(found[2] - f)) / float(np.linalg.norm(found[2]) or 1.0)
        value, a, f = found
    return Mode(a, f, value, steps)


def distance(K: np.ndarray, problem: Problem, mode: Mode, factor: Any) -> float:
    """Return how far the mode is from f, as a part of f: the length of Newton's step from there.

    That is ‖(I + KW)⁻¹(f − K∇log p)‖/‖f‖. The residual f − K∇log p itself is as large as rounding
    of f times ‖KW‖, however near the mode. Where labels contradict one another the mode is 0, and
    f rounding: values are not taken as smaller than 0.01 on average, in the units of the link.

    Parameters
    ----------
    K, problem
        As for `find_mode`.
    mode : Mode
        Where Newton's method ended.
    factor : object
        That of the problem there.
    """
    F = mode.coef - problem.gradient(mode.f)
    step = times(K, factor.apply(times(K, F)) - F)
    return float(np.linalg.norm(step) / max(np.linalg.norm(mode.f), SMALL * mode.f.size**0.5))


def _objective(problem: Problem, a: np.ndarray, f: np.ndarray) -> float:
    return problem.log_likelihood(f) - 0.5 * float(np.vdot(a, f))


def _line_search(
    problem: Problem,
    K: np.ndarray,
    a: np.ndarray,
    f: np.ndarray,
    delta: np.ndarray,
    least: float,
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Return objective, a and f after the longest of δ, δ/2, δ/4… with an objective ≥ `least`."""
    end = a + delta
    moved = times(K, end)
    for k in range(HALVINGS):
        part = 0.5**k
        new_a = end if k == 0 else a + part * delta
        new_f = moved if k == 0 else f + part * (moved - f)
        new = _objective(problem, new_a, new_f)
        if new >= least:
            return new, new_a, new_f if k == 0 else times(K, new_a)
    return None


def unconverged(mode: Mode, residual: float) -> str:
    """Say what ended the search for a mode before it was near; empty if it was."""
    if residual <= CONVERGED:
        return ""
    return (
        f"the mode of the posterior was not found in {mode.steps} steps "
        f"(it is off by {residual:.3g} of its length), since the kernel's values are too large for "
        "their rounding; bound the kernel's scale, or standardise the columns."
    )
