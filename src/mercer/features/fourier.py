"""Random Fourier features: cosines and sines at frequencies drawn from a kernel's spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import checks, state
from mercer.domains import Table, Vectors
from mercer.domains.tables import select
from mercer.features.base import ApproximateFeatures, pair_error
from mercer.kernels import METHODS, Kernel, Source, require_spectral, spectral_measure
from mercer.memory import require_memory


class RandomFourierFeatures(ApproximateFeatures):
    r"""Cosines and sines at random frequencies, whose inner product is a stationary kernel's value.

    .. math:: \varphi(x) = \bigl(\sqrt{w_i}\cos\omega_i^\top x,\ \sqrt{w_i}\sin\omega_i^\top x
              \bigr)_i, \qquad \mathbf E\,\varphi(x)^\top\varphi(x') = k(x, x'),

    with frequencies drawn from the kernel's spectral density: Gaussian for `RBF`, Student's t with
    2ν degrees of freedom for `Matern`, a gamma mixture of Gaussians for `RationalQuadratic`, a
    Cauchy variable a column for `Laplacian`, whole turns for `Periodic`, Gaussian around those of
    the waves for `SpectralMixture`. Frequencies of a product are sums; a sum shares them out in
    proportion to k(x, x). Multiples, powers and ``.on(columns)`` work as well. A kernel without a
    spectral density is refused by name.

    Cost n·d·m for m features and no kernel values; the error falls like 1/√m whatever the data.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A stationary kernel on rows of numbers; "rbf" takes its length scale from the data.
    n_components : int, default=100
        Number of features, two for each frequency. An odd one out is a constant where the kernel
        holds one, which takes no sine, and else a cosine at a random phase.
    method : {"orthogonal", "plain", "quasi"}, default="orthogonal"
        Frequencies that are orthogonal in blocks of d (columns that are independent, as for
        `Laplacian`, come from a Latin hypercube), independent ones, or quasi-random ones from a
        scrambled Sobol sequence, best for few columns. All three are unbiased. Of a product the
        factors are drawn apart, so that the latter two gain less: ``RBF([1, 2])`` is better than
        ``RBF(1).on(0) * RBF(2).on(1)``.
    random_state : int, RandomState or None, default=None
        Source of the frequencies.

    Attributes
    ----------
    frequencies_ : array of shape (⌈m/2⌉, d)
        The frequencies ω.
    weights_ : array of shape (⌈m/2⌉,)
        The weights w.
    phase_ : float or None
        The phase of the last feature where their number is odd; of a constant it is 0.
    error_ : float
        Estimate of the root mean square of φ(x)ᵀφ(x′) − k(x, x′) over pairs of training points.
    error_std_ : float
        The standard error of that estimate.
    center_ : array of shape (d,)
        The mean of the training points, subtracted for accuracy; it does not change the kernel.
    columns_ : tuple or None
        The columns that the kernel looks at, where they have names or it does not look at all.
    kernel_ : Kernel
        The kernel with words resolved.
    n_features_in_ : int
        Columns of the training points.

    See Also
    --------
    mercer.Nystroem : Features of any kernel, which follow the data.

    References
    ----------
    Rahimi and Recht, "Random features for large-scale kernel machines", 2007; Yu, Suresh,
    Choromanski, Holtmann-Rice, Kumar, "Orthogonal random features", arXiv:1610.09072; Avron,
    Sindhwani, Yang, Mahoney, "Quasi-Monte Carlo feature maps", arXiv:1412.8293.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, RandomFourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> features = RandomFourierFeatures(RBF(2.0), n_components=1000, random_state=0).fit(X)
    >>> Phi = features.transform(X)
    >>> Phi.shape, bool(features.error_ < 0.02)
    ((500, 1000), True)
    >>> bool(abs(Phi @ Phi.T - RBF(2.0)(X)).max() < 0.15)
    True
    """

    _parameters = {"method": checks.Word(*METHODS, says="give one of {}")}
    _state = state.worded(
        {
            "kernel_": state.Anything(),
            "frequencies_": state.Doubles("m", "d", finite=False),
            "weights_": state.Doubles("m", least=0),
            "phase_": state.Maybe(state.Such(float)),
            "center_": state.Doubles("d"),
            "columns_": state.Maybe(state.Tuple("d")),
            "error_": state.Anything(),
            "error_std_": state.Anything(),
            **state.INPUTS,
        },
        state.PARTS_MISFIT,
        lacks=state.PARTS_MISFIT,
    )
    _rules = ((state.PARTS_MISFIT, lambda model: len(model.weights_) > 0),)
    _any_kernel = False

    def __init__(
        self,
        kernel: Any = "rbf",
        n_components: int = 100,
        method: str = "orthogonal",
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.method = method
        self.random_state = random_state

    def _require(self, kernel: Kernel) -> None:
        require_spectral(kernel)

    def _learn(
        self, kernel: Kernel, X: Any, weights: np.ndarray | None, rng: Any, rows: Any
    ) -> None:
        count = int(self.n_components)
        require_memory(
            min(16 * count * max(1, X.shape[1]), 2**62),
            f"RandomFourierFeatures: the frequencies of {count} features",
            "Use fewer n_components",
        )
        named = isinstance(X, Table) and X.named
        keys = list(X.names) if named else list(range(X.shape[1]))
        measure = self._owned(spectral_measure, kernel, keys)
        used = list(measure.columns)
        drawn = self._owned(measure.draw, -(-count // 2), Source(self.method, rng))
        still = ~drawn.frequencies.any(axis=1)
        order = np.argsort(still, kind="stable")  # the odd one out needs no sine if it can
        self.kernel_ = kernel
        every = not named and len(used) == len(keys)
        self.columns_ = None if every else tuple(keys[i] for i in used)
        self.frequencies_ = np.ascontiguousarray(drawn.frequencies[order][:, used])
        self.weights_ = drawn.weights[order]
        phase = 0.0 if still.any() else float(rng.uniform(0, 2 * np.pi))
        self.phase_ = phase if count % 2 else None
        self.center_ = _mean(self._matrix(X), weights)
        self.error_, self.error_std_ = pair_error(kernel, X, weights, self._map, rng)

    # -- parts ----------------------------------------------------------------------------------
    def _matrix(self, X: Any) -> Any:
        """Return the columns that have frequencies, as rows of numbers."""
        if self.columns_ is not None and not self.columns_:  # a constant looks at none
            return np.empty((X.shape[0], 0))
        X = X if self.columns_ is None else select(X, list(self.columns_))
        return self._owned(Vectors().check, X)

    def _map(self, X: Any) -> np.ndarray:
        X = self._matrix(X)
        m = self._n_features_out
        pairs, root = m // 2, np.sqrt(self.weights_)
        out = np.empty((X.shape[0], m))
        with np.errstate(over="ignore", invalid="ignore"):
            # A point far from the origin has a phase of few digits; its distance to the mean does
            # not. Sparse rows stay sparse, and the shift goes into the phase.
            if sp.issparse(X):
                phase = X @ self.frequencies_.T - self.frequencies_ @ self.center_
            else:
                phase = (X - self.center_) @ self.frequencies_.T
            np.cos(phase[:, :pairs], out=out[:, :pairs])
            np.sin(phase[:, :pairs], out=out[:, pairs : 2 * pairs])
            if self.phase_ is not None:
                length = np.sqrt(2) if self.frequencies_[-1].any() else 1.0
                out[:, -1] = length * np.cos(phase[:, -1] + self.phase_)
        out *= np.concatenate([root[:pairs], root[:pairs], root[pairs:]])
        return out

    @property
    def _n_features_out(self) -> int:
        return 2 * len(self.weights_) - (self.phase_ is not None)


def _mean(X: Any, weights: np.ndarray | None) -> np.ndarray:
    """Return the mean row, finite also where a sum of the rows is not."""
    w = np.ones(X.shape[0]) if weights is None else weights
    return np.asarray((X.T @ (w / w.sum())) if X.shape[1] else np.zeros(0), dtype=np.float64)
