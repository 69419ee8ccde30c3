"""Laws of how a kernel is computed: tiles, engines, types, storage, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import Numbers, Table, Vectors
from mercer.engines.tiles import small_tiles
from mercer.kernels.metric import Radial
from mercer.settings import config
from mercer.testing.case import Case, has_torch
from mercer.testing.checks import agree, require

__all__ = ["LAWS"]


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
    for name, got, expected in (
        ("k(X)", k(single), k(double)),
        ("diag(X)", k.diag(single), k.diag(double)),
        ("K V", k.matmul(single, None, np.ones((case.n, 2))), k(double) @ np.ones((case.n, 2))),
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
    before = [a.copy() for a in inputs]
    was = [a.flags.writeable for a in inputs]
    for a in inputs:
        a.setflags(write=False)
    try:
        k(case.X), k(A, B), k.diag(case.X)
        k.matmul(case.X, None, V)
        k.theta_vjp(case.X, W)
        result = k(case.X)
        require(result.flags.writeable or case.precomputed, f"{k!r}: k(X) is read-only")
    finally:
        for a, writeable in zip(inputs, was, strict=True):
            a.setflags(write=writeable)
    for a, b in zip(inputs, before, strict=True):
        same = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")  # NaN: a missing number
        require(same, f"{k!r}: an input was changed")


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
    with small_tiles(16):
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


LAWS = (
    law_tiles,
    law_engines,
    law_autograd,
    law_float32,
    law_read_only,
    law_sparse,
    law_threads,
)
