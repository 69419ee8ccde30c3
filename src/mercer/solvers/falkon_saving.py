"""How Falkon uses a checkpoint: of which problem it is, and when it is written."""

from __future__ import annotations

from typing import Any

from mercer.engines.checkpoint import Checkpoint, fingerprint

__all__ = ["Saving"]


class Saving:
    """Keeps states of a solve in a checkpoint, or nowhere.

    A path is made a checkpoint of the problem: its centres, shapes, penalty and options, and of the
    targets and weights what is in memory, or what tells the blocks from others. Passes over blocks
    are given the checkpoint too, and keep their sums in it.

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
        self.file = checkpoint
        if checkpoint is None:
            return
        rows = problem.rows
        if not hasattr(checkpoint, "save"):
            data: list[Any] = [getattr(rows, "y", None), getattr(rows, "w", None)]
            if hasattr(getattr(rows, "rows", None), "fingerprint"):
                data.append(rows.rows.fingerprint())  # whatever the size of blocks
            shape = (rows.n, rows.m, float(problem.alpha), problem.offset, problem.outputs)
            key = fingerprint(*facts, *shape, problem.gram[0], problem.gram[-1], *data)
            self.file = Checkpoint(checkpoint, key)
        if hasattr(rows, "checkpoint"):
            rows.checkpoint = self.file

    def load(self) -> dict[str, Any] | None:
        """Return the saved state, or None."""
        found = None if self.file is None else self.file.load()
        return None if found is None else dict(found)

    def keep(self, state: dict[str, Any], now: bool) -> None:
        """Remember a state, and write it when that is due, or now."""
        if self.file is None:
            return
        if now:
            self.file.save(state)
        else:
            self.file.keep(state)
