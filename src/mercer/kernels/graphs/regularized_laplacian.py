"""`RegularizedLaplacian`: the inverse of I + λL, a kernel on the nodes of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.kernels.graphs.node_kernel import NodeKernel

__all__ = ["RegularizedLaplacian"]


class RegularizedLaplacian(NodeKernel):
    r"""The regularised Laplacian kernel on the nodes of a graph, K = (I + λL)⁻¹, L = D − A.

    Its functions f have the norm :math:`\sum_i f_i^2 + \lambda \sum_{i<j} a_{ij} (f_i - f_j)^2`:
    those that change little along edges. Its tails are heavier than those of `Diffusion`.

    *Valid when* no weight is negative: then L has no eigenvalue below 0, and those of K are
    between 0 and 1.

    Points are node ids, as the graph names them: 0 to n − 1 for a matrix.

    Parameters
    ----------
    graph : Graph, networkx graph, or symmetric matrix
        The weights of the edges, ≥ 0; self loops do not matter. It is kept as a `mercer.Graph`.
    decay : float, default=1.0
        λ > 0, how far similarity reaches.

    Notes
    -----
    Cost: up to 3000 nodes one eigendecomposition of L, kept as long as the graph is, from which
    every λ is a product of matrices. On larger graphs a block of columns of K takes some
    15·√(λ‖L‖) passes over the edges, and only columns of nodes that occur are computed; there λ‖L‖
    must not exceed 2·10⁶. As in `Diffusion`, the passes of one λ serve others.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RegularizedLaplacian
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> RegularizedLaplacian(path)([0, 1, 2])
    array([[0.625, 0.25 , 0.125],
           [0.25 , 0.5  , 0.25 ],
           [0.125, 0.25 , 0.625]])
    """

    _stiffest = 2e6

    def __init__(self, graph: Any, decay: float = 1.0):
        super().__init__(graph=graph, decay=decay)

    def _check_params(self) -> None:
        super()._check_params()
        if (self.graph.weights < 0).any():
            raise InvalidInput(
                "RegularizedLaplacian: the graph has negative weights, so I + λL need not be "
                "positive definite; use weights ≥ 0, or Diffusion, which takes any."
            )

    def _kind(self) -> str:
        return "laplacian"

    def _value(self, x: np.ndarray) -> np.ndarray:
        return 1 / (1 - float(self.decay) * x)

    def _slope(self, x: np.ndarray) -> np.ndarray:
        x = float(self.decay) * x
        return x / (1 - x) ** 2
