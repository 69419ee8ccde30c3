"""Laws of parameters and derivatives: copies, printing, theta, gradients, features."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from mercer import kernels as mk
from mercer.domains import Graph, Numbers, Table, Vectors
from mercer.engines import small_tiles
from mercer.errors import InvalidInput, NotAKernel
from mercer.kernels import Kernel, Radial
from mercer.settings import config
from mercer.testing.checks import Case, agree, has_torch, require, to_numpy, told, untouched
from mercer.testing.oracles import double_loop


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
        names = [f.__qualname__ for f in _functions(case.kernel)]
        local = any("<lambda>" in name or "<locals>" in name for name in names)
        require(local, f"{case.kernel!r}: cannot be pickled")
        return
    require(pickle.loads(data) == case.kernel, f"{case.kernel!r}: pickling changed it")


def _parts(kernel: Kernel) -> Iterator[Kernel]:
    yield kernel
    for part in kernel._kernels():
        yield from _parts(part)


def _functions(kernel: Kernel) -> list[Callable]:
    functions = (getattr(part, "function", None) for part in _parts(kernel))
    return [function for function in functions if callable(function)]


def law_repr(case: Case) -> None:
    """The printed form is an expression for an equal kernel."""
    k = case.kernel
    names: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "slice": slice, "list": list}
    names |= {name: getattr(mk, name) for name in mk.__all__}
    names |= {type(part).__name__: type(part) for part in _parts(k)}
    if any(isinstance(value, Graph) for value in k.get_params().values()):
        return  # a graph prints how large it is, not all of its edges
    functions = _functions(k)
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

        def moved(h: float, e: np.ndarray, X: Any = X, Y: Any = Y, W: np.ndarray = W) -> float:
            return float((W * k.with_theta(k.theta + h * e)(X, Y)).sum())

        steps = np.eye(len(k.theta))
        expected = np.array([_central(partial(moved, e=e), 1e-3) for e in steps])
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

    def moved(h: float, i: int, j: int) -> float:
        Z = X[i : i + 1].copy()
        Z[0, j] += h
        return float(k(Z, Y)[0] @ c)

    for i, j in np.ndindex(X.shape):
        with suppress(InvalidInput):  # whole numbers cannot move: their slope is zero
            expected[i, j] = _central(partial(moved, i=i, j=j), 1e-4)
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


# ---- Laws of how a kernel is computed: tiles, engines, types, storage, threads ----


def law_tiles(case: Case) -> None:
    """In at least three uneven tiles the matrix and its products are those of one tile."""
    k, n = case.resolved(), case.n
    A, B = case.pair()
    K, C = k(case.X), k(A, B)
    V, U = case.rng.standard_normal((n, 3)), case.rng.standard_normal(C.shape[1])
    W = case.matrix()
    pulled = k.theta_vjp(case.X, W) if len(k.theta) else None
    edge = max(1, (n - 1) // 3)  # three whole tiles and a rest
    with small_tiles(edge * edge):
        agree(k(case.X), K, 1e-12, f"{k!r}: k(X) in tiles")
        agree(k(A, B), C, 1e-12, f"{k!r}: k(A, B) in tiles")
        agree(k.matmul(case.X, None, V), K @ V, 1e-12, f"{k!r}: K V in tiles")
        agree(k.matmul(case.X, None, V[:, 0]), K @ V[:, 0], 1e-12, f"{k!r}: K v in tiles")
        agree(k.matmul(A, B, U), C @ U, 1e-12, f"{k!r}: k(A, B) v in tiles")
        if pulled is not None:
            agree(k.theta_vjp(case.X, W), pulled, 1e-10, f"{k!r}: theta_vjp in tiles")


def _tensor(X: Any) -> Any:
    import torch

    return torch.as_tensor(np.array(X))


def law_engines(case: Case) -> None:
    """torch computes what NumPy computes, and tensors are answered with tensors."""
    if not has_torch() or not case.vectorial:
        return
    k = case.resolved()
    X, Y = case.X, case.sample(5)
    with config(engine="torch"):
        agree(k(X), k_numpy(k, X), 1e-12, f"{k!r}: engine='torch'")
        agree(k.diag(X), np.diagonal(k_numpy(k, X)), 1e-12, f"{k!r}: diag, engine='torch'")
    if isinstance(X, Table):
        return
    tX, tY = _tensor(X), _tensor(Y)
    V = case.rng.standard_normal((case.n, 2))
    answers = {
        "k(X)": (k(tX), k(X)),
        "k(X, Y)": (k(tX, tY), k(X, Y)),
        "diag(X)": (k.diag(tX), k.diag(X)),
        "matmul": (k.matmul(tX, None, _tensor(V)), k.matmul(X, None, V)),
    }
    if len(k.theta):
        W = case.matrix()
        answers["theta_vjp"] = (k.theta_vjp(tX, _tensor(W)), k.theta_vjp(X, W))
    with small_tiles(36):
        answers["k(X) in tiles"] = (k(tX), k(X))
        answers["matmul in tiles"] = (k.matmul(tX, None, _tensor(V)), k.matmul(X, None, V))
    for name, (tensor, array) in answers.items():
        require(hasattr(tensor, "detach"), f"{k!r}: {name} of tensors is a {type(tensor).__name__}")
        require(
            isinstance(array, np.ndarray), f"{k!r}: {name} of arrays is a {type(array).__name__}"
        )
        agree(tensor, array, 1e-11, f"{k!r}: {name}, torch against NumPy")


def k_numpy(k: Any, X: Any) -> np.ndarray:
    """Return k(X) by the NumPy engine."""
    with config(engine="numpy"):
        return k(X)


def law_float32(case: Case) -> None:
    """float32 points give float32 values, close to those of float64."""
    if not isinstance(case.X, np.ndarray):
        return
    k = case.resolved()
    single = case.X.astype(np.float32)
    double = single.astype(np.float64)
    if case.precomputed:
        double = single = (single + single.T) / 2  # type: ignore[assignment]
    V = np.cos(np.arange(2.0 * case.n)).reshape(-1, 2)  # not ones: some functions have mean zero
    for name, got, expected in (
        ("k(X)", k(single), k(double)),
        ("diag(X)", k.diag(single), k.diag(double)),
        ("K V", k.matmul(single, None, V), k(double) @ V),
    ):
        require(got.dtype == np.float32, f"{k!r}: {name} of float32 is {got.dtype}")
        agree(got, expected, 2e-5, f"{k!r}: {name} in float32")


def _arrays(X: Any) -> list[np.ndarray]:
    if isinstance(X, Table):
        return list(X.columns)
    return [X] if isinstance(X, np.ndarray) else []


def law_read_only(case: Case) -> None:
    """Inputs may be read-only, and are left as they were."""
    k = case.resolved()
    A, B = case.pair()
    V = case.rng.standard_normal(case.n)
    W = case.matrix()
    inputs = [a for Z in (case.X, A, B) for a in _arrays(Z)] + [V, W]
    with untouched(inputs, f"{k!r}: an input was changed"):
        k(case.X), k(A, B), k.diag(case.X)
        k.matmul(case.X, None, V)
        k.theta_vjp(case.X, W)
        result = k(case.X)
        require(result.flags.writeable or case.precomputed, f"{k!r}: k(X) is read-only")


def law_sparse(case: Case) -> None:
    """Sparse rows, in any format and of either kind, give what dense rows give."""
    if not isinstance(case.kernel.domain, Vectors) or not isinstance(case.X, np.ndarray):
        return
    if not case.vectorial:
        return  # a user's function need not know sparse rows
    k = case.resolved()
    dense = case.X.copy()
    if not isinstance(k.domain, Numbers):
        dense[np.abs(dense) < 0.5] = 0
    other = dense[::2]
    for form in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array, sp.coo_matrix):
        X, Y = form(dense), form(other)
        agree(k(X), k(dense), 1e-12, f"{k!r}: {form.__name__}")
        agree(k(X, Y), k(dense, other), 1e-12, f"{k!r}: k(X, Y), {form.__name__}")
    agree(k(X, other), k(dense, other), 1e-12, f"{k!r}: sparse X, dense Y")
    agree(k.diag(X), k.diag(dense), 1e-12, f"{k!r}: diag of sparse rows")
    single = sp.csr_array(dense.astype(np.float32))
    require(k(single).dtype == np.float32, f"{k!r}: sparse float32 gives {k(single).dtype}")


def law_threads(case: Case) -> None:
    """The bits do not depend on the number of threads."""
    k = case.resolved()
    A, B = case.pair()
    V, W = case.rng.standard_normal((case.n, 2)), case.matrix()
    results = []
    with small_tiles(64):  # nine tiles
        for threads in (1, 2, 3):
            with config(threads=threads):
                results.append(
                    [k(case.X), k(A, B), k.matmul(case.X, None, V), k.theta_vjp(case.X, W)]
                )
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            agree(b, a, 0, f"{k!r}: other bits with another number of threads", bitwise=True)


def law_autograd(case: Case) -> None:
    """torch finds a finite gradient of a radial kernel, also where points coincide.

    √s has an infinite slope at s = 0, which times 0 is NaN.
    """
    k = case.resolved()
    if not has_torch() or not isinstance(k, Radial) or not isinstance(case.X, np.ndarray):
        return
    T = _tensor(case.X).requires_grad_()
    k(T).sum().backward()
    finite = bool(T.grad.isfinite().all())
    require(finite, f"{k!r}: autograd gives NaN; write √s in the profile as xp.sqrt(s + 1e-30)")


# ---- The laws that make a function a kernel, and the list of all laws a kernel must obey ----


SIZES = (1, 2, 5, 30)
WIDTHS = (1, 2, 8)
SCALES = (1e-8, 1e-3, 1.0, 1e3, 1e8)
PSD_TOLERANCE = 1e-10  # λ_min ≥ −1e-10·λ_max


def law_shape(case: Case) -> None:
    """k(X) is n × n, k(A, B) is |A| × |B|, diag has n entries; also for one point and none."""
    k, n = case.kernel, case.n
    require(k(case.X).shape == (n, n), f"{k!r}: k(X) has shape {k(case.X).shape}, not {(n, n)}")
    require(k.diag(case.X).shape == (n,), f"{k!r}: diag has shape {k.diag(case.X).shape}")
    resolved = case.resolved()
    A, B = case.pair()
    size = k.domain.size
    expected = (size(k.domain.check(A)), size(k.domain.check(B)))
    require(resolved(A, B).shape == expected, f"{k!r}: k(A, B) has another shape than {expected}")
    for count in (1,) if case.precomputed else (1, 0):
        few = case.take(np.arange(count))
        require(resolved(few).shape == (count, count), f"{k!r}: k of {count} points")
        require(resolved.diag(few).shape == (count,), f"{k!r}: diag of {count} points")


def law_symmetry(case: Case) -> None:
    """k(X) equals its transpose to the bit."""
    K = case.kernel(case.X)
    agree(K, K.T, 0, f"{case.kernel!r}: k(X) is not symmetric", bitwise=True)


def law_transpose(case: Case) -> None:
    """k(A, B) = k(B, A)ᵀ."""
    if case.precomputed:
        return
    k = case.resolved()
    A, B = case.pair()
    agree(k(A, B), k(B, A).T, 1e-12, f"{k!r}: k(A, B) ≠ k(B, A)ᵀ")


def law_diag(case: Case) -> None:
    """k.diag(X) is the diagonal of k(X), and of a kernel no entry of it is negative."""
    d = case.kernel.diag(case.X)
    agree(d, np.diagonal(case.kernel(case.X)), 1e-12, f"{case.kernel!r}: diag(X)")
    require((d >= 0).all() or not case.kernel.psd, f"{case.kernel!r}: k(x, x) = {d.min()} < 0")


def law_permutation(case: Case) -> None:
    """Reordering the points reorders rows and columns and does nothing else."""
    k = case.resolved()
    order = case.rng.permutation(case.n)
    K = k(case.X)
    agree(k(case.take(order)), K[np.ix_(order, order)], 1e-12, f"{k!r}: permuted points")


def law_psd(case: Case) -> None:
    """λ_min ≥ −1e-10·λ_max over sizes, dimensions and scales, with repeated points.

    A similarity with ``psd = False`` claims nothing, and is not judged.
    """
    k = case.kernel
    if not k.psd:
        return
    for d in WIDTHS:
        for n in SIZES:
            base = case.sample(n, d)
            for scale in SCALES:
                X = case.scaled(base, scale)
                if X is not None:
                    _require_psd(k, X, f"{n} points, {d} columns, scale {scale:g}")


def _require_psd(k: Kernel, X: Any, where: str) -> None:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            d = k.diag(X)
    except InvalidInput:
        return  # refused: nothing to judge
    require(not np.isnan(d).any(), f"{k!r}: k(x, x) is NaN for {where}")
    if np.isinf(d).any() or d.max(initial=0.0) > 1e150:
        return  # beyond what floating point can hold
    K = k(X)
    require(np.isfinite(K).all(), f"{k!r}: k(X) is not finite for {where}")
    top = float(np.abs(K).max())
    if top == 0:
        return
    values = np.linalg.eigvalsh(K / top)
    require(
        values[0] >= -PSD_TOLERANCE * values[-1],
        f"{k!r}: smallest eigenvalue {values[0] * top:.3g}, largest {values[-1] * top:.3g} "
        f"for {where}: not positive semidefinite",
    )


def law_double_loop(case: Case) -> None:
    """The matrix is what two loops over the definition give, repeated points included."""
    k = case.resolved()
    agree(k(case.X), double_loop(k, case.X), 1e-11, f"{k!r}: k(X) against the definition")
    A, B = case.pair()
    agree(k(A, B), double_loop(k, A, B), 1e-11, f"{k!r}: k(A, B) against the definition")


_LAWS: tuple[Callable[[Case], None], ...] = (
    law_shape,
    law_symmetry,
    law_transpose,
    law_diag,
    law_permutation,
    law_psd,
    law_double_loop,
    law_tiles,
    law_engines,
    law_autograd,
    law_float32,
    law_read_only,
    law_sparse,
    law_threads,
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


def kernel_laws() -> list[tuple[str, Callable[..., None]]]:
    """Return (name, function) for each law; ``function(kernel, X=None, rng=0)`` raises if broken.

    Examples
    --------
    >>> from mercer import RBF
    >>> from mercer.testing import kernel_laws
    >>> dict(kernel_laws())["symmetry"](RBF())
    """
    return told(_LAWS, lambda law, kernel, X=None, rng=0: law(Case(kernel, X, rng)))


def check_kernel_laws(kernel: Any, X: Any = None, rng: Any = 0) -> None:
    """Raise AssertionError, naming the law, unless a kernel obeys every law.

    The laws: shape, symmetry to the bit, transpose, diagonal, permutation, positive
    semidefiniteness over sizes, dimensions and scales (unless it says ``psd = False``), agreement
    with the double loop over the definition, products in uneven tiles, agreement of engines,
    float32 in and out, inputs left alone, sparse = dense, bits independent of threads, clone,
    equality, repr, pickle, parameters, log-parameters, `theta_vjp` and `gradient` against finite
    differences, explicit features.

    Parameters
    ----------
    kernel : Kernel
        The kernel; derive from `Radial`, `Dot`, `Scalar`, `Explicit` or `Pairwise`, or add its
        formula to `ORACLES`.
    X : collection, optional
        Points to judge on; by default sampled from ``kernel.domain``.
    rng : Generator or int, default=0
        Source of randomness.

    Examples
    --------
    >>> from mercer import RBF
    >>> from mercer.testing import check_kernel_laws
    >>> check_kernel_laws(RBF(2.0))
    """
    for name, law in kernel_laws():
        try:
            law(kernel, X, rng)
        except (AssertionError, NotAKernel) as error:
            raise AssertionError(f"law {name!r} is broken. {error}") from error
