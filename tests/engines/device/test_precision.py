"""Products of float32 tensors are never those of TF32."""

from __future__ import annotations

import pytest

import mercer
from mercer.engines.device.fused import full_precision

torch = pytest.importorskip("torch")


def state():
    matmul = torch.backends.cuda.matmul
    return matmul.fp32_precision if hasattr(matmul, "fp32_precision") else matmul.allow_tf32


@pytest.fixture
def allowed():
    """TF32, as a user may have switched it on."""
    matmul = torch.backends.cuda.matmul
    name = "fp32_precision" if hasattr(matmul, "fp32_precision") else "allow_tf32"
    before = getattr(matmul, name)
    setattr(matmul, name, "tf32" if name == "fp32_precision" else True)
    yield
    setattr(matmul, name, before)


def test_what_a_user_allowed_is_taken_back_for_a_while(allowed):
    before = state()
    with full_precision():
        assert state() in ("ieee", False)
    assert state() == before
    with pytest.raises(ZeroDivisionError), full_precision():
        1 / 0  # noqa: B018
    assert state() == before


def test_kernel_values_are_made_in_full_precision(allowed, monkeypatch):
    from mercer.kernels.metric import RadialBound

    seen = []
    squared = RadialBound.squared

    def watched(self, rows, cols):
        seen.append(state())
        return squared(self, rows, cols)

    monkeypatch.setattr(RadialBound, "squared", watched)
    X = torch.randn(30, 2)
    k = mercer.RBF()
    k(X)
    k.matmul(X, X[:5], torch.ones(5, 1))
    mercer.KernelRidge(k, solver="falkon", n_centers=5, random_state=0).fit(X, X[:, 0])
    k(X.requires_grad_())
    assert seen and set(seen) <= {"ieee", False}
    assert state() not in ("ieee", False)
