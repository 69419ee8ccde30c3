"""Steps on blocks by Triton's interpreter, against those of the compiled loop."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

PROGRAM = r"""
import numpy as np, torch
from mercer.solvers.box import together as pairs

r = np.random.default_rng(0)
for q in (5, 16, 37):
    A = r.standard_normal((4, q, 3))
    Q = torch.as_tensor(A @ A.transpose(0, 2, 1))
    G = torch.as_tensor(r.standard_normal((4, q)))
    lower = torch.as_tensor(-r.random((4, q)))
    upper = torch.as_tensor(r.random((4, q)))
    upper[0, 2:] = lower[0, 2:] = 0.0  # what cannot move
    upper[1] = lower[1] = 0.0  # nothing moves
    a = torch.zeros(4, q, dtype=torch.float64)
    wanted = torch.full((4,), 1e-6, dtype=torch.float64)
    for kind in (torch.float64, torch.float32):
        for most in (0, 3, 5000):
            problem = (Q.to(kind), G, a.clone(), lower, upper, wanted, most)
            got, steps = pairs._on_device(*problem)
            want, others = pairs._in_main_memory(*problem)
            assert not a.any() and (steps <= most).all() and steps[1] == 0
            assert (got >= lower).all() and (got <= upper).all()
            assert got.sum(1).abs().max() < 1e-12
            value = lambda x: 0.5 * torch.einsum("ki,kij,kj->k", x, Q, x) + (G * x).sum(1)
            if most == 3:
                assert (steps == others).all() and torch.allclose(got, want, atol=1e-5)
            if most == 5000:
                assert torch.allclose(value(got), value(want), atol=1e-5)
print("all right")
"""


def test_steps_are_those_of_the_compiled_loop():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "all right" in done.stdout
