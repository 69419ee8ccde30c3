"""A kernel on numbers, the covariance of the Brownian bridge."""

from typing import Any

from mercer.domains import Numbers
from mercer.kernels import Scalar


class BrownianBridge(Scalar):
    r"""min(x, x′) − x x′, the covariance of a Brownian motion that returns to 0 at time 1.

    *Valid when* 0 ≤ x ≤ 1.
    """

    domain = Numbers(low=0.0, high=1.0)

    def _value(self, x: Any, y: Any, xp: Any) -> Any:
        # min − x x′ = min·(1 − max): nothing cancels near 1
        return xp.minimum(x, y) * (1 - xp.maximum(x, y))
