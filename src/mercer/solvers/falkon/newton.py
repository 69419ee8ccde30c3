"""Newton steps over passes: the state, the direction by conjugate gradients, the length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from mercer.checks import Clock, check_number
from mercer.engines import Rates
from mercer.errors import InvalidInput, speaks, who
from mercer.losses import Loss, as_loss
from mercer.solvers.base import Solution, accept, check_limits, either
from mercer.solvers.cost import Cost, Facts
from mercer.solvers.falkon.cg import put, rounded
from mercer.solvers.falkon.normal import (
    ROUNDING,
    NormalEquations,
    takes_squares,
    ways_of_squares,
)
from mercer.solvers.falkon.preconditioner import (
    EPS,
    SEED,
    FalkonPreconditioner,
    KrillPreconditioner,
    probe,
)
from mercer.solvers.falkon.problem import Centred, Passes, Saving
from mercer.solvers.falkon.solver import falkon_cost
from mercer.solvers.falkon.steps import (
    Bends,
    CurvedSides,
    CurvedSketch,
    Lengths,
    RowSketch,
    Separate,
    Slopes,
    Softmax,
)
from mercer.solvers.linear import TINY, BlockCG, dots
from mercer.threads import Ticker

INNER = 50  # iterations of conjugate gradients a step at most
LENGTHS = tuple(0.5**i for i in range(1, 13)) + tuple(0.1**i for i in range(4, 11))
FLAT = 0.01  # mean curvature, relative to what the slopes suggest, below which some is added
SPREAD = 20.0  # how far the curvatures near the centres may be from their mean
FAIR = 3.0, 110.0  # passes that a Hessian costs, and centres for each that it costs more
WHITENED = 4.0  # how much more it costs where rows are whitened
ABOVE = 0.05  # as of normal equations; a Hessian only steers
POOR = 0.9  # the part of an excess that is left by a step with a Hessian that rounding has spoilt
NOISE = {False: 1e-12, True: 1e-7}  # of the risk, in float64 and float32


@dataclass(frozen=True, eq=False)
class NewtonState:
    """All that a Newton step changes; a step replaces it as a whole.

    g, gb are the gradients in a and b; c and h the sums Kᵀwℓ″ and Σwℓ″; curve a scale of the
    curvature made of slopes; damp what is added to ℓ″; one value for each output. The Hessian in
    use is that at bend_a and bend_b with bend_damp added, and has served for so many steps and the
    next one; 0 is none, where a new one is to be made. way is in which of the ways.
    """

    a: np.ndarray
    b: np.ndarray
    risk: np.ndarray
    g: np.ndarray
    gb: np.ndarray
    c: np.ndarray
    h: np.ndarray
    curve: np.ndarray
    damp: np.ndarray
    bend_a: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    bend_b: np.ndarray = field(default_factory=lambda: np.zeros(0))
    bend_damp: np.ndarray = field(default_factory=lambda: np.zeros(0))
    bent: int = 0
    way: int = 0
    step: int = 0
    inner: int = 0
    preconditioner: str = "falkon"


class Direction(NamedTuple):
    """Steps in a and b of the outputs `at`, the iterations they took, and the preconditioner."""

    at: np.ndarray
    a: np.ndarray
    b: np.ndarray
    inner: int
    name: str


class FalkonDescent(Passes):
    """Runs Newton's method on a problem; `state`, `residuals`, `limit` and `passes` tell of it."""

    def __init__(self, problem: Centred, loss: Any, options: Any, clock: Clock):
        gram = problem.checked(who())
        super().__init__(problem)
        self.ways: list[str] = []
        self._bend: tuple[Any, Any] = (None, None)
        self.loss, self.options, self.clock, self.limit = loss, options, clock, ""
        self.ticker = Ticker("falkon newton")
        self.saving = Saving(options.checkpoint, problem, "FalkonNewton", options.loss)
        saved = self.saving.load()
        with self.saving.resumable():
            self.state = self._first_pass(gram)
        self.norms = np.maximum(self._norms(self.state), np.finfo(float).tiny)
        if saved is not None:
            self.passes = int(saved.pop("passes"))
            self.state = NewtonState(**saved)
        self._judge()

    def _first_pass(self, gram: Any) -> NewtonState:
        zero, nought = np.zeros((self.m, self.t)), np.zeros(self.t)
        risk = self._risk(np.arange(self.t))
        step = Slopes(risk, nought, weights=True)
        G, sums = self.saving.first(lambda: self.pull(zero, step))
        self.weights, self.total = G[:, -1], float(sums[-1])
        self.check_total(self.total)
        self.preconditioner = FalkonPreconditioner(gram, self.weight)
        start = self._point(zero, nought, G, sums)
        if self.loss is not None and self.t == 1 and takes_squares(self.rows):
            self.ways = ways_of_squares(self, float(start["curve"].max() * self.total), ABOVE)
        # Where the curvature at 0 is next to none, a step of Newton's would go to nowhere.
        flat = start["h"] < FLAT * start["curve"] * self.total
        return NewtonState(**start, damp=np.where(flat, start["curve"], 0.0))

    # -- passes -------------------------------------------------------------------------------
    def _risk(self, chosen: np.ndarray) -> Any:
        if self.loss is None:
            return Softmax(self.t)
        return Separate(self.loss, tuple(int(i) for i in chosen))

    def _point(
        self, a: np.ndarray, b: np.ndarray, G: np.ndarray, sums: np.ndarray
    ) -> dict[str, Any]:
        """Return risk, gradient and curvature from what a pass with `Slopes` gave."""
        t = a.shape[1]
        half = self.preconditioner.buffer.lower(a, transpose=True)
        loss, gb, h, squares = (sums[i * t : (i + 1) * t] for i in range(4))
        of_all = np.full(t, loss.sum()) if self.loss is None else loss
        return {
            "a": a,
            "b": b,
            "risk": loss + 0.5 * self.alpha * dots(half, half),
            "g": G[:, :t] + self.alpha * self.preconditioner.buffer.lower(half),
            "gb": gb if self.offset else np.zeros(t),
            "c": G[:, t : 2 * t],
            "h": h,
            "curve": squares / np.maximum(2.0 * of_all, np.finfo(float).tiny),
        }

    def _norms(self, s: Any) -> np.ndarray:
        own = s.g - self.alpha * self.preconditioner.jitter * s.a
        norms = np.sqrt(dots(own, own) + s.gb**2)
        return np.full(self.t, np.sqrt((norms**2).sum())) if self.loss is None else norms

    def _judge(self) -> None:
        """Set the residuals, the duality gaps, and the excess of both over what is allowed.

        Where u = wℓ′ has Σu = 0, −u is feasible for the dual −Σwℓ*(u/w) − uᵀK(K_ZZ + δI)⁻¹Kᵀu/2α,
        which lies gᵀ(K_ZZ + δI)⁻¹g/2α below the risk, since ℓ(f) + ℓ*(ℓ′(f)) = fℓ′(f). What the
        best offset would gain is told by the slope and curvature in b.
        """
        s, tol, tiny = self.state, self.options.tol, np.finfo(float).tiny
        norms = self._norms(s)
        self.residuals = np.asarray(np.where(norms > 0, norms / self.norms, 0.0))
        half = self.preconditioner.buffer.solve_lower(s.g)
        bend = np.maximum(s.h, FLAT * s.curve * self.total + EPS * self.total)
        self.gaps = dots(half, half) / (2.0 * self.alpha) + 0.5 * s.gb**2 / bend
        # As of `CentredSystem.look`, with rows of equal weight and curvature.
        P, rows = self.preconditioner, int(self.rows.n)
        spread = P.scale * (P.buffer.diagonal() @ s.a**2)
        sums = self.m * P.scale / P.delta * 2.0 * s.curve * s.risk + s.h**2 / self.total * spread
        sums *= EPS**2 * P.scale * self.total / rows / (2.0 * self.alpha)
        self.noise = ROUNDING * (sums + P.rounding(s.a, self.alpha))
        allowed = tol * s.risk + self.noise
        ratio = self.of_all(self.gaps) / np.maximum(self.of_all(allowed), tiny)
        self.excess = np.maximum(self.residuals / tol, np.sqrt(ratio))

    def of_all(self, x: np.ndarray) -> np.ndarray:
        """Return values of outputs; of classes, which are one problem, their sum for each."""
        return np.full(len(x), x.sum()) if self.loss is None else x

    # -- steps --------------------------------------------------------------------------------
    def go(self) -> None:
        """Step until all outputs are done, or a limit is met."""
        with self.saving.resumable():
            self._go()

    def _go(self) -> None:
        stuck = 0
        try:
            while (self.excess > 1.0).any() and stuck < 4 and not self.limit:
                before = float(self.excess.max())
                self._renew()
                moved = self._step(self.state, np.flatnonzero(self.excess > 1.0))
                if moved is None and self.state.bent > 1:
                    self.state = replace(self.state, bent=0)
                    continue
                stuck = 0 if moved is not None else stuck + 1
                if moved is None:
                    damp = np.maximum(16.0 * self.state.damp, 0.1 * self.state.curve)
                    self.state = replace(self.state, damp=damp, bent=0)
                    continue
                self.state = moved
                self._judge()
                self._weigh_hessian(before)
                worst = float(self.residuals.max())
                self.ticker.tell(
                    f"step {moved.step}, gradient {worst:.1e} of {self.options.tol:.0e}"
                )
                if self.options.callback is not None:
                    self.options.callback(moved.step, worst)
                if moved.step >= self.options.max_iter:
                    self.limit = f"{self.options.max_iter} steps"
                elif self.clock.late:
                    self.limit = "time"
                self._keep(bool(self.limit))
        except KeyboardInterrupt:
            self._keep(True)
            raise
        finally:
            self.ticker.close()
        self._keep(True)

    def _keep(self, now: bool) -> None:
        self.saving.keep({**vars(self.state), "passes": self.passes}, now)

    def _step(self, s: NewtonState, at: np.ndarray) -> NewtonState | None:
        """Return the state after one step of the given outputs, None where there is none."""
        at = np.arange(self.t) if self.loss is None else at
        d = self._direction(s, at)
        slope = self.of_all(dots(s.g[:, at], d.a) + s.gb[at] * d.b)
        risk, length = self.of_all(s.risk[at]), np.ones(len(at))
        for _ in range(2):
            a, b = s.a[:, at] + length * d.a, s.b[at] + length * d.b
            G, sums = self.pull(a, Slopes(self._risk(at), b), trial=True)
            if np.isfinite(G).all() and np.isfinite(sums).all():
                new = self._point(a, b, G, sums)
                room = NOISE[self.single] * np.abs(risk)
                good = self.of_all(new["risk"]) <= risk + 1e-4 * length * slope + room
                if good.all() or (length < 1).any():
                    return self._accepted(s, d, new, good, length) if good.any() else None
            else:
                good = np.zeros(len(at), dtype=bool)
            length = np.where(good, 1.0, self._length(s, d, risk, slope))
            if not length.any():
                return None
        return None

    def _accepted(
        self, s: NewtonState, d: Direction, new: dict, good: np.ndarray, length: np.ndarray
    ) -> NewtonState:
        """Put the new values of some outputs in their places; damp less after a full step."""
        at, damp = d.at, s.damp.copy()
        grown = np.where(length < 0.1, np.maximum(4.0 * damp[at], 0.05 * s.curve[at]), damp[at])
        damp[at] = np.where(length == 1.0, 0.1 * damp[at], grown)
        damp[damp < 1e-6 * s.curve] = 0.0
        changed: dict[str, Any] = {"step": s.step + 1, "inner": s.inner + d.inner}
        changed |= {key: put(getattr(s, key), at[good], new[key][..., good]) for key in new}
        same = (length == 1.0).all() and (damp == s.damp).all()
        bent = s.bent + 1 if s.bent and same else 0
        return replace(s, **changed, damp=damp, bent=bent, preconditioner=d.name)

    def _length(
        self, s: NewtonState, d: Direction, risk: np.ndarray, slope: np.ndarray
    ) -> np.ndarray:
        """Return the length at which the risk is least among some, 0 where none decreases it."""
        at, a = d.at, s.a[:, d.at]
        step = Lengths(self._risk(at), s.b[at], d.b, LENGTHS)
        sums = self.pull(np.concatenate([a, d.a], 1), step, trial=True)[1]
        s_ = np.array(LENGTHS)[:, None]
        Ka, Kd = self.preconditioner.gram(a), self.preconditioner.gram(d.a)
        energy = dots(a, Ka) + 2 * s_ * dots(d.a, Ka) + s_**2 * dots(d.a, Kd)
        values = sums.reshape(len(LENGTHS), -1) + 0.5 * self.alpha * energy
        if self.loss is None:
            values = np.repeat(values.sum(1, keepdims=True), len(at), 1)
        values = np.where(np.isfinite(values), values, np.inf)
        best = values.argmin(0)
        falls = values[best, np.arange(len(at))] < risk + 1e-4 * s_[best, 0] * slope
        return np.where(falls, np.array(LENGTHS)[best], 0.0)

    # -- Hessians -----------------------------------------------------------------------------
    def _renew(self) -> None:
        """Make a Hessian where there is none, in the first way that has a factor."""
        while not self.state.bent and self.state.way < len(self.ways):
            s = self.state
            # A copy, by which it is told from what was made here with less damping.
            s = replace(s, bend_a=s.a.copy(), bend_b=s.b, bend_damp=s.damp, bent=1)
            self.state = s if self._hessian(s) is not None else replace(s, bent=0, way=s.way + 1)

    def _hessian(self, s: NewtonState) -> NormalEquations | None:
        """Return the Hessian that a state speaks of, None where it has no factor."""
        if self._bend[0] is not s.bend_a:
            way, risk = self.ways[s.way], self._risk(np.arange(1))
            lower = self.preconditioner.buffer.triangle() if way == "whitened" else None
            kind = np.float32 if way == "single" else np.float64
            step = CurvedSides(risk, s.bend_b, s.bend_damp, self.m, lower, kind)
            G, sums = self.pull(s.bend_a, step, trial=True)
            self.passes -= s.bent > 1  # that of a state which was saved is made once more
            made = None
            if np.isfinite(G).all() and sums[0] > 0:
                c = G[:, self.m :] / sums[0] if self.offset else np.zeros((self.m, 1))
                made = NormalEquations(G[:, : self.m], self, way, c, float(sums[0]))
            self._bend = s.bend_a, made if made is not None and made.good else None
        return self._bend[1]

    def _weigh_hessian(self, before: float) -> None:
        """Let go of the Hessian where a new one is cheaper than the steps to come with it."""
        s = self.state
        if not s.bent:
            return
        now = float(self.excess.max())
        rate = max(now, TINY) / before
        if s.bent == 2 and rate > POOR and not s.damp.any():
            self.state = replace(s, bent=0, way=s.way + 1)
            return
        price = (FAIR[0] + self.m / FAIR[1]) * (WHITENED if self.ways[s.way] == "whitened" else 1)
        if np.log(max(now, 1.0)) > -price * np.log(rate):
            self.state = replace(s, bent=0)

    # -- directions ---------------------------------------------------------------------------
    def _direction(self, s: NewtonState, at: np.ndarray) -> Direction:
        """Return the Newton step of some outputs, by conjugate gradients.

        With b = β − (c/h)ᵀv for a direction v in a, the mixed second derivatives of a and β vanish
        for one value a row, and nearly so for classes.
        """
        made = self._hessian(s) if s.bent else None
        if made is not None:
            d, db = made.step(s.g, s.gb)
            return Direction(at, d, db, 0, made.way)
        a = rounded(s.a[:, at]) if self.rounds else s.a[:, at]
        damp = s.damp[at]
        h = s.h[at] + damp * self.total
        safe = np.where(h > 0, h, 1.0)
        c = (s.c[:, at] + damp * self.weights[:, None]) / safe if self.offset else 0.0 * a
        risk = self._risk(at)
        apply, name = self._preconditioner(s, at, h, damp)

        def product(V: np.ndarray) -> np.ndarray:
            v, beta = V[:-1], V[-1]
            shift = beta - dots(c, v) if self.offset else np.zeros(len(at))
            Q, q = self.pull(np.concatenate([a, v], 1), Bends(risk, s.b[at], shift, damp))
            q = q if self.offset else np.zeros(len(at))
            return np.vstack([Q + self.alpha * self.preconditioner.gram(v) - c * q, q])

        def answer(R: np.ndarray) -> np.ndarray:
            return np.vstack([apply(R[:-1]), R[-1] / safe])

        def round_off(V: np.ndarray) -> np.ndarray:
            return np.vstack([rounded(V[:-1]), V[-1]])

        def usable(P: np.ndarray, curvature: np.ndarray) -> np.ndarray:
            return live & (curvature > 0)

        R = -np.vstack([s.g[:, at] - c * s.gb[at], s.gb[at]])  # the last row is of β
        # Forcing terms of Eisenstat and Walker: superlinear, and no digit more than will be used.
        eta = np.minimum(0.3, np.sqrt(self.residuals[at]))
        eta = np.maximum(eta, 0.3 / self.excess[at])
        Z = answer(R)
        start = self.of_all(dots(R, Z))
        block = BlockCG(np.zeros_like(R), R, Z, start, flexible=True, total=self.of_all)
        live, count = np.ones(len(at), dtype=bool), 0
        while count < INNER and live.any() and not (count and self.clock.late):
            live = block.forward(product, usable, round_off if self.rounds else None)
            count += 1
            block.turn(answer(block.R))
            live = live & (block.rz > eta**2 * start)
            block.P = np.where(live, block.P, 0.0)
        X, x = block.X[:-1], block.X[-1]
        slow = count >= INNER and bool(live.any())
        db = x - dots(c, X) if self.offset else np.zeros(len(at))
        name = "krill" if slow and KrillPreconditioner.fits(self.preconditioner) else name
        return Direction(at, X, db, count, name)

    def _preconditioner(
        self, s: NewtonState, at: np.ndarray, h: np.ndarray, damp: np.ndarray
    ) -> tuple[Any, str]:
        total = max(float(h.mean()), 64 * EPS * self.total)
        if s.preconditioner != "krill":
            d = None
            if (self.weights > 0).all():
                # The curvature near each centre, a mean with weights k(x, z) of the rows.
                d = (s.c[:, at].mean(1) + damp.mean() * self.weights) / self.weights
                middle = float(d.mean())
                d = np.clip(d, middle / SPREAD, middle * SPREAD) if middle > 0 else None
            if self.alpha > EPS * total * self.preconditioner.scale and self.preconditioner.prepare(
                total, self.alpha, self.offset, d
            ):
                return self.preconditioner.apply, "falkon"
        m = self.m
        a = rounded(s.a[:, at]) if self.rounds else s.a[:, at]
        V = np.concatenate([a, probe(m)], 1)
        sketch = CurvedSketch(self._risk(at), s.b[at], float(damp.mean()), RowSketch(2 * m, SEED))
        G, sums = self.pull(V, sketch)
        if self.offset:
            c = s.c[:, at].mean(1) + damp.mean() * self.weights
            G -= (c / total)[:, None] * sums
        return KrillPreconditioner(G, self.preconditioner, self.alpha).apply, "krill"


# ---- `FalkonNewton`: smooth losses on m centres by Newton's method, each step a weighted Falkon.


@dataclass(frozen=True)
class FalkonNewton:
    """Minimise the risk of a smooth loss over the span of m centres: `Centred` with any loss.

        Σᵢ wᵢ ℓ(yᵢ, f(xᵢ) + b) + (alpha/2) aᵀK_ZZ a,   f = Σⱼ aⱼ k(zⱼ, ·).

    A Newton step solves (KᵀHK + alpha·K_ZZ) δ = −gradient with H = diag(wℓ″). For one output and
    up to some thousand centres KᵀHK is added up in a pass, as `Falkon` does it, and its Cholesky
    factor serves the next steps too while they are cheaper than another; else conjugate gradients
    with Falkon's preconditioner solve as exactly as the distance to the minimum asks for. H is
    made anew in every pass from the values at the rows, so that nothing of length n is kept. A step
    that does not decrease the risk is shortened, and curvature is added to the next. With
    ``loss="softmax"`` the targets are class numbers and the outputs the classes.

    Converged means that the gradient g in (a, b) is at most tol of that at 0, and the duality gap

        g_aᵀ(K_ZZ + δI)⁻¹g_a / (2 alpha) + g_b²/(2Σwℓ″)

    at most tol of the risk, up to rounding, as of `Falkon`. The first term is primal minus dual at
    the slopes wℓ′, a bound on the excess risk for every loss; a few rows of huge weight do not hide
    the others in it. The second is what the offset may gain, by a quadratic model.

    Cost: n·m² flops for a Hessian, some two to eight of them, and one or two passes a step; or one
    pass an iteration of conjugate gradients, at most 50 a step, and (2/3)m³ flops a step: some
    dozen passes as a rule, hundreds where alpha is small.

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
    >>> from mercer.engines.passes import row_pass
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

    @speaks("FalkonNewton")
    def __post_init__(self) -> None:
        if not (isinstance(self.loss, str) and self.loss == "softmax"):
            loss = as_loss(self.loss, who())
            if not loss.smooth:
                raise InvalidInput(
                    f"{who()}: loss={self.loss!r} is not smooth; give a Loss with a continuous "
                    "slope, such as mercer.losses.Logistic() or Huber(), or 'softmax'."
                )
        check_limits(self)

    @speaks("FalkonNewton", unless_spoken=True)
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
        clock = Clock(self.max_time)
        check_number(problem.alpha, "alpha", 0.0)
        softmax = isinstance(self.loss, str) and self.loss == "softmax"
        loss: Loss | None = None if softmax else as_loss(self.loss, who())
        run = FalkonDescent(problem, loss, self, clock)
        run.go()
        worst = float(run.residuals.max(initial=0.0))
        left = int((run.excess > 1.0).sum())
        s = run.state
        b = s.b - s.b.mean() if softmax else s.b  # classes: up to a constant
        # As of `Falkon`: what rounding may hide, up to the tolerance where an output is solved.
        allowed = self.tol * s.risk
        most = np.where((run.excess > 1.0) | (run.gaps > allowed), np.inf, allowed)
        hidden = run.noise + ROUNDING * run.preconditioner.rounding_of_factor(s.a, run.alpha)
        gaps = np.maximum(run.gaps, np.minimum(run.gaps + hidden, most))
        primal, gap = float(s.risk.sum()), float(gaps.sum())
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
                "gaps": gaps / risk,
                "rounding": float((run.of_all(hidden) / risk).max()),
                "passes": run.passes,
                "cg_iterations": s.inner,
                "preconditioner": s.preconditioner,
                "jitter": run.preconditioner.delta,
            },
        )

    def _message(self, run: FalkonDescent, left: int, worst: float) -> str:
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
            f"{who()}: {left} of {len(run.residuals)} outputs are above tol={self.tol:g} "
            f"after {run.state.step} steps and {run.passes} passes (largest gradient {worst:.3g} "
            f"of that at 0, duality gap {gap:.3g} of the risk): {cause}; {cure}."
        )


NEWTON_PASSES = 80  # over the rows, as a rule,
FEWER = 15  # or with Hessians,
HESSIANS = 4  # of which so many are made


def falkon_newton_cost(
    facts: Facts, rates: Rates | None, sketch: Any = None, *, centers: int = 1
) -> Cost:
    """What `Falkon` takes, but for the passes of all Newton steps."""
    squares = HESSIANS if facts.outputs == 1 else 0
    passes = {"passes": NEWTON_PASSES, "fewer": FEWER, "squares": squares}
    return falkon_cost(facts, rates, sketch, centers=centers, **passes)
