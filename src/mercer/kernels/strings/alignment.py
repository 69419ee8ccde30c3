"""The local alignment kernel of two strings: the sum over all local alignments with gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.checks import check_parameter
from mercer.domains import StringCollection
from mercer.errors import InvalidInput, NotAKernel, who
from mercer.kernels.base import Kernel
from mercer.kernels.strings.paired import Paired, PairedBound

# ---- `Logarithmic`: kernels known by log k, whose values may leave the range of floats ----


LARGEST = float(np.log(np.finfo(np.float64).max))
LONG = 1 << 21  # cells of one pair beyond which its rows are shared out among several calls


class Logarithmic(Paired):
    """A kernel k ≥ 0 of two sequences, computed by its logarithm.

    An author writes ``_computed(X, left, Y, right, sloped=...)``: log k of pairs as `Paired` lists
    them, and, where asked for, its derivatives in the one log-parameter. Values that overflow are
    refused, and `normalized` works with the logarithms.
    """

    def _computed(
        self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray, *, sloped: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        raise InvalidInput(f"{type(self).__name__}: define _computed(X, left, Y, right, sloped=).")

    def _pairs(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        return self._computed(X, left, Y, right, sloped=False)[0]

    def _slopes(self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray) -> np.ndarray:
        return self._computed(X, left, Y, right, sloped=True)[1][:, None]

    def _bind(self, X: Any, Y: Any = None) -> LogBound:
        return LogBound(self, X, Y)

    def _log_diag(self, X: Any) -> np.ndarray:
        """Return log k(xᵢ, xᵢ)."""
        return super()._diag(X)

    def _pull_log_diag(self, X: Any, c: Any) -> np.ndarray:
        """Return Σᵢ cᵢ ∂log k(xᵢ, xᵢ)/∂θ."""
        return super()._pull_diag(X, c)

    def _diag(self, X: Any) -> np.ndarray:
        logs = self._log_diag(X)
        return _exponential(self, logs, f"at point {int(np.argmax(logs)) if len(logs) else 0}")

    def _pull_diag(self, X: Any, c: Any) -> np.ndarray:
        return self._pull_log_diag(X, c * self._diag(X))


class LogBound(PairedBound):
    """Tiles exp(log k)."""

    def log_tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return log k on a tile; −∞ where k is 0."""
        return super().tile(rows, cols)

    def pull_log_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ ∂log Kᵢⱼ/∂θ over a tile."""
        return super().pull_theta(rows, cols, C)

    def tile(self, rows: slice, cols: slice) -> np.ndarray:
        """Return k on a tile, or refuse values that no float can hold."""
        where = f"in rows {rows.start} to {rows.stop - 1} of X"
        return _exponential(self.kernel, self.log_tile(rows, cols), where)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> np.ndarray:
        """Return Σ Cᵢⱼ Kᵢⱼ ∂log Kᵢⱼ/∂θ over a tile."""
        if not len(self.kernel.theta):
            return np.zeros(0)
        return self.pull_theta_with(rows, cols, C, self.tile(rows, cols))

    def pull_theta_with(self, rows: slice, cols: slice, C: Any, tile: Any) -> np.ndarray:
        """Return `pull_theta`, given the kernel values of the tile."""
        return self.pull_log_theta(rows, cols, C * tile)


def is_long(n: int, m: int) -> bool:
    """Whether one pair of sequences is too much work for one call of a compiled loop."""
    return n * m > LONG


def row_runs(n: int, m: int) -> list[tuple[int, int]]:
    """Return first and last row of runs of about `LONG` cells of an n × m programme."""
    step = max(1, LONG // max(1, m))
    return [(first, min(first + step, n)) for first in range(0, n, step)]


def _exponential(kernel: Kernel, logs: np.ndarray, where: str) -> np.ndarray:
    """Return exp(logs), or say where that overflows."""
    top = logs.max(initial=-np.inf)
    if not top <= LARGEST:
        raise InvalidInput(
            f"{kernel}: k(x, y) is exp({top:.4g}) {where}, too large for a float: the number of "
            "alignments grows exponentially with the length. Use kernel.normalized(), which "
            "computes with logarithms; on a column of a table, kernel.normalized().on(column)."
        )
    return np.exp(logs)


# ---- local alignment ----


STEEPEST = 100.0  # largest β·|score|: beyond, exp(β·score) is nothing beside other alignments
ROUNDING = 1e-10  # how negative an eigenvalue may be, relative to the largest, and still count as 0


class LocalAlignment(Logarithmic):
    r"""Local alignment kernel Σ_π exp(β·score(π)), over all local alignments π.

    A local alignment pairs some letters of x with letters of y, in order. Its score is the sum of
    the substitution scores S(a, b) of the pairs, less the cost of the gaps between neighbouring
    pairs: opening + (g − 1)·extension for g letters skipped in one string. The alignment without
    pairs has score 0. As β grows, log(k)/β tends to the score of Smith and Waterman (Saigo, Vert,
    Ueda and Akutsu 2004).

    Its values grow exponentially with the length: use it as ``LocalAlignment().normalized()``,
    which computes with logarithms. A string is far more like itself than like any other, and the
    more so the longer it is and the larger β: between unrelated DNA or proteins of 50 to 300
    letters the normalised values are 0.02 to 0.4 at β = 0.1, 10⁻⁷ to 0.1 at β = 0.2, and below
    10⁻¹⁰ at β = 0.5, where the matrix is nearly the identity and nothing can be learned from it.

    *Valid when* exp(βS) is positive semidefinite over the alphabet, as it is for scores of match
    and mismatch: then k is a sum of convolutions of kernels. For a matrix of scores this is
    computed; where it fails, ``psd`` is False, and ``repaired`` gives a valid kernel.

    Costs |x|·|y| steps a pair.

    Parameters
    ----------
    beta : float, default=0.1
        The weight β > 0 of scores; β times the largest score or cost must be at most 100. Try 0.05
        to 0.3, less for longer strings; where scores are twice as large, half of it. Tuned by
        models where exp(βS) is a kernel for every β.
    match, mismatch : float, default=2.0 and -1.0
        Scores of equal and of different letters; not used with `substitution`.
    opening, extension : float, default=3.0 and 1.0
        Costs ≥ 0 of the first and of every further letter of a gap.
    substitution : array of shape (a, a) or dict, optional
        Symmetric scores S of the letters of `alphabet`; or a dict from pairs of letters, such as
        "AC", to scores, either order being enough.
    alphabet : str, optional
        The letters of the rows of `substitution`; of a dict, by default those that occur in it.

    Examples
    --------
    >>> from mercer import LocalAlignment
    >>> words = ["gattaca", "attac", "ccgg"]
    >>> LocalAlignment(beta=1.0).normalized()(words).round(3)
    array([[1.   , 0.137, 0.001],
           [0.137, 1.   , 0.002],
           [0.001, 0.002, 1.   ]])
    """

    _tunable = ("beta",)
    _pace = 4.0

    def __init__(
        self,
        beta: float = 0.1,
        match: float = 2.0,
        mismatch: float = -1.0,
        opening: float = 3.0,
        extension: float = 1.0,
        substitution: Any = None,
        alphabet: str | None = None,
    ):
        super().__init__(
            beta=beta,
            match=match,
            mismatch=mismatch,
            opening=opening,
            extension=extension,
            substitution=substitution,
            alphabet=alphabet,
        )

    def _check_params(self) -> None:
        check_parameter("beta", self.beta, 0.0)
        for name in ("opening", "extension"):
            check_parameter(name, getattr(self, name), 0.0, open=False)
        for name in ("match", "mismatch"):
            check_parameter(name, getattr(self, name), -np.inf)
        if self.substitution is not None:
            _scores(self.substitution, self.alphabet)
        elif self.alphabet is not None:
            raise InvalidInput(
                f"{who()}: alphabet={self.alphabet!r} names the rows of substitution, which is not "
                "given; leave the alphabet out, since match and mismatch serve all letters."
            )
        elif self.match < self.mismatch:
            raise NotAKernel(
                f"{who()}: match={self.match!r} is below mismatch={self.mismatch!r}, so that "
                "exp(βS) is not positive semidefinite; a match must score no less."
            )
        if float(self.beta) * self._largest() > STEEPEST:
            raise InvalidInput(
                f"{who()}: beta={self.beta!r} times the largest score or cost, "
                f"{self._largest():g}, is beyond {STEEPEST:g}; such a step decides alone. Use a "
                "smaller beta, or scores and costs closer to 0."
            )

    # -- what the scores are --------------------------------------------------------------------
    @property
    def psd(self) -> bool:  # type: ignore[override]
        """Whether exp(βS) is positive semidefinite over the alphabet."""
        if self.substitution is None:
            return True
        S = float(self.beta) * _scores(self.substitution, self.alphabet)[1]
        return _is_psd(np.exp(S - S.max(initial=0.0)))

    def _own(self) -> list[tuple[str, np.ndarray]]:
        # exp(βS) is a kernel for every β > 0 just where S is one on coefficients that sum to zero
        # (Schoenberg); elsewhere a step of β might leave the kernels.
        if self.substitution is not None:
            S = _scores(self.substitution, self.alphabet)[1]
            S = S - S.mean(axis=0)
            if not _is_psd(S - S.mean(axis=1)[:, None]):
                return []
        return super()._own()

    def _largest(self) -> float:
        """Return the largest score or cost, up to its sign."""
        S = (self.match, self.mismatch)
        if self.substitution is not None:
            S = _scores(self.substitution, self.alphabet)[1].ravel()  # type: ignore[assignment]
        return float(np.abs([*S, self.opening, self.extension]).max())

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of `theta`."""
        rows = super().bounds
        if len(rows) and self._largest() > 0:
            rows[0, 1] = min(rows[0, 1], np.log(STEEPEST * (1 - 1e-9) / self._largest()))
        return rows

    def _tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return exp(βS), βS and β times match, mismatch and minus the costs of gaps."""
        beta = float(self.beta)
        costs = [self.match, self.mismatch, -self.opening, -self.extension]
        B = np.zeros((0, 0))
        if self.substitution is not None:
            B = beta * _scores(self.substitution, self.alphabet)[1]
        return np.exp(B), B, beta * np.array(costs, dtype=float)

    def _lettered(self, X: Any) -> Any:
        """Return the strings with letters counted as rows of the substitution matrix."""
        if self.substitution is None or isinstance(X, _Lettered):
            return X
        letters = _scores(self.substitution, self.alphabet)[0]
        known = np.array([ord(c) for c in letters], dtype=np.uint32)
        order = np.argsort(known)
        place = np.minimum(np.searchsorted(known, X.codes, sorter=order), len(known) - 1)
        rows = order[place]
        wrong = known[rows] != X.codes
        if wrong.any():
            at = int(np.argmax(wrong))
            i = int(np.searchsorted(X.offsets, at, side="right")) - 1
            raise InvalidInput(
                f"LocalAlignment: string {i} holds the letter {chr(int(X.codes[at]))!r}, for which "
                f"substitution has no scores; its letters are {letters!r}. Add scores, or replace "
                "the letter."
            )
        return _Lettered(rows.astype(np.uint32), X.offsets, X.kind)

    def _bind(self, X: Any, Y: Any = None) -> LogBound:
        return super()._bind(self._lettered(X), None if Y is None else self._lettered(Y))

    def _log_diag(self, X: Any) -> np.ndarray:
        return super()._log_diag(self._lettered(X))

    def _pull_log_diag(self, X: Any, c: Any) -> np.ndarray:
        return super()._pull_log_diag(self._lettered(X), c)

    # -- values ---------------------------------------------------------------------------------
    def _computed(
        self, X: Any, left: np.ndarray, Y: Any, right: np.ndarray, *, sloped: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log k of pairs, and slopes in log β where asked for."""
        from mercer.jit import local_advance, local_log_pairs, local_start, logarithm

        x, y = X.codes, Y.codes
        E, B, costs = self._tables()
        lengths = X.lengths[left], Y.lengths[right]
        size = int(lengths[1].max(initial=0)) + 1
        # One column more than is used, so that every slice is of one kind to the compiler.
        R, G = np.empty((3, size + 1))[:, :size], np.empty((3, size + 1))[:, : size * sloped]
        e, total = np.empty(size, dtype=np.int64), np.empty(3)
        if len(left) == 1 and is_long(*(int(n[0]) for n in lengths)):
            one = x[X.offsets[left[0]] : X.offsets[left[0] + 1]]
            other = y[Y.offsets[right[0]] : Y.offsets[right[0] + 1]]
            local_start(R, G, e, total)
            for first, stop in row_runs(len(one), len(other)):
                local_advance(one, other, first, stop, B, E, costs, R, G, e, total)
            return np.array([logarithm(total[0], total[2])]), total[1:2] / total[:1]
        out, slopes = np.empty(len(left)), np.empty(len(left) if sloped else 0)
        packed = x, X.offsets, left, y, Y.offsets, right
        local_log_pairs(*packed, B, E, costs, R, G, e, total, out, slopes)
        return out, slopes


class _Lettered(StringCollection):
    """Strings whose codes are rows of a substitution matrix."""


def _scores(substitution: Any, alphabet: Any) -> tuple[str, np.ndarray]:
    """Return the letters and their matrix of scores, or refuse what is none."""
    owner = "LocalAlignment"
    if isinstance(substitution, str):
        raise InvalidInput(
            f"{owner}: substitution={substitution!r}; matrices have no names here. Give finite "
            "scores: an array, with the letters of its rows as alphabet, or a dict such as "
            "{'AA': 4, 'AR': -1, ...}."
        )
    if isinstance(substitution, Mapping):
        alphabet, substitution = _from_pairs(substitution, alphabet)
    if not isinstance(alphabet, str) or not alphabet or len(set(alphabet)) < len(alphabet):
        raise InvalidInput(
            f"{owner}: alphabet={alphabet!r}; give the letters of the rows of substitution, each "
            "once, such as 'ACGT'."
        )
    try:
        S = np.asarray(substitution, dtype=float)
    except (OverflowError, TypeError, ValueError):
        S = np.zeros(0)
    a = len(alphabet)
    if S.shape != (a, a) or not np.isfinite(S).all():
        raise InvalidInput(
            f"{owner}: substitution must be finite numbers of shape ({a}, {a}), a row for each "
            f"letter of the alphabet {alphabet!r}."
        )
    if not np.array_equal(S, S.T):
        raise NotAKernel(f"{owner}: substitution is not symmetric; use (S + S.T) / 2.")
    return alphabet, S


def _from_pairs(scores: Mapping, alphabet: Any) -> tuple[Any, np.ndarray]:
    """Return the letters and the matrix of a dict from pairs of letters to scores."""
    pairs = {}
    for key, value in scores.items():
        if not isinstance(key, str | tuple) or len(key) != 2:
            raise InvalidInput(
                f"LocalAlignment: substitution has the key {key!r}; keys are pairs of letters, "
                "such as 'AC'."
            )
        pairs[tuple(key)] = value
    letters = alphabet
    if letters is None:
        letters = "".join(sorted({letter for pair in pairs for letter in pair}))
    S = [[pairs.get((a, b), pairs.get((b, a))) for b in letters] for a in letters]
    for a, row in zip(letters, S, strict=True):
        if None in row:
            raise InvalidInput(
                f"LocalAlignment: substitution has no score of {a + letters[row.index(None)]!r}; "
                "give one for each pair of letters."
            )
    return letters, np.array(S)


def _is_psd(A: np.ndarray) -> bool:
    values = np.linalg.eigvalsh(A)
    return bool(values[0] >= -ROUNDING * max(abs(values[-1]), 1e-300)) if len(values) else True
