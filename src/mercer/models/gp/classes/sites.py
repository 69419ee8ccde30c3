"""What every approximate posterior over latent values offers, and the algebra of Gaussian sites."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erfcx, expit, log_expit, log_ndtr, ndtr

from mercer.errors import InvalidInput, NotPositiveDefinite, speaks, who
from mercer.lapack import dpotri, dpotrs, dtrsm
from mercer.solvers.linear import mirror, potrf


class Approximation(ABC):
    """A Gaussian approximation of the posterior of latent values f at the training rows.

    The prior is f ~ N(0, K), the same K for every class. Everything a classifier needs from a
    method of inference is here, so that it need not know which method it was.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The Gram matrix; kept, never changed.
    log_evidence : float
        The logarithm of the evidence, or of what the method has in its place (a lower bound).
    mean : ndarray of shape (n,) or (n, C)
        Posterior mean (or mode) of the latent values at the rows.
    coef : ndarray like `mean`
        Coefficients with K coef = mean: the latent mean at x is Σᵢ coefᵢ k(xᵢ, x).
    converged : bool
        Whether the iteration met its tolerance.
    n_iter : int
        Iterations spent.
    residual : float
        Relative residual of the method's own equations, recomputed at the end.
    message : str
        Cause and cure where it has not converged.
    start : object
        What warm-starts the next call of the same method, also for another K.
    extra : dict
        Plain numbers that only this method has to say.
    """

    def __init__(
        self,
        K: np.ndarray,
        *,
        log_evidence: float,
        mean: np.ndarray,
        coef: np.ndarray,
        converged: bool = True,
        n_iter: int = 0,
        residual: float = 0.0,
        message: str = "",
        start: Any = None,
        extra: dict | None = None,
    ):
        self.K = K
        self.log_evidence = float(log_evidence)
        self.mean, self.coef = mean, coef
        self.converged, self.n_iter = bool(converged), int(n_iter)
        self.residual, self.message = float(residual), message
        self.start = start
        self.extra = {} if extra is None else extra

    @property
    @abstractmethod
    def sites(self) -> np.ndarray:
        """What determines the variances given K: precisions of shape (n,) or (n, C).

        A model keeps them, so that its probabilities need no inference again.
        """

    @abstractmethod
    def cotangent(self) -> np.ndarray:
        """Return d log Z/dK, symmetric (n, n), with what K does through mean and variances.

        The gradient in the kernel's parameters is ``kernel.theta_vjp(X, cotangent())``. The caller
        may change the array.
        """

    def tiles(self) -> Callable[[slice, slice], np.ndarray]:
        """Return W(rows, cols), tiles of `cotangent` as `blocks.pull_theta` asks for them.

        They are on and above the diagonal, those above it holding Wᵢⱼ + Wⱼᵢ.
        """
        W = self.cotangent()
        W = W.T if W.flags.f_contiguous else W  # symmetric: rows are read as they lie in memory

        def tile(rows: slice, cols: slice) -> np.ndarray:
            return W[rows, cols] if rows == cols else 2.0 * W[rows, cols]

        return tile

    @abstractmethod
    def variance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return the posterior variances of latent values at new points.

        Parameters
        ----------
        Kx : ndarray of shape (n, m)
            Kernel values of training rows with new points.
        diag : ndarray of shape (m,)
            k(x, x) of the new points.

        Returns
        -------
        ndarray of shape (m,) or (m, C, C)
            Variances; of several classes covariances. Never negative.
        """


class SiteApproximation(Approximation):
    """A posterior N(mean, (K⁻¹ + S)⁻¹) with a diagonal S ≥ 0: Laplace, EP and variational alike."""

    def __init__(
        self, K: np.ndarray, root: np.ndarray, factor: SiteFactor | None = None, **facts: Any
    ):
        super().__init__(K, **facts)
        self.root = root
        self._factor = factor

    @property
    def sites(self) -> np.ndarray:
        """The site precisions S, shape (n,)."""
        return np.square(self.root)

    def factor(self) -> SiteFactor:
        """Return the factor of I + S^½KS^½; made again where its memory was given away."""
        if self._factor is None or self._factor.spent:
            self._factor = SiteFactor(self.K, self.root)
        return self._factor

    def variance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return k(x, x) − kᵀ(K + S⁻¹)⁻¹k."""
        return self.factor().variance(Kx, diag)


class SiteFactor:
    """B = I + S^½KS^½ = L Lᵀ and what follows from it (Rasmussen & Williams, section 3.4.3).

    B has eigenvalues ≥ 1 whatever K, so that its factor exists where K is semidefinite, and S may
    hold zeros.

    Raises
    ------
    NotPositiveDefinite
        When K is so indefinite that B is not positive definite.
    """

    def __init__(self, K: np.ndarray, root: np.ndarray, buffer: np.ndarray | None = None):
        self.root = root
        self.buffer = square_buffer(len(root)) if buffer is None else buffer
        self.spent = False
        np.multiply(K.T, root[:, None], out=self.buffer)  # K is symmetric: Kᵀ is in Fortran order
        self.buffer *= root
        np.einsum("ii->i", self.buffer)[...] += 1.0
        if not potrf(self.buffer):
            raise NotPositiveDefinite(
                "the Gram matrix has a negative eigenvalue, or values so large that rounding "
                f"makes one (k(x, x) is up to {np.diagonal(K).max():.3g}); check the kernel with "
                "mercer.check_kernel, or bound its scale."
            )

    def logdet(self) -> float:
        """Return log |B|."""
        return float(2.0 * np.log(np.diagonal(self.buffer)).sum())

    def apply(self, V: np.ndarray) -> np.ndarray:
        """Return (K + S⁻¹)⁻¹ V = S^½B⁻¹S^½ V for V of shape (n,) or (n, t)."""
        root = self.root if V.ndim == 1 else self.root[:, None]
        out, _ = dpotrs(self.buffer, root * V, lower=1)
        return root * out.reshape(V.shape)

    def variance(self, Kx: np.ndarray, diag: np.ndarray) -> np.ndarray:
        """Return diag − diag(Kxᵀ(K + S⁻¹)⁻¹Kx), never negative."""
        V = dtrsm(1.0, self.buffer, self.root[:, None] * Kx, lower=1, overwrite_b=1)
        return np.maximum(diag - np.einsum("ij,ij->j", V, V), 0.0)

    def posterior_variance(self, K: np.ndarray) -> np.ndarray:
        """Return diag((K⁻¹ + S)⁻¹) at the training rows; n³ flops."""
        return self.variance(K, np.diagonal(K))

    def half_inverse(self) -> np.ndarray:
        """Return B⁻¹ in the memory of the factor, of which only the lower triangle is valid.

        2n³/3 flops (LAPACK potri). The factor is spent after that.
        """
        self.spent = True
        if len(self.root):
            dpotri(self.buffer, lower=1, overwrite_c=1)
        return self.buffer

    def inverse(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (K + S⁻¹)⁻¹ = S^½B⁻¹S^½ and diag(B⁻¹), in the memory of the factor.

        2n³/3 flops (LAPACK potri). The factor is spent after that. The posterior variances are
        (1 − diag(B⁻¹))/S where S > 0.
        """
        mirror(self.half_inverse().T)
        diagonal = np.diagonal(self.buffer).copy()
        self.buffer *= self.root
        self.buffer *= self.root[:, None]
        return self.buffer, diagonal


class Warm:
    """What one call leaves to the next: a mode to start from, and memory to work in."""

    def __init__(self, mean: np.ndarray, factor: Any = None):
        self.mean = mean
        self._factor = factor

    def take(self, n: int) -> Any:
        """Return the memory of an earlier factor of n rows, which is then spent, or None."""
        factor, self._factor = self._factor, None
        if factor is None or len(self.mean) != n:
            return None
        factor.spent = True
        return factor.buffer


def square_buffer(n: int) -> np.ndarray:
    """Return an n×n array in Fortran order, for factors of successive calls."""
    return np.empty((n, n), order="F")


# ---- Links: the likelihood p(t | f) of a label t = ±1 given a latent value f, with derivatives.


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
    >>> from mercer.models.gp.classes.sites import Logit
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
    >>> from mercer.models.gp.classes.sites import Probit
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


@speaks("GaussianProcessClassifier", unless_spoken=True)
def as_link(link: Any) -> Link:
    """Return the link of a name.

    Parameters
    ----------
    link : {"logit", "probit"} or Link
        The link.
    """
    if isinstance(link, Link):
        return link
    if not isinstance(link, str) or link not in _LINKS:
        raise InvalidInput(f"{who()}: link={link!r}; give 'logit' or 'probit'.")
    return _LINKS[link]()
