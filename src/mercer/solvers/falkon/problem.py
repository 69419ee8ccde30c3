"""`Centred`: regularised least squares in the span of m centres, and the system it amounts to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.checks import check_index, check_number
from mercer.domains import is_torch
from mercer.domains.blocks import no_weight
from mercer.engines import Checkpoint, fingerprint
from mercer.errors import InvalidInput, speaking_for, who
from mercer.solvers.base import column_norms
from mercer.solvers.falkon.normal import ROUNDING, NormalEquations, takes_squares, ways_of_squares
from mercer.solvers.falkon.preconditioner import EPS, FalkonPreconditioner
from mercer.solvers.falkon.steps import NormalSides, Products, Residuals, RightSides

# ---- How Falkon uses a checkpoint: of which problem and data it is, and when it is written ----


SAME = {False: 1e-10, True: 1e-5}  # rounding of sums over all rows, in float64 and float32
SOME = 64  # kernel values of the first and the last centre that tell centres from others


class Saving:
    """Keeps states of a solve in a checkpoint, or nowhere.

    A path is made a checkpoint of the problem: its centres, shapes, penalty and options, and of the
    targets and weights what is in memory, or what tells the blocks from others. All the data are
    told from others by the sums of the first pass, which depend on every row: a solve that goes on
    makes that pass again, see `first`. Passes over blocks are given the checkpoint too, and keep
    their sums in it. The facts are what else tells this solve from others.
    """

    def __init__(self, checkpoint: Any, problem: Any, *facts: Any):
        self.file, self.single = checkpoint, bool(getattr(problem.rows, "single", False))
        self._first: dict[str, Any] = {}
        if checkpoint is None:
            return
        rows = problem.rows
        if not hasattr(checkpoint, "save"):
            data: list[Any] = [getattr(rows, "y", None), getattr(rows, "w", None)]
            if hasattr(getattr(rows, "rows", None), "fingerprint"):
                data.append(rows.rows.fingerprint())  # whatever the size of blocks
            key = {
                "solver": " ".join(map(str, facts)),
                "alpha": float(problem.alpha),
                "kernel": repr(getattr(rows, "bound", rows).kernel),
                "n_centers": int(rows.m),
                "intercept": bool(problem.offset),
                "outputs": int(problem.outputs),
                "n_rows": int(rows.n),
                "centers": [float(k) for i in (0, -1) for k in problem.gram[i][:SOME]],
                "options": [fingerprint(*facts)],
                "data": [fingerprint(*data)],
            }
            self.file = Checkpoint(checkpoint, key)
        if hasattr(rows, "checkpoint"):
            rows.checkpoint = self.file

    def load(self) -> dict[str, Any] | None:
        """Return the saved state, or None."""
        found = None if self.file is None else self.file.load()
        if found is None:
            return None
        self._first = {name: found.pop(name) for name in ("first_pass", "first_sums")}
        return dict(found)

    def first(
        self, pull: Callable[[], tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sums of the first pass; those of a loaded state where they are the same."""
        G, sums = pull()
        if self._first:
            known, known_sums = self._first["first_pass"], self._first["first_sums"]
            tol = SAME[self.single]
            if not (
                _same(known, G, tol) and _same(known_sums[:, None], sums[:, None], SAME[False])
            ):
                raise InvalidInput(
                    f"checkpoint: {self.file.path!r} is of other data: the sums over all rows "
                    "differ; delete the file to begin anew, or give another path."
                )
            G[...], sums[...] = known, known_sums  # in the layout of a pass, for the same bits
            return G, sums
        self._first = {"first_pass": G, "first_sums": sums}
        return G, sums

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """Write the state when Ctrl-C ends a solve, and say in a note how to go on."""
        try:
            yield
        except KeyboardInterrupt as stop:
            if self.file is not None:
                self.file.flush()
                if self.file.written:
                    stop.add_note(
                        f"the same fit with checkpoint={self.file.path!r} goes on from "
                        f"{self._place()}"
                    )
            raise

    def _place(self) -> str:
        state = self.file.load()
        if state is None:
            return "the middle of its first pass"
        return f"step {state.get('iteration', state.get('step'))}"

    def keep(self, state: dict[str, Any], now: bool) -> None:
        """Remember a state, and write it when that is due, or now."""
        if self.file is None:
            return
        state = {**state, **self._first}
        if now:
            self.file.save(state)
        else:
            self.file.keep(state)


def _same(A: np.ndarray, B: np.ndarray, tol: float) -> bool:
    """Whether two matrices have the same columns, but for rounding."""
    return A.shape == B.shape and bool((np.abs(A - B) <= tol * np.abs(A).max(0, initial=0.0)).all())


# ---- falkon problem ----


CANCELS = 0.1  # of KᵀWy that is left without the mean, below which digits were lost


@dataclass(frozen=True, eq=False)
class Centred:
    """Regularised risk of f = Σⱼ aⱼ k(zⱼ, ·) + b on n rows that are known by passes.

    For least squares, with K = k(X, Z) and W = diag(w), minimise

        ½ Σᵢ wᵢ (yᵢ − f(xᵢ))² + (alpha/2) aᵀK_ZZ a,

    that is (KᵀWK + alpha·K_ZZ) a = KᵀW(y − b). `FalkonNewton` takes other losses of y and f.

    Parameters
    ----------
    rows : RowPass
        The rows of K with targets and weights, see `mercer.engines.passes.base.row_pass`.
    gram : ndarray or tensor of shape (m, m)
        K_ZZ, best in float64. The m × m work is done where it lives.
    alpha : float
        The penalty ≥ 0.
    offset : bool, default=False
        Whether there is an offset b; otherwise it is 0.
    outputs : int, default=1
        How many targets t there are, or classes.
    overwrite : bool, default=False
        Permission to destroy `gram`: one m × m matrix is enough then.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF
    >>> from mercer.engines.passes import row_pass
    >>> from mercer.solvers import Centred, Falkon
    >>> X = np.linspace(0, 1, 500)[:, None]
    >>> k, Z, y = RBF(0.2), X[::25], np.sin(6 * X)
    >>> solution = Falkon(tol=1e-10).solve(Centred(row_pass(k, X, Z, y), k(Z), alpha=1e-3))
    >>> a, b = solution.unwrap()
    >>> a.shape, b, bool(np.abs(k(X, Z) @ a - y).max() < 0.01)
    ((20, 1), array([0.]), True)
    """

    rows: Any
    gram: Any
    alpha: float
    offset: bool = False
    outputs: int = 1
    overwrite: bool = False

    def checked(self, owner: str) -> Any:
        """Return K_ZZ as the solver may use it, or raise `InvalidInput`."""
        with speaking_for(owner):
            check_number(self.alpha, "alpha", 0.0, closed=True)
            check_index(self.outputs, "outputs", 1)
            m = int(self.rows.m)
            gram: Any = self.gram if is_torch(self.gram) else np.asarray(self.gram)
            if tuple(gram.shape) != (m, m):
                raise InvalidInput(
                    f"{who()}: gram has shape {tuple(gram.shape)}, but there are {m} centres; give "
                    f"k(Z) of shape ({m}, {m})."
                )
            if m == 0 or int(self.rows.n) == 0:
                raise InvalidInput(
                    f"{who()}: {int(self.rows.n)} rows and {m} centres; at least one of each is "
                    "needed."
                )
            if self.overwrite:
                return gram
            if is_torch(gram):
                return gram.detach().clone()
            return np.array(gram, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class CentredPoint:
    """What is true at some coefficients, one a target, all in units of the norms.

    R are the residuals of the system; `residual` their norms without δ, with what rounding may hide
    of them; `gap` and `risk` the duality gaps and the risks; `noise` the part of a gap that
    rounding of the sums makes up.
    """

    R: np.ndarray
    residual: np.ndarray
    gap: np.ndarray
    risk: np.ndarray
    noise: np.ndarray


class Passes:
    """The rows of a problem, with a count of the passes over them."""

    def __init__(self, problem: Centred):
        self.passes = 0
        self.rows, self.alpha, self.offset = problem.rows, float(problem.alpha), problem.offset
        self.m, self.t, self.total = int(self.rows.m), problem.outputs, 0.0
        self.rounds = bool(getattr(self.rows, "rounds", False))
        self.single = bool(getattr(self.rows, "single", False))
        self.rows.repeated = True

    def pull(
        self, V: np.ndarray | None, step: Any, trial: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Make a pass, count it, and refuse what is not finite unless it is a trial."""
        with np.errstate(over="ignore", invalid="ignore"):
            G, sums = self.rows.pull(V, step)
        self.passes += 1
        if not trial and not (np.isfinite(G).all() and np.isfinite(sums).all()):
            raise InvalidInput(
                f"{who()}: a pass over the rows gave NaN or infinity; check the rows, targets "
                "and weights for NaN, and scale targets that are very large."
            )
        return G, sums

    @property
    def weight(self) -> float:
        """Σw/alpha where kernel values are float32, else 0."""
        if not self.single:
            return 0.0
        return self.total / self.alpha if self.alpha > 0 else np.inf

    def check_total(self, total: float) -> None:
        """Refuse weights that are all 0, or sum to less."""
        if total == 0:
            raise no_weight()
        if not total > 0:
            raise InvalidInput(f"{who()}: the weights sum to {total:g}; give weights ≥ 0.")


class CentredSystem(Passes):
    """(KᵀWK − ccᵀ/Σw + α(K_ZZ + δI)) a = KᵀW(y − ȳ), c = Kᵀw, with right-hand sides of norm 1.

    b = (Σwy − cᵀa)/Σw. Without an offset c, ȳ and b are 0.
    """

    def __init__(self, problem: Centred, saving: Saving | None = None, tol: float = 0.0):
        gram = problem.checked(who())
        super().__init__(problem)
        self.tol, self.normal = tol, None
        self.preconditioner: Any = None
        self.ways = ["normal"] if takes_squares(self.rows) else []
        known = hasattr(self.rows, "w")
        if self.ways:  # one pass or three: values that cost little are not worth new memory
            costly = getattr(getattr(self.rows, "bound", None), "tile_entries", None)
            self.rows.repeated = costly is not None
        if self.ways and (known or not self.single):
            # The ridge of float32 rows depends on the weights.
            w = self.rows.w if known else None
            self.total = float(self.rows.n if w is None else np.sum(w))
            self.preconditioner = FalkonPreconditioner(gram, self.weight)
            self.ways = ways_of_squares(self, self.total)
        square = self._first_pass(Saving(None, problem) if saving is None else saving)
        if self.preconditioner is None:
            self.preconditioner = FalkonPreconditioner(gram, self.weight)
        if square is not None:
            self.normal = NormalEquations(square, self, self.ways[0], self.c, self.total)

    def sides(self, way: str) -> NormalSides:
        """Return the step of a pass for normal equations."""
        lower = self.preconditioner.buffer.triangle() if way == "whitened" else None
        return NormalSides(self.t, self.m, lower, np.float32 if way == "single" else np.float64)

    def equations(self, way: str) -> NormalEquations:
        """Return the normal equations, from a pass of their own where the first was another."""
        if self.normal is None or self.normal.way != way:
            G, _ = self.pull(None, self.sides(way))
            self.normal = NormalEquations(G[:, : self.m], self, way, self.c, self.total)
        return self.normal

    def _first_pass(self, saving: Saving) -> np.ndarray | None:
        square = None

        def pull() -> tuple[np.ndarray, np.ndarray]:
            nonlocal square
            if not self.ways:
                return self.pull(None, RightSides(self.t))
            G, sums = self.pull(None, self.sides(self.ways[0]))
            square = G[:, : self.m]
            return G[:, self.m :], sums

        G, sums = saving.first(pull)
        self.total, wy = float(sums[0]), sums[1 : 1 + self.t]
        self.check_total(self.total)
        self.mean = wy / self.total if self.offset else np.zeros(self.t)
        self.c = G[:, -1:] / self.total if self.offset else np.zeros((self.m, 1))  # c/Σw
        self.B = G[:, :-1] - self.c * wy
        self.start = 0.5 * (sums[1 + self.t :] - self.mean * wy)  # the risks at a = 0
        self.lengths = np.sqrt(sums[1 + self.t :])  # of what sums are made of
        size = column_norms(G[:, :-1])
        if (column_norms(self.B) < CANCELS * size).any():  # a mean far from 0: subtract it first
            step = Residuals(self.mean, tuple(range(self.t)), np.zeros(self.t))
            R, rest = self.pull(np.zeros((self.m, self.t)), step)
            self.B, self.start = R - self.c * rest[: self.t], rest[self.t : 2 * self.t]
            self.lengths = np.sqrt(2.0 * self.start)
        # The certificate is relative to KᵀW(y − ȳ); where that is rounding there is nothing to do.
        self.B[:, column_norms(self.B) <= 1e-14 * size] = 0.0
        self.norms = column_norms(self.B)
        self.units = np.where(self.norms > 0, self.norms, 1.0)
        self.B /= self.units
        return square

    def product(self, P: np.ndarray) -> np.ndarray:
        """Return the system's matrix times P, in one pass."""
        Q, _ = self.pull(P, Products((self.c.T @ P)[0]))
        Q += self.alpha * self.preconditioner.gram(P)
        return Q

    def offsets(self, X: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return b for coefficients in units of the norms."""
        scaled = X * self.norms[chosen]
        return np.asarray(self.mean[chosen] - (self.c.T @ scaled)[0])

    def gap(self, R: np.ndarray) -> np.ndarray:
        """Return the duality gaps of residuals R, both in units of the norms; 0 for alpha = 0.

        With v = W(y − Ka − b) the dual vᵀy − ½vᵀW⁻¹v − vᵀK(K_ZZ + δI)⁻¹Kᵀv/2α lies
        rᵀ(K_ZZ + δI)⁻¹r/2α below the risk at a; ‖L⁻¹r‖² for r takes m² flops.
        """
        if self.alpha == 0:
            return np.zeros(R.shape[1])
        half = self.preconditioner.buffer.solve_lower(R)
        return np.asarray(np.einsum("ij,ij->j", half, half) / (2.0 * self.alpha))

    def look(self, X: np.ndarray, chosen: np.ndarray) -> CentredPoint:
        """Return the residuals at X afresh, and what they say; a pass, unless sums say as much.

        X has a column for each of the chosen targets, in units of the norms.
        """
        known = None if self.normal is None else self.normal.look(X, chosen)
        return self._pass_at(X, chosen) if known is None else CentredPoint(*known)

    def _pass_at(self, X: np.ndarray, chosen: np.ndarray) -> CentredPoint:
        scaled = X * self.norms[chosen]
        P, norms = self.preconditioner, self.units[chosen]
        # |Σ kᵢⱼaⱼ| is rounded by eps·√Σ(kᵢⱼaⱼ)², kᵢⱼ² ≤ k(xᵢ, xᵢ)k(zⱼ, zⱼ)
        spread = P.scale * (P.buffer.diagonal() @ scaled**2)
        step = Residuals(self.offsets(X, chosen), tuple(int(i) for i in chosen), spread)
        G, sums = self.pull(scaled, step)
        slope, loss, squares, sizes = sums.reshape(4, -1)
        # Σ w r is 0 but for rounding; what is left of it belongs to b, not to a.
        G -= self.c * (slope if self.offset else 0.0)
        half = P.buffer.lower(X, transpose=True)
        R = G / norms - self.alpha * P.buffer.lower(half)
        energy = 0.5 * self.alpha * np.einsum("ij,ij->j", half, half)
        noise = np.zeros(len(chosen))
        if self.alpha > 0:
            # A sum Σ kᵢⱼ wᵢeᵢ is rounded by eps·‖k‖·‖We‖/√n or so, each of the m on its own, and
            # (K_ZZ + δI)⁻¹ makes 1/δ of it; rounding of eᵢ itself is left in the range of Kᵀ, where
            # it makes k(xᵢ, xᵢ) or less.
            sums = self.m * P.scale / P.delta * squares + sizes
            sums = EPS**2 * P.scale * (sums / norms / norms) / (2.0 * self.alpha)
            noise = ROUNDING * (sums + P.rounding(X, self.alpha))
        own = self.alpha * P.jitter * X
        risk = loss / norms / norms + energy
        # The same of the residual; K_ZZ as LLᵀ is rounded by √m·eps of √k(z, z)√k(z′, z′).
        hidden = P.scale * np.sqrt(squares + sizes) + self.alpha * np.sqrt(self.m * spread)
        hidden = ROUNDING * EPS * np.sqrt(self.m) * hidden / norms
        residual = column_norms(R + own) + hidden
        return CentredPoint(R, residual, self.gap(R), risk, noise)
