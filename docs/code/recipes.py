"""Recipes are alike when they share ingredients, and more so when they share the main ones."""

from __future__ import annotations

from typing import Any

from mercer.kernels import Counted


class Ingredients(Counted):
    """Σ over common ingredients of wᵢ(x)wᵢ(x′), where wᵢ = 1 + share · (amount of i / total).

    *Valid when* always: it is the inner product of the vectors (wᵢ).
    """

    def __init__(self, share: float = 0.0):
        super().__init__(share=share)

    def _count(self, x: dict[str, Any]) -> dict[str, float]:
        total = sum(x.values()) or 1.0
        return {name: 1.0 + self.share * amount / total for name, amount in x.items()}
