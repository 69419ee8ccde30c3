"""Laws of parameters and derivatives: copies, printing, theta, gradients, features."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer import kernels as mk
from mercer.domains import Graph
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.testing.case import Case
from mercer.testing.checks import agree, require, to_numpy

__all__ = ["LAWS"]


def law_clone(case: Case) -> None:
    """A clone is equal, another object, and shares no nested kernel."""
    k = case.kernel
    copy = clone(k)
    require(copy is not k and copy == k and k == copy, f"{k!r}: its clone is {copy!r}")
    require((copy != k) is False, f"{k!r}: != contradicts ==")
    for mine, theirs in zip(k._kernels(), copy._kernels(), strict=True):
        require(mine is not theirs, f"{k!r}: the clone shares {mine!r}")
    agree(copy(case.X), k(case.X), 0, f"{k!r}: the clone computes otherwise", bitwise=True)


def law_equality(case: Case) -> None:
    """Other parameters or another class make another kernel."""
    k = case.kernel
    require(k != object() and k != mk.Constant(123.0), f"{k!r}: equal to something else")
    if len(k.theta):
        require(k.with_theta(k.theta + 0.25) != k, f"{k!r}: equal to a kernel of other parameters")


def law_pickle(case: Case) -> None:
    """Pickling gives an equal kernel."""
    try:
        data = pickle.dumps(case.kernel)
    except (pickle.PicklingError, AttributeError):
        require(
            any(
                f.__name__ == "<lambda>" or "<locals>" in f.__qualname__
                for f in _functions(case.kernel)
            ),
            f"{case.kernel!r}: cannot be pickled",
        )
        return
    require(pickle.loads(data) == case.kernel, f"{case.kernel!r}: pickling changed it")


def _functions(kernel: Kernel) -> Iterator[Callable]:
    function = getattr(kernel, "function", None)
    if callable(function):
        yield function
    for part in kernel._kernels():
        yield from _functions(part)


def _classes(kernel: Kernel) -> Iterator[type]:
    yield type(kernel)
    for part in kernel._kernels():
        yield from _classes(part)


def law_repr(case: Case) -> None:
    """The printed form is an expression for an equal kernel."""
    k = case.kernel
    names: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "slice": slice, "list": list}
    names |= {name: getattr(mk, name) for name in mk.__all__}
    names |= {c.__name__: c for c in _classes(k)}
    if any(isinstance(value, Graph) for value in k.get_params().values()):
        return  # a graph prints how large it is, not all of its edges
    functions = list(_functions(k))
    if any(not getattr(f, "__name__", "").isidentifier() for f in functions):
        return  # a lambda has no name to print
    names |= {f.__name__: f for f in functions}
    again = eval(repr(k), {"__builtins__": {}}, names)
    require(again == k, f"{k!r}: its printed form gives {again!r}")


def law_params(case: Case) -> None:
    """`set_params` takes what `get_params` gives; a bad call changes nothing."""
    k = clone(case.kernel)
    require(k.set_params(**k.get_params(deep=False)) is k, f"{k!r}: set_params must return self")
    k.set_params(**k.get_params(deep=True))
    require(k == case.kernel, f"{k!r}: set_params(**get_params()) changed it")
    simple = {n: v for n, v in k.get_params().items() if isinstance(v, float) and math.isfinite(v)}
    changes = {n: v + 1 for n, v in simple.items()}
    try:
        k.set_params(**changes, no_such_parameter=1)
    except ValueError:
        require(k == case.kernel, f"{k!r}: a refused set_params changed it from {case.kernel!r}")
    else:
        raise AssertionError(f"{k!r}: set_params took an unknown parameter")


def law_theta(case: Case) -> None:
    """theta are logarithms of named parameters inside their bounds; with_theta is their inverse."""
    k = case.resolved()
    p = len(k.theta)
    require(k.theta.shape == (p,), f"{k!r}: theta has shape {k.theta.shape}")
    require(k.bounds.shape == (p, 2), f"{k!r}: bounds have shape {k.bounds.shape}")
    require(len(k.theta_names) == p == len(set(k.theta_names)), f"{k!r}: {k.theta_names}")
    low, high = k.bounds[:, 0], k.bounds[:, 1]
    require(((low <= k.theta) & (k.theta <= high)).all(), f"{k!r}: theta is outside its bounds")
    for name, value in zip(k.theta_names, k.theta, strict=True):
        base, _, index = name.rstrip("]").partition("[")
        param = k.get_params()[base]
        shown = float(param[int(index)] if index else param)
        require(math.isclose(math.log(shown), value, abs_tol=1e-12), f"{k!r}: {name} is {shown}")
    same = k.with_theta(k.theta)
    require(type(same) is type(k), f"{k!r}: with_theta gives a {type(same).__name__}")
    agree(same.theta, k.theta, 1e-14, f"{k!r}: with_theta(theta).theta")
    agree(same(case.X), k(case.X), 1e-12, f"{k!r}: with_theta(theta) is another kernel")
    moved = k.with_theta(k.theta + 0.1)
    agree(moved.theta, k.theta + 0.1, 1e-12, f"{k!r}: with_theta(theta + 0.1).theta")
    agree(k.theta, case.resolved().theta, 0, f"{k!r}: with_theta changed it", bitwise=True)
    try:
        k.with_theta(np.zeros(p + 1))
    except InvalidInput:
        return
    raise AssertionError(f"{k!r}: with_theta took {p + 1} numbers for {p}")


def _central(f: Callable[[float], float], h: float) -> float:
    # Two steps of Richardson: error O(h⁴).
    wide, narrow = (f(2 * h) - f(-2 * h)) / (4 * h), (f(h) - f(-h)) / (2 * h)
    return (4 * narrow - wide) / 3


def _near(got: Any, expected: np.ndarray, magnitude: float, message: str) -> None:
    """Derivatives agree to 1e-5, relative to their size or to 1e-3 of what was differentiated."""
    got = to_numpy(got)
    require(got.shape == expected.shape, f"{message}: shape {got.shape}, not {expected.shape}")
    limit = 1e-5 * max(float(np.abs(expected).max(initial=0.0)), 1e-3 * magnitude, 1e-300)
    gap = float(np.abs(got - expected).max(initial=0.0))
    require(gap <= limit, f"{message}: {got}, finite differences {expected}")


def law_theta_vjp(case: Case) -> None:
    """theta_vjp is the derivative of Σ Wᵢⱼ k(xᵢ, yⱼ) in theta, by finite differences."""
    k = case.resolved()
    A, B = case.pair()
    for X, Y in ((case.X, None), (A, B)):
        K = k(X, Y)
        W = case.rng.standard_normal(K.shape)
        expected = np.zeros(len(k.theta))
        for i in range(len(expected)):
            step = np.eye(len(expected))[i]
            expected[i] = _central(
                lambda h, X=X, Y=Y, W=W, e=step: float(  # type: ignore[misc]
                    (W * k.with_theta(k.theta + h * e)(X, Y)).sum()
                ),
                1e-3,
            )
        got = k.theta_vjp(X, W, Y)
        which = "k(X)" if Y is None else "k(A, B)"
        _near(got, expected, float(np.abs(W * K).sum()), f"{k!r}: theta_vjp of {which}")


def law_gradient(case: Case) -> None:
    """gradient is ∇ₓ Σ cⱼ k(x, yⱼ) by finite differences, where the kernel has a gradient."""
    if not isinstance(case.X, np.ndarray) or case.precomputed or not case.vectorial:
        return
    k = case.resolved()
    X, Y = case.sample(4), case.sample(6)
    X = X[np.abs(X).max(1) > 0]  # the cosine kernel has no gradient at 0
    if case.given:  # the same points again: move off the kinks
        X = X + 0.01 * case.rng.standard_normal(X.shape)
    c = case.rng.standard_normal(len(Y))
    try:
        got = k.gradient(X, Y, c)
    except InvalidInput:
        return
    expected = np.zeros(X.shape)
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):

            def moved(h: float, i: int = i, j: int = j) -> float:
                Z = X[i : i + 1].copy()
                Z[0, j] += h
                return float(k(Z, Y)[0] @ c)

            with suppress(InvalidInput):  # whole numbers cannot move: their slope is zero
                expected[i, j] = _central(moved, 1e-4)
    magnitude = float(np.abs(k(X, Y) * c).sum(1).max())
    _near(got, expected, magnitude, f"{k!r}: gradient in x")


def law_features(case: Case) -> None:
    """Where n_features is a number, ΦΦᵀ = k(X); elsewhere features are refused.

    A kernel may have features of some points only, as one on strings has whose alphabet does not
    hold all letters: then n_features of all points is None, and of those it has, Φ(x)Φ(x′)ᵀ =
    k(x, x′) holds for every x′. Parameters are taken from data only where they were left out.
    """
    k = case.resolved() if case.kernel._words() or case.kernel._open() else case.kernel
    alone = [k.n_features(case.take([i])) for i in range(case.n)]
    some = np.array([i for i, width in enumerate(alone) if width is not None], dtype=int)
    D = alone[some[0]] if len(some) else None
    together = D if len(some) == case.n else None
    for X in (case.X, case.take(np.argsort([width is None for width in alone], kind="stable"))):
        D_X = k.n_features(X)
        require(D_X == together, f"{k!r}: n_features is {D_X} for X, and {together} for its points")
    if D is None:
        try:
            k.features(case.X)
        except InvalidInput:
            return
        raise AssertionError(f"{k!r}: has features, but n_features says None")
    phi = to_numpy(k.features(case.X))
    require(phi.shape == (case.n, D), f"{k!r}: features have shape {phi.shape}, not {(case.n, D)}")
    agree(phi[some] @ phi.T, k(case.X)[some], 1e-12, f"{k!r}: ΦΦᵀ")
    A, B = case.take(some), case.pair()[1]
    cross = to_numpy(k.features(A)) @ to_numpy(k.features(B)).T
    agree(cross, k(A, B), 1e-12, f"{k!r}: Φ(A)Φ(B)ᵀ")


LAWS = (
    law_clone,
    law_equality,
    law_pickle,
    law_repr,
    law_params,
    law_theta,
    law_theta_vjp,
    law_gradient,
    law_features,
)
