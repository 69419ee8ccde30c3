"""`FalkonNewton`: smooth losses on m centres by Newton's method, each step a weighted Falkon."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import InvalidInput
from mercer.losses import Loss, as_loss
from mercer.solvers.base import Solution, accept, either
from mercer.solvers.checks import check_limits, check_number
from mercer.solvers.falkon_cg import TINY
from mercer.solvers.falkon_descent import Descent
from mercer.solvers.falkon_problem import Centred

__all__ = ["FalkonNewton"]


@dataclass(frozen=True)
class FalkonNewton:
    """Minimise the risk of a smooth loss over the span of m centres: `Centred` with any loss.

        Σᵢ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (alpha/2) aᵀK_ZZ a,   f = Σⱼ aⱼ k(zⱼ, ·).

    A Newton step solves (KᵀHK + alpha·K_ZZ) δ = −gradient with H = diag(wℓ″) by conjugate
    gradients with Falkon's preconditioner, as exactly as the distance to the minimum asks for. H is
    made anew in every pass from the values at the rows, so that nothing of length n is kept. A step
    that does not decrease the risk is shortened, and curvature is added to the next. With
    ``loss="softmax"`` the targets are class numbers and the outputs the classes.

    Converged means that the gradient g in (a, b) is at most tol of that at 0, and the duality gap

        g_aᵀ(K_ZZ + δI)⁻¹g_a / (2 alpha) + g_b²/(2Σwℓ″)

    at most tol of the risk, up to rounding, as of `Falkon`. The first term is primal minus dual at
    the slopes wℓ′, a bound on the excess risk for every loss; a few rows of huge weight do not hide
    the others in it. The second is what the offset may gain, by a quadratic model.

    Cost: one pass an iteration of conjugate gradients, at most 50 a step, and one or two a step;
    (2/3)m³ flops a step. Some dozen passes as a rule, hundreds where alpha is small.

    Parameters
    ----------
    loss : Loss or str
        A smooth loss, a word for one, or "softmax".
    tol : float, default=1e-6
        Relative norm of the gradient wanted of every output, and relative duality gap.
    max_iter : int, default=50
        Limit of Newton steps.
    max_time : float or None, default=None
        Limit in seconds; looked at after every pass, so that at least one step is made.
    callback : callable or None, default=None
        Called as ``callback(step, residual)`` after each Newton step.
    checkpoint : path, Checkpoint or None, default=None
        Where the state is saved after a step when half a minute has passed, and before a stop; as
        of `Falkon`.

    References
    ----------
    Marteau-Ferey, Bach, Rudi, "Globally convergent Newton methods for ill-conditioned generalized
    self-concordant losses", NeurIPS 2019; Eisenstat, Walker, SIAM J. Sci. Comput. 17 (1996).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.engines.passes.base import row_pass
    >>> from mercer.solvers import Centred, FalkonNewton
    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> y = np.where(np.abs(X) < 0.5, 1.0, -1.0)
    >>> k, Z = RBF(0.5), X[::20]
    >>> problem = Centred(row_pass(k, X, Z, y), k(Z), alpha=0.1, offset=True)
    >>> solution = FalkonNewton("logistic").solve(problem)
    >>> a, b = solution.unwrap()
    >>> solution.residual < 1e-6, bool((np.sign(k(X, Z) @ a + b) == y).mean() > 0.95)
    (True, True)
    """

    loss: Any
    tol: float = 1e-6
    max_iter: int = 50
    max_time: float | None = None
    callback: Callable[[int, float], Any] | None = None
    checkpoint: Any = None

    def __post_init__(self) -> None:
        owner = "FalkonNewton"
        if not (isinstance(self.loss, str) and self.loss == "softmax"):
            loss = as_loss(self.loss, owner)
            if not loss.smooth:
                raise InvalidInput(
                    f"{owner}: loss={self.loss!r} is not smooth; give a Loss with a continuous "
                    "slope, such as mercer.losses.Logistic() or Huber(), or 'softmax'."
                )
        check_limits(self, owner)

    def solve(self, problem: Centred) -> Solution:
        """Return coefficients and offsets.

        Parameters
        ----------
        problem : Centred
            The problem; its alpha must be positive.

        Returns
        -------
        Solution
            Value ``(a, b)`` of shapes (m, t) and (t,); ``residual`` is the largest relative norm of
            a gradient, ``primal`` the sum of the risks, ``gap`` that of the duality gaps and
            ``dual`` their difference. ``extra`` holds "residuals" and "gaps", one an output (of
            classes a gap is a part of the one risk), "rounding", "passes", "preconditioner" and
            "jitter" as of `Falkon`, and "cg_iterations".
        """
        owner = "FalkonNewton"
        deadline = time.monotonic() + (np.inf if self.max_time is None else self.max_time)
        check_number(problem.alpha, "alpha", owner, 0.0)
        softmax = isinstance(self.loss, str) and self.loss == "softmax"
        loss: Loss | None = None if softmax else as_loss(self.loss, owner)
        run = Descent(problem, loss, self, deadline, owner)
        run.go()
        worst = float(run.residuals.max(initial=0.0))
        left = int((run.excess > 1.0).sum())
        s = run.state
        b = s.b - s.b.mean() if softmax else s.b  # classes: up to a constant
        primal, gap = float(s.risk.sum()), float(run.gaps.sum())
        risk = np.maximum(run.of_all(s.risk), TINY)
        return Solution(
            value=(s.a, b),
            converged=left == 0,
            n_iter=s.step,
            residual=worst,
            gap=gap,
            primal=primal,
            dual=primal - gap,
            message="" if left == 0 else self._message(run, left, worst),
            extra={
                "residuals": run.residuals,
                "gaps": run.gaps / risk,
                "rounding": float((run.of_all(run.noise) / risk).max()),
                "passes": run.passes,
                "cg_iterations": s.inner,
                "preconditioner": s.preconditioner,
                "jitter": run.P.delta,
            },
        )

    def _message(self, run: Descent, left: int, worst: float) -> str:
        risk = np.maximum(run.of_all(run.state.risk), TINY)
        gap = float((run.of_all(run.gaps) / risk).max())
        if run.limit:
            what = f"{self.max_time:g} s" if run.limit == "time" else run.limit
            cause, cure = f"the limit of {what} was reached", "raise max_iter or max_time, or alpha"
            if self.checkpoint is not None:
                cure = f"the same call goes on from the checkpoint; {cure}"
        else:
            cause = "no step decreases the risk further"
            cures = ["use a larger alpha"] + ["float64 rows"] * run.single
            cure = either(cures + accept(max(worst, gap)))
        return (
            f"FalkonNewton: {left} of {len(run.residuals)} outputs are above tol={self.tol:g} "
            f"after {run.state.step} steps and {run.passes} passes (largest gradient {worst:.3g} "
            f"of that at 0, duality gap {gap:.3g} of the risk): {cause}; {cure}."
        )
