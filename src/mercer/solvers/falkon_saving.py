"""How Falkon uses a checkpoint: whose it is, when it is written, and what must agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.errors import InvalidInput

__all__ = ["Saving"]


class Saving:
    """Keeps states in a checkpoint, or nowhere.

    A file belongs to a problem of the same shape and penalty whose KᵀWy is the same but for
    rounding; that of another is refused. The saved right-hand sides are used, so that the bits are
    those of the solve that was stopped.

    Parameters
    ----------
    checkpoint : path, object or None
        A path, or what has ``load()``, ``save(state)`` and ``due()``.
    owner : str
        Who solves.
    system : CentredSystem
        What is solved; its right-hand sides are set to those saved.
    """

    def __init__(self, checkpoint: Any, owner: str, system: Any):
        self.owner, self.system = owner, system
        if checkpoint is None or hasattr(checkpoint, "save"):
            self.file = checkpoint
            return
        from mercer.engines.checkpoint import Checkpoint

        facts = (owner, system.rows.n, system.m, system.t, system.alpha, system.offset)
        self.file = Checkpoint(checkpoint, "|".join(map(repr, facts)))

    def load(self) -> dict[str, Any] | None:
        """Return the saved state, or None."""
        found = None if self.file is None else self.file.load()
        if found is None:
            return None
        found = dict(found)
        B = found.pop("B", None)
        gap = np.inf if np.shape(B) != self.system.B.shape else np.abs(B - self.system.B).max()
        if not gap <= 1e-5:
            raise InvalidInput(
                f"{self.owner}: the checkpoint {getattr(self.file, 'path', self.file)} is of other "
                "data or targets; remove it, or name another file."
            )
        self.system.B = np.asarray(B)
        return {key: v.item() if np.ndim(v) == 0 else np.asarray(v) for key, v in _arrays(found)}

    def keep(self, **more: Any) -> Callable[[Any, bool], None]:
        """Return what saves a state when it is due, or now, and something more with it."""

        def save(state: Any, now: bool) -> None:
            if self.file is not None and (now or self.file.due()):
                self.file.save({**state.pack(), **more, "B": self.system.B})

        return save


def _arrays(found: dict[str, Any]) -> list[tuple[str, np.ndarray]]:
    return [(key, np.asarray(value)) for key, value in found.items()]
