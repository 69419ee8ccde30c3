"""How Falkon uses a checkpoint: of which problem and data it is, and when it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.engines.checkpoint import Checkpoint, fingerprint
from mercer.errors import InvalidInput

__all__ = ["Saving"]

SAME = {False: 1e-10, True: 1e-5}  # rounding of sums over all rows, in float64 and float32
SOME = 64  # kernel values of the first and the last centre that tell centres from others


class Saving:
    """Keeps states of a solve in a checkpoint, or nowhere.

    A path is made a checkpoint of the problem: its centres, shapes, penalty and options, and of the
    targets and weights what is in memory, or what tells the blocks from others. All the data are
    told from others by the sums of the first pass, which depend on every row: a solve that goes on
    makes that pass again, see `first`. Passes over blocks are given the checkpoint too, and keep
    their sums in it.

    Parameters
    ----------
    checkpoint : path, Checkpoint or None
        Where to.
    problem : Centred
        The problem.
    *facts : anything
        What else tells this solve from others.
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
        """Return the sums of the first pass; those of a loaded state where they are the same.

        Parameters
        ----------
        pull : callable
            Makes the pass.
        """
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
