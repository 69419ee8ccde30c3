"""Tensor sketch: random features of polynomial kernels, whose number does not grow as theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse as sp

from mercer import state
from mercer.errors import InvalidInput, ModelFileError
from mercer.features.base import ApproximateFeatures, pair_error
from mercer.kernels import Constant, Kernel, Linear, Polynomial, Power, Product
from mercer.memory import require_memory


def _degree(model: Any) -> int:
    """Return how many factors the sketched kernel has."""
    try:
        return len(_factors(model.kernel_)[1])
    except InvalidInput as error:
        raise ModelFileError(f"a TensorSketch with no kernel it can sketch: {error}") from error


def _width(model: Any) -> int:
    """Return the number of columns, with the constant one."""
    return model.n_features_in_ + 1


class TensorSketch(ApproximateFeatures):
    r"""Random features of a polynomial kernel, as many as wanted whatever its degree.

    A product of inner products :math:`\prod_j (x^\top x' + c_j)` is the inner product of tensor
    products of the vectors :math:`(x, \sqrt{c_j})`. Each is hashed to m numbers by a count sketch
    Cⱼ, and the sketch of their tensor product is a convolution of sketches,

    .. math:: \varphi(x) = \mathrm{FFT}^{-1}\Bigl(\prod_j \mathrm{FFT}(C_j (x, \sqrt{c_j}))\Bigr),
              \qquad \mathbf E\,\varphi(x)^\top\varphi(x') = k(x, x').

    Takes `Polynomial`, `Linear`, their products and powers, and positive multiples. Sparse rows are
    not made dense. Cost n·p·(nnz + m log m) for rows of nnz entries and degree p; the variance of a
    value is of order :math:`3^p\lVert x\rVert^{2p}\lVert x'\rVert^{2p}/m`.

    Parameters
    ----------
    kernel : Kernel or str, default="polynomial"
        The kernel; "polynomial" is (γxᵀx′ + 1)³, γ = 1/(d·Var X).
    n_components : int, default=100
        Number of features m.
    random_state : int, RandomState or None, default=None
        Source of the hashes.

    Attributes
    ----------
    hashes_ : array of shape (p, d + 1)
        The feature to which each column, and the offset, is added in each of the p sketches.
    signs_ : array of shape (p, d + 1)
        With which sign.
    error_ : float
        Estimate of the root mean square of φ(x)ᵀφ(x′) − k(x, x′) over pairs of training points.
    error_std_ : float
        The standard error of that estimate.
    kernel_ : Kernel
        The kernel.
    n_features_in_ : int
        Columns of the training points.

    See Also
    --------
    mercer.Nystroem : Features of any kernel, which follow the data.

    References
    ----------
    Pham and Pagh, "Fast and scalable polynomial kernels via explicit feature maps", 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Polynomial, TensorSketch
    >>> X = np.random.default_rng(0).normal(size=(200, 30)) / 30**0.5
    >>> sketch = TensorSketch(Polynomial(3), n_components=2000, random_state=0).fit(X)
    >>> Phi = sketch.transform(X)
    >>> Phi.shape, Polynomial(3).n_features(X)
    ((200, 2000), 5456)
    >>> bool(sketch.error_ < 0.5)
    True
    """

    _state = state.worded(
        {
            "kernel_": state.Anything(),
            "n_components_": state.SizeOf("m"),
            "n_features_in_": state.SizeOf("d"),
            "hashes_": state.Whole(_degree, _width, kind="i", least=0, below="m"),
            "signs_": state.Whole(_degree, _width, kind="i"),
            "error_": state.Anything(),
            "error_std_": state.Anything(),
            "feature_names_in_": state.Spare(),
        },
        state.PARTS_MISFIT,
        lacks=state.PARTS_MISFIT,
    ) | {"kernel_": state.Anything(lacks="a {} with no kernel it can sketch: 'kernel_'")}
    _rules = ((state.PARTS_MISFIT, lambda model: (np.abs(model.signs_) == 1).all()),)
    _any_kernel = False

    def __init__(
        self, kernel: Any = "polynomial", n_components: int = 100, random_state: Any = None
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state

    def _require(self, kernel: Kernel) -> None:
        if not _factors(kernel)[1]:
            raise InvalidInput(f"{kernel} does not look at the points; add k = xᵀx′.")

    def _learn(
        self, kernel: Kernel, X: Any, weights: np.ndarray | None, rng: Any, rows: Any
    ) -> None:
        shape = (len(_factors(kernel)[1]), X.shape[1] + 1)
        require_memory(
            min(48 * int(self.n_components), 2**62),
            f"TensorSketch: {self.n_components} features of a row",
            "Use fewer n_components",
        )
        self.kernel_ = kernel
        self.n_components_ = int(self.n_components)
        self.hashes_ = rng.randint(self.n_components_, size=shape).astype(np.int64)
        self.signs_ = (2 * rng.randint(2, size=shape) - 1).astype(np.int8)
        self.error_, self.error_std_ = pair_error(kernel, X, weights, self._map, rng)

    # -- parts ----------------------------------------------------------------------------------
    def _map(self, X: Any) -> np.ndarray:
        scale, factors = _factors(self.kernel_)
        tables = [self._table(j) for j in range(len(factors))]
        with np.errstate(over="ignore", invalid="ignore"):
            return np.sqrt(scale) * self._sketch(X, factors, tables)

    def _sketch(self, X: Any, factors: list[tuple[Linear, float]], tables: list) -> np.ndarray:
        """Return the sketch of the tensor product; a convolution by the Fourier transform."""
        m, product = self.n_components_, None
        for (linear, offset), table in zip(factors, tables, strict=True):
            part = linear._map(X) @ table[:-1]
            part = part.toarray() if sp.issparse(part) else np.asarray(part)
            part += np.sqrt(offset) * table[-1:].toarray()
            if len(factors) == 1:
                return part
            turned = scipy.fft.rfft(part, axis=1)
            product = turned if product is None else np.multiply(product, turned, out=product)
        return scipy.fft.irfft(product, n=m, axis=1)

    def _table(self, j: int) -> Any:
        """Return the count sketch C as a sparse matrix of shape (d + 1, m)."""
        width = self.hashes_.shape[1]
        entries = (self.signs_[j].astype(np.float64), self.hashes_[j], np.arange(width + 1))
        return sp.csr_array(entries, shape=(width, self.n_components_))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _factors(kernel: Any) -> tuple[float, list[tuple[Linear, float]]]:
    """Return c and factors (linear kernel, offset) with k = c·Π (linear + offset), or refuse."""
    kind = type(kernel)
    if kind is Constant:
        return float(kernel.value), []
    if kind is Linear:
        return 1.0, [(kernel, 0.0)]
    if kind is Polynomial:
        # (s/ℓ² + c)^m = ℓ^(−2m) (s + cℓ²)^m; the number of factors is known before ℓ
        scale = kernel.length_scale
        m, square = int(kernel.degree), 1.0 if scale is None or isinstance(scale, str) else scale**2
        return square**-m, [(Linear(), float(kernel.offset) * square)] * m
    if kind in (Product, Power):
        parts = [_factors(part) for part in kernel._kernels()]
        parts *= int(kernel.degree) if kind is Power else 1
        scale = float(np.prod([c for c, _ in parts]))
        return scale, [factor for _, factors in parts for factor in factors]
    raise InvalidInput(
        f"{kernel} is no product of polynomial kernels. Polynomial, Linear, their products and "
        "powers, and positive multiples can be sketched; use mercer.Nystroem, which takes any "
        "kernel, or mercer.RandomFourierFeatures for stationary ones."
    )
