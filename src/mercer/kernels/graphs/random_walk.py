"""`RandomWalk`: graphs compared by the walks they have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.graphs.collection import GraphCollection, Graphs
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound
from mercer.kernels.checks import check_number
from mercer.kernels.graphs.common_walks import CommonBound
from mercer.kernels.graphs.edges import LARGEST, negative_edge, pull_own
from mercer.kernels.graphs.spectra import SpectralBound, radii_of

__all__ = ["RandomWalk"]

NEAR = 1e-8  # how near the largest decay the series is still summed


class RandomWalk(Kernel):
    r"""Walks that two graphs have in common, shorter ones weighing more.

    .. math:: k(G, G') = \sum_{l=0}^\infty c_l \lambda^l\, \mathbf{1}^\top A_\times^l \mathbf{1},
        \qquad c_l = 1 \text{ (geometric)} \quad\text{or}\quad c_l = 1/l! \text{ (exponential)}

    The nodes of the product graph A× are the pairs of nodes of one label; its edges are the pairs
    of edges of one label, and its weights the products of their weights. So a walk of l edges
    counts when it shows the same labels in both graphs. Without labels all pairs are alike. In
    directed graphs walks follow the arrows; a loop is an edge from a node to itself. A graph
    without nodes has the value 0.

    *Valid when* weights are not negative and, for geometric weights, λρ(A)² < 1 for every graph,
    where ρ(A) is the largest absolute eigenvalue of its adjacency matrix; other graphs are refused,
    also when they come later. Then the sum is the inner product of the walks of each sequence of
    labels, weighted by √(c_l λ^l), hence positive semidefinite.

    Parameters
    ----------
    decay : float or "auto", default="auto"
        The factor λ > 0 for each further edge. "auto" takes half of the largest legal decay of the
        training graphs, 1/(2 max ρ²), or 1/max ρ² for the exponential kind.
    kind : {"geometric", "exponential"}, default="geometric"
        The weights c_l. Exponential ones allow every decay.

    Notes
    -----
    Undirected graphs without labels take one eigendecomposition each, O(n³), and O(nm) for each
    pair of graphs of n and m nodes, exactly: 1ᵀA×ˡ1 = (1ᵀAˡ1)(1ᵀA′ˡ1). Other graphs take some
    dozens of products with A×, which is not stored, O(n·edges′ + m·edges) each. Conjugate gradients
    stop at a residual of 10⁻¹² of the solution, computed anew; series at the last digit. The
    derivative in the decay is exact. A search that tunes the decay wants
    ``bounds={"decay": (low, high)}`` with a legal ``high``.

    GraKeL's ``RandomWalk`` has the same values; its ``RandomWalkLabeled`` adds the number of
    pairs of nodes with different labels, as it counts these as walks without edges, and has these
    values with ``method_type="baseline"``; its "fast" method is less exact.

    Examples
    --------
    >>> from mercer import Graph, RandomWalk
    >>> path = Graph(edges=[(0, 1), (1, 2)])
    >>> ring = Graph(edges=[(0, 1), (1, 2), (2, 0)])
    >>> RandomWalk(0.1)([path, ring]).round(3)
    array([[11.042, 12.391],
           [12.391, 15.   ]])
    >>> RandomWalk(0.3)([path, ring])
    Traceback (most recent call last):
    mercer.errors.InvalidInput: RandomWalk: decay=0.3, and graph 1 of X has the largest ...
    """

    domain = Graphs()
    _tunable = ("decay",)

    def __init__(self, decay: float | str = "auto", kind: str = "geometric"):
        super().__init__(decay=decay, kind=kind)

    def _check_params(self) -> None:
        if isinstance(self.decay, str):
            if self.decay != "auto":
                raise InvalidInput(
                    f"RandomWalk: decay={self.decay!r}; give a number > 0 or 'auto'."
                )
        else:
            check_number("RandomWalk", "decay", self.decay, 0)
        if self.kind not in ("geometric", "exponential"):
            raise InvalidInput(
                f"RandomWalk: kind={self.kind!r}; legal are 'geometric' and 'exponential'."
            )

    def _resolve(self, X: GraphCollection, sample_weight: Any) -> dict[str, Any]:
        _check_weights(X, "X")
        rho = float(radii_of(X).max(initial=0.0))
        top = 1 / rho**2 if rho > 0 else 1.0
        return {"decay": top / 2 if self.kind == "geometric" else top}

    def _bind(self, X: GraphCollection, Y: GraphCollection | None = None) -> Bound:
        both = (X,) if Y is None else (X, Y)
        for name, Z in zip("XY", both, strict=False):
            _check_weights(Z, name)
        plain = not any(Z.labelled or Z.edge_labelled or Z.directed for Z in both)
        return (SpectralBound if plain else CommonBound)(self, X, Y)

    def _pull_diag(self, X: GraphCollection, c: Any) -> np.ndarray:
        return pull_own(self._bind(X), c)

    def _check_radii(self, radii: np.ndarray, name: str) -> None:
        """Refuse graphs on which the series does not converge, or leaves double precision."""
        if not len(radii):
            return
        i = int(np.argmax(radii))
        square, decay = float(radii[i]) ** 2, float(self.decay)
        held = f"RandomWalk: decay={decay:g}, and graph {i} of {name} has the largest eigenvalue "
        if self.kind == "geometric" and decay * square >= 1 - NEAR:
            raise InvalidInput(
                f"{held}{radii[i]:.5g}: the sum over walks converges only for "
                f"decay < {1 / square:.5g}. Try decay={0.5 / square:.2g}, "
                "fewer or lighter edges, or kind='exponential'; a search over the decay takes "
                "bounds={'decay': (low, high)}."
            )
        if decay * square > LARGEST:
            raise InvalidInput(
                f"{held}{radii[i]:.5g}: exp(decay · {square:.5g}) is beyond double precision. "
                f"Try decay={1 / square:.2g}."
            )


def _check_weights(X: GraphCollection, name: str) -> None:
    """Refuse negative weights: a product of them along a walk is no number of walks."""
    negative = negative_edge(X)
    if negative is not None:
        raise InvalidInput(
            f"RandomWalk: graph {negative[0]} of {name} has an edge of weight {negative[1]:g}; "
            "weights must be ≥ 0. Take their absolute values or squares, or leave these edges out."
        )
