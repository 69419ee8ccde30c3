"""The Cauchy kernel, written as the page "How to add" tells."""

from typing import Any

from mercer.kernels import Radial


class Cauchy(Radial):
    r"""Cauchy kernel 1/(1 + ‖x−x′‖²/ℓ²), a profile of the squared distance with heavy tails.

    *Valid when* ℓ > 0: 1/(1+s) = ∫₀^∞ e⁻ᵗ e⁻ˢᵗ dt is a mixture of RBF kernels. Characteristic.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median" or "scale", default=1.0
        The scale ℓ, as for `mercer.RBF`.
    """

    characteristic = True

    def __init__(self, length_scale: Any = 1.0):
        super().__init__(length_scale=length_scale)

    def _profile(self, s: Any, xp: Any) -> Any:
        return 1 / (1 + s)
