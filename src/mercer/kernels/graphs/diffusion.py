"""`Diffusion`: the matrix exponential of a graph, a kernel on its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.kernels.graphs.edges import LARGEST
from mercer.kernels.graphs.node_action import NodeMatrix
from mercer.kernels.graphs.node_kernel import NodeKernel

__all__ = ["Diffusion"]


class Diffusion(NodeKernel):
    r"""The diffusion kernel on the nodes of a graph, K = exp(λB), or exp(−λL).

    :math:`K = \sum_{m \ge 0} \frac{\lambda^m}{m!} B^m`: nodes are alike when many short walks
    join them, walks of m steps counting λᵐ/m!. With ``laplacian``, L = D − A, and K = exp(−λL) says
    how much of what starts at one node has come to the other after the time λ.

    *Valid when* B is symmetric: the eigenvalues of exp(λB) are exp(λμ) > 0, whatever the signs of
    the entries of B.

    Points are node ids, as the graph names them: 0 to n − 1 for a matrix.

    Parameters
    ----------
    graph : Graph, networkx graph, or symmetric matrix
        The weights of the edges are the entries of B; negative ones and a diagonal are legal. It
        is kept as a `mercer.Graph`.
    decay : float, default=1.0
        λ > 0, how far similarity reaches.
    laplacian : bool or "normalized", default=False
        Take −L in the place of B: L = D − A, or I − D^(−1/2) A D^(−1/2), where weights must not
        be negative.

    Notes
    -----
    Cost: up to 3000 nodes one eigendecomposition of the matrix, kept as long as the graph is, from
    which every λ is a product of matrices. On larger graphs a block of columns of K takes some
    √(λ‖B‖) to λ‖B‖ passes over the edges, only columns of nodes that occur are computed, and
    K V takes as many columns as V has. For the pairs of m nodes what the passes found is kept,
    8m² bytes for each, and serves all other λ: a search over λ costs little more than one value.

    The eigenvalues of λB must stay below 700, where exp overflows, and on large graphs between two
    numbers that differ by at most 10⁷. B − cI has the same kernel up to the factor exp(−λc).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Diffusion
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> Diffusion(path, laplacian=True)([0, 1, 2]).round(3)
    array([[0.526, 0.317, 0.158],
           [0.317, 0.367, 0.317],
           [0.158, 0.317, 0.526]])
    """

    _stiffest = 1e7

    def __init__(self, graph: Any, decay: float = 1.0, laplacian: bool | str = False):
        super().__init__(graph=graph, decay=decay, laplacian=laplacian)

    def _check_params(self) -> None:
        super()._check_params()
        word = isinstance(self.laplacian, str) and self.laplacian == "normalized"
        if not word and not isinstance(self.laplacian, bool | np.bool_):
            raise InvalidInput(
                f"Diffusion: laplacian={self.laplacian!r}; give True, False or 'normalized'."
            )
        if word and (self.graph.weights < 0).any():
            raise InvalidInput(
                "Diffusion: the graph has negative weights, and a normalized Laplacian divides by "
                "the roots of their sums; use laplacian=True."
            )

    def _kind(self) -> str:
        if isinstance(self.laplacian, str):
            return "normalized"
        return "laplacian" if self.laplacian else "adjacency"

    def _value(self, x: np.ndarray) -> np.ndarray:
        return np.exp(float(self.decay) * x)

    def _slope(self, x: np.ndarray) -> np.ndarray:
        x = float(self.decay) * x
        return x * np.exp(x)

    def _highest(self, matrix: NodeMatrix) -> tuple[float, str]:
        top, why = super()._highest(matrix)
        largest = matrix.largest
        if largest <= 0 or top <= LARGEST / largest:
            return top, why
        top = LARGEST / largest
        other = ", or laplacian=True" if self._kind() == "adjacency" else ", or weights ≥ 0"
        return top, (
            f"exp(decay · {largest:.4g}) overflows, {largest:.4g} being the largest eigenvalue of "
            f"the matrix; use a decay below {top:.3g}{other}."
        )
