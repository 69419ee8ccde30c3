"""Conjugate residuals, a solver written as those of mercer are."""

from dataclasses import dataclass

import numpy as np

from mercer.errors import InvalidInput
from mercer.solvers import Linear, Solution


@dataclass(frozen=True)
class ConjugateResiduals:
    r"""Solve `Linear` by products with A alone; the residual falls with every step.

    Of all vectors of the Krylov space, conjugate gradients take the one of least energy; this
    takes the one of least residual ‖b − (A + D)x‖ (Stiefel, 1955). Several right-hand sides share
    each product.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative residual at which to stop.
    max_iter : int, default=1000
        Most products.
    """

    tol: float = 1e-6
    max_iter: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.tol < 1:
            raise InvalidInput(f"ConjugateResiduals: tol={self.tol!r}; give a number in (0, 1).")

    def solve(self, problem: Linear) -> Solution:
        """Return the solution of a `Linear` problem, converged or with the reason why not."""
        A, b, ridge = problem.checked("ConjugateResiduals")
        B = b.reshape(len(b), -1)
        D = np.broadcast_to(ridge, len(B))[:, None]
        size = np.linalg.norm(B, axis=0)
        size[size == 0] = 1.0  # of a column of zeros the answer is 0

        X, R = np.zeros_like(B), B.copy()
        P, Q = R.copy(), A @ R + D * R  # a direction, and its image
        AR, n_iter = Q.copy(), 0
        while n_iter < self.max_iter and (np.linalg.norm(R, axis=0) > 0.5 * self.tol * size).any():
            n_iter += 1
            energy = (R * AR).sum(axis=0)
            step = _ratio(energy, (Q * Q).sum(axis=0))
            X += step * P
            R -= step * Q
            AR = A @ R + D * R
            turn = _ratio((R * AR).sum(axis=0), energy)
            P, Q = R + turn * P, AR + turn * Q

        # The certificate: from the problem, not from the R that the steps have left.
        residual = float((np.linalg.norm(B - (A @ X + D * X), axis=0) / size).max(initial=0.0))
        converged = residual <= self.tol
        message = (
            f"ConjugateResiduals: the relative residual is {residual:.3g} after {n_iter} products; "
            f"the tolerance is {self.tol:g}. Raise max_iter, or use a larger ridge."
        )
        return Solution(
            X.reshape(b.shape), converged, n_iter, residual, message="" if converged else message
        )


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Return above/below, 0 where a column has come to its end."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
