"""Links: the likelihood p(t | f) of a label t = ±1 given a latent value f, with derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.special import erfcx, expit, log_expit, log_ndtr, ndtr

from mercer.errors import InvalidInput

__all__ = ["Link", "Logit", "Probit", "as_link"]

# Below −_FAR the hazard φ/Φ comes from its asymptotic series, whose first omitted term is then
# below 1e-13; above it the direct differences lose at most three digits.
_FAR = 20.0
_TERMS = 9


class Link(ABC):
    """p(t | f) as a function of the margin z = t f: log-concave, with three derivatives in f.

    All methods take labels t of −1 and 1 and latent values f of the same shape, and answer without
    overflow for any finite f.
    """

    name: str = ""

    @abstractmethod
    def probability(self, f: Any) -> np.ndarray:
        """Return p(t = 1 | f)."""

    @abstractmethod
    def log_likelihood(self, t: Any, f: Any) -> np.ndarray:
        """Return log p(t | f)."""

    @abstractmethod
    def derivatives(self, t: Any, f: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first three derivatives of log p(t | f) in f; the second is never > 0."""

    def first(self, t: Any, f: Any) -> np.ndarray:
        """Return ∂ log p(t | f)/∂f."""
        return self.derivatives(t, f)[0]

    def second(self, t: Any, f: Any) -> np.ndarray:
        """Return ∂² log p(t | f)/∂f²."""
        return self.derivatives(t, f)[1]

    def third(self, t: Any, f: Any) -> np.ndarray:
        """Return ∂³ log p(t | f)/∂f³."""
        return self.derivatives(t, f)[2]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Logit(Link):
    """The logistic likelihood σ(z) = 1/(1 + exp(−z)).

    Examples
    --------
    >>> from mercer.models.gp.links import Logit
    >>> float(Logit().first(1.0, 0.0)), float(Logit().second(1.0, 0.0))
    (0.5, -0.25)
    """

    name = "logit"

    def probability(self, f: Any) -> np.ndarray:
        """Return σ(f)."""
        return expit(f)

    def log_likelihood(self, t: Any, f: Any) -> np.ndarray:
        """Return log σ(t f)."""
        return log_expit(np.multiply(t, f))

    def derivatives(self, t: Any, f: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return tσ(−z), −σ(z)σ(−z) and σ(z)σ(−z) tanh(f/2)."""
        z = np.multiply(t, f)
        below = expit(-z)
        bend = expit(z) * below
        return t * below, -bend, bend * np.tanh(0.5 * np.asarray(f, dtype=float))


class Probit(Link):
    """The cumulative Gaussian likelihood Φ(z).

    Examples
    --------
    >>> from mercer.models.gp.links import Probit
    >>> round(float(Probit().first(1.0, 0.0)), 6)
    0.797885
    """

    name = "probit"

    def probability(self, f: Any) -> np.ndarray:
        """Return Φ(f)."""
        return ndtr(f)

    def log_likelihood(self, t: Any, f: Any) -> np.ndarray:
        """Return log Φ(t f)."""
        return log_ndtr(np.multiply(t, f))

    def derivatives(self, t: Any, f: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return t r, −r q and t r(q(q + r) − 1) with the hazard r = φ(z)/Φ(z) and q = z + r."""
        z = np.asarray(np.multiply(t, f), dtype=float)
        far = z < -_FAR
        near = np.where(far, 0.0, z)
        with np.errstate(over="ignore"):  # erfcx is infinite where r underflows to 0
            r = np.sqrt(2.0 / np.pi) / erfcx(-near / np.sqrt(2.0))
        q = near + r
        bend = np.where(r > 0.0, r * q, 0.0)
        third = np.where(r > 0.0, r * (q * (q + r) - 1.0), 0.0)
        if far.any():
            x = np.where(far, -z, _FAR)
            r_far, q_far, third_far = _hazard_tail(x)
            r, bend = np.where(far, r_far, r), np.where(far, r_far * q_far, bend)
            third = np.where(far, third_far, third)
        return t * r, -bend, t * third


def _hazard_tail(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return r, q = r − x and r(q(q + r) − 1) at z = −x for large x, without cancellation.

    Mills' ratio is S/x with S = 1 − uP, u = 1/x² and P = Σ (−1)ᵏ(2k+1)!! uᵏ, so that q = xuP/S and
    qx − 1 = (P − 1 + uP)/S, where P − 1 + uP = Σ (−1)ᵏ 2k(2k−1)!! uᵏ.
    """
    u = 1.0 / (x * x)
    P, Q = np.ones_like(x), np.zeros_like(x)
    odd, power = 1.0, np.ones_like(x)
    for k in range(1, _TERMS):
        power = -power * u
        Q = Q + 2.0 * k * odd * power
        odd *= 2.0 * k + 1.0
        P = P + odd * power
    S = 1.0 - u * P
    q = P / (x * S)
    r = x + q
    return r, q, r * (2.0 * u * P * P + Q * S) / (S * S)


_LINKS: dict[str, type[Link]] = {"logit": Logit, "probit": Probit}


def as_link(link: Any, owner: str = "GaussianProcessClassifier") -> Link:
    """Return the link of a name.

    Parameters
    ----------
    link : {"logit", "probit"} or Link
        The link.
    owner : str
        Whose parameter it is, for the message.
    """
    if isinstance(link, Link):
        return link
    if not isinstance(link, str) or link not in _LINKS:
        raise InvalidInput(f"{owner}: link={link!r}; give 'logit' or 'probit'.")
    return _LINKS[link]()
