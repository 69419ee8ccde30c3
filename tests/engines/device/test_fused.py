"""Fused products of a device, run by Triton's interpreter on the CPU, against plain matrices."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
triton = pytest.importorskip("triton")

PROGRAM = r"""
import numpy as np, torch, mercer
from mercer.engines.device import fused

assert fused.available(torch.zeros(2, 2))
g = torch.Generator().manual_seed(0)
X, Z = torch.randn(100, 5, generator=g), torch.randn(50, 5, generator=g)
Z[:3] = X[:3]  # distances of zero
fused.SPAN = 32  # several spans of columns

def error(kernel, X, Z, t):
    V, U = (torch.randn(len(x), t, generator=g).to(x.dtype) for x in (Z, X))
    bound = kernel._bind(X, Z)
    form = bound.fused()
    assert form is not None, kernel
    K = torch.as_tensor(kernel(X.double().numpy(), Z.double().numpy()))
    worst = 0.0
    for got, want in ((form.times(V), K @ V.double()), (form.pull(U), K.T @ U.double())):
        assert got.dtype == torch.float64 and got.shape == want.shape
        worst = max(worst, float((got - want).norm() / want.norm()))
    product = kernel.matmul(X, Z, V.to(X.dtype))  # the public way takes the same road
    assert product.dtype == X.dtype
    return max(worst, float((product - K @ V.double()).norm() / (K @ V.double()).norm()))

r, m = mercer.RBF(1.3), mercer.Matern(0.8, nu=2.5)
kernels = [
    r, m, mercer.Matern(nu=0.5), mercer.Matern(nu=1.5), mercer.RationalQuadratic(alpha=0.7),
    mercer.Laplacian(2.0), mercer.Polynomial(3), mercer.Linear(), mercer.Cosine(),
    mercer.RBF(np.arange(1.0, 6.0)), 2.5 * r + m, mercer.PowerExponential(2.0, 0.9, 1.4),
]
for kernel in kernels:
    for t in (1, 3):
        e = error(kernel, X, Z, t)
        assert e < 2e-6, (kernel, t, e)
three = r.on([0, 2]) * m.on([1]) + mercer.Polynomial(2)
for kernel in (r * m, r + m, 0.5 * r * (2.0 * m + r), three,
               r.on([0]) * r.on([1, 2]) * m.on([3, 4]),
               r + m + mercer.RBF(0.7) + mercer.Linear(), r * mercer.Laplacian(2.0), 3.0 * (r + m)):
    for t in (1, 3):  # sums and products, of columns of their own too, in one program
        assert error(kernel, X, Z, t) < 2e-6, kernel
count = lambda kernel: len(kernel._bind(X, Z).fused().measures)
assert count(r * m) == 2 and count(three) == 3
for c, few in ((0.05, True), (1.0, False)):  # 2^(xᵀy) between diagonal matrices, or not
    sides = r.__class__(1.0)._bind(X * c * 4, Z * c * 4).fused().measures[0].sides
    assert (sides.alone is not None) == few
for c in (0.05, 0.3, 1.0):
    for t in (1, 3):
        e = error(mercer.RBF(1.0), 4 * c * X, 4 * c * Z, t)
        assert e < 4e-6 * max(1.0, 16 * c * c), (c, e)
huge = torch.full((50, 1), 1e30)
e = mercer.RBF(1.0)._bind(X, Z).fused()
want = torch.as_tensor(mercer.RBF(1.0)(X.double().numpy(), Z.double().numpy())) @ huge.double()
assert float((e.times(huge) - want).norm() / want.norm()) < 2e-6
for kernel in (r.on([0, 2]), m.in_metric(np.eye(5)[:2] + 0.1) + r):  # the matrix of the images
    assert error(kernel, X[:40], Z[:30], 1) < 2e-6
assert error(r, X, Z, 40) < 2e-6  # more right-hand sides than go at a time
wide = torch.randn(20, 50, generator=g), torch.randn(30, 50, generator=g)
assert error(mercer.RBF(8.0), *wide, 1) < 2e-6  # several chunks of columns of the data
assert error(mercer.Polynomial(2), 1e-4 * X, 1e3 * Z, 2) < 2e-6  # scales of their own
far = X + 1e4, Z + 1e4
assert error(r, *far, 1) < 1e-3  # moved to the origin first; float32 holds the points to 1e-3
places = 1000.0 * torch.randn(3, 5, generator=g)
spread = X + places[torch.arange(100) % 3], Z + places[torch.arange(50) % 3]
assert r._bind(*spread).fused().measures[0].form == "differences"
for kernel in (r, mercer.RBF(np.arange(1.0, 6.0)), mercer.Laplacian(1.3),
               mercer.PowerExponential(1.3, 0.6, 0.6)):
    assert error(kernel, *spread, 1) < 2e-6  # neither moved nor scaled before they are subtracted

empty = r._bind(X[:0], Z).fused()
assert empty is None or empty.times(torch.ones(50, 1)).shape == (0, 1)
for kernel in (r, m, mercer.Matern(nu=0.5), mercer.RationalQuadratic(alpha=0.7), 2.5 * r + m,
               mercer.Laplacian(2.0), mercer.RBF(np.arange(1.0, 6.0)), r.in_metric(np.eye(5)[:2]),
               mercer.PowerExponential(2.0, 0.9, 1.4)):
    for t in (1, 3):  # of points in float64 differences are summed, in float64
        rough = 1e-7 if isinstance(kernel, mercer.PowerExponential) else 1e-14
        e = error(kernel, X.double(), Z.double(), t)
        assert e < rough, (kernel, t, e)
assert mercer.Linear()._bind(X.double(), Z.double()).fused() is None  # tensor cores would round
assert r._bind(*(torch.zeros(9, fused.COLUMNS + 1).double() for _ in "XZ")).fused() is None
assert (r * mercer.Matern(nu=0.7))._bind(X, Z).fused() is None
assert (r * r * m * m)._bind(X, Z).fused() is None  # four measures
assert mercer.Matern(nu=0.7)._bind(X, Z).fused() is None

for kernel in (r, m, 2.0 * r + m, mercer.RBF(np.arange(1.0, 6.0)),
               mercer.RationalQuadratic(alpha=0.7)):
    for kind in (torch.float32, torch.float64):  # gradients are products with the slope
        c = torch.randn(50, generator=g).to(kind)
        assert kernel._bind(X.to(kind), Z.to(kind)).gradient(c) is not None, kernel
        got = kernel.gradient(X.to(kind), Z.to(kind), c)
        want = kernel.gradient(*(v.double().numpy() for v in (X, Z, c)))
        e = float((got - torch.as_tensor(want)).norm()) / np.linalg.norm(want)
        assert e < (3e-6 if kind == torch.float32 else 1e-13), (kernel, e)
assert mercer.Matern(nu=0.5)._bind(X, Z).gradient(torch.ones(50)) is None  # a kink

# an exact fit whose matrix there is no room for: products in float32, residuals in float64
from mercer import KernelRidge
from mercer.models.ridge import cg
x = X.double() + 100.0
y = torch.sin(x[:, 0]) + torch.randn(100, generator=g).double()
for intercept in (False, True):
    how = dict(alpha=0.1, solver="cg", tol=1e-9, random_state=0, fit_intercept=intercept)
    cg.storage_for = lambda n, like=None: "none"
    model = KernelRidge(mercer.Matern(2.0, nu=1.5), **how).fit(x, y)
    told = model.solution_
    assert told.extra["storage"] == "fused" and told.extra["rounds"] > 1 and told.converged
    K, a = mercer.Matern(2.0, nu=1.5)(x.numpy()), model.dual_coef_
    left = K @ a + 0.1 * a + model.intercept_ - y.numpy()
    assert np.linalg.norm(left) <= 1e-9 * np.linalg.norm(y), np.linalg.norm(left)
print("all right")
"""


@pytest.mark.skipif(
    triton.__version__.startswith("3.0."), reason="Triton 3.0 has no products in float64"
)
def test_fused_products_equal_those_of_the_matrix():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all right" in done.stdout


def test_without_a_gpu_plain_tiles_are_used():
    import torch

    import mercer

    X = torch.randn(10, 3)
    assert mercer.RBF()._bind(X, X).fused() is None


def test_a_triton_that_cannot_multiply_in_double_precision_is_not_used(monkeypatch):
    from mercer.engines.device import fused

    def launch(sides, profile, V):
        if V.shape[1] > 1:  # as Triton 3.0
            raise AssertionError("Unsupported dtype fp64")
        return V

    monkeypatch.setattr(fused, "_launch", launch)
    monkeypatch.setattr(fused, "_halves", lambda z, *how, **kinds: (z, z[:, 0]))
    with pytest.warns(RuntimeWarning, match="Triton cannot run on cpu .*fp64"):
        assert not fused._runs_on.__wrapped__("cpu")
