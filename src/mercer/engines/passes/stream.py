"""`StreamPass`: passes over rows that come in blocks, each in memory for its turn.

The next block is read while the present one is multiplied. Blocks are added in their order, so the
bits depend on the cuts between them and on nothing else. With a checkpoint, the sums over the
blocks behind are written every so often; a pass that is begun again goes on from there, and gives
the same bits as one that was never interrupted.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np

from mercer.domains import RowBlocks, is_torch
from mercer.domains.blocks import Block
from mercer.engines.base import pick
from mercer.engines.checkpoint import Checkpoint, fingerprint
from mercer.engines.passes.base import RowPass, Step, row_pass
from mercer.errors import InvalidInput
from mercer.settings import config
from mercer.threads import Progress, ahead


class StreamPass(RowPass):
    """Rows that come in blocks, each in memory for its turn.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    rows : RowBlocks
        The rows, with their targets and weights.
    Z : canonical collection of m points
        The centres.
    checkpoint : Checkpoint, optional
        Where sums of a long pass are kept; may be set later.
    """

    def __init__(self, kernel: Any, rows: RowBlocks, Z: Any, checkpoint: Checkpoint | None = None):
        self.kernel, self.rows = kernel, rows
        self.n, self.m = rows.n_rows, kernel.domain.size(Z)
        self.Z = pick(Z).asarray(Z)
        self.squares = not is_torch(self.Z)
        self.checkpoint, self._identity = checkpoint, ""
        self._behind: dict[int, int] = {}  # checksums of blocks that were read by another
        first = rows.first()
        self._check_width(first)
        kinds = [str(getattr(A, "dtype", "")) for A in (first.points(kernel.domain), Z)]
        self.single = all(kind.endswith("float32") for kind in kinds)

    def _check_width(self, block: Block) -> None:
        if getattr(self.Z, "named", False):  # a table of the columns that the kernel looks at
            return
        shapes: list[Any] = [getattr(A, "shape", ()) for A in (block.X, self.Z)]
        if all(len(shape) == 2 for shape in shapes) and shapes[0][1] != shapes[1][1]:
            raise InvalidInput(
                f"RowBlocks: {block.source} has {shapes[0][1]} columns and the centres have "
                f"{shapes[1][1]}; both must have the same columns in the same order."
            )

    def pull(self, V: np.ndarray | None, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """Return Σ Kᵀ G and the sums, block by block in their order.

        Parameters
        ----------
        V : ndarray of shape (m, columns), or None
            What K is multiplied by; None where the step wants no values.
        step : Step
            From values to G.
        """
        out, sums = np.zeros((self.m, step.width), order="F"), np.zeros(step.n_sums)
        done, row, token = 0, 0, ""
        if self.checkpoint is not None:
            token = self._token(V, step)
            held = self.checkpoint.partial(token)
            if held is not None and held["out"].shape == out.shape:
                done, row = int(held["blocks"]), int(held["rows"])
                out[...], sums[...] = held["out"], held["sums"]
                self._behind.update(held["seen"].tolist())
        progress = Progress(self.n - row, "pass over blocks")
        begun = done
        blocks = ahead(self.rows.iterate(done))
        try:
            for block in blocks:
                if block.start != row:
                    raise InvalidInput(
                        f"RowBlocks: {block.source} begins at row {block.start} and not at "
                        f"{row}, where the one before ended; every pass must give the same blocks."
                    )
                G, s = self._pull_block(block, V, step)
                out += G
                sums += s
                done, row = done + 1, block.start + len(block)
                progress.step(len(block))
                if self.checkpoint is not None and row < self.n and self.checkpoint.due():
                    self._keep(token, out, sums, done, row)
        except KeyboardInterrupt:
            if self.checkpoint is not None and done > begun:
                self._keep(token, out, sums, done, row)
            raise
        finally:
            blocks.close()  # type: ignore[attr-defined]
        self._check_behind()
        if self.checkpoint is not None:
            self.checkpoint.drop_partial(token)
        return out, sums

    def _check_behind(self) -> None:
        """Refuse sums that were taken up, when a later pass reads other rows than they are of."""
        for start in self._behind.keys() & self.rows.seen.keys():
            if self._behind.pop(start) != self.rows.seen[start]:
                raise InvalidInput(
                    f"checkpoint: {getattr(self.checkpoint, 'path', '')!r} is of other data: the "
                    f"block of rows from {start} on was another; delete the file to begin anew, or "
                    "give another path."
                )

    def _token(self, V: np.ndarray | None, step: Step) -> str:
        """Return what tells this pass from all others."""
        if not self._identity:
            facts = (repr(self.kernel), self.rows.fingerprint(), self.rows.cuts())
            self._identity = fingerprint(*facts, self.m, self.n, _content(self.Z))
        return fingerprint(V, step, self._identity)

    def _pull_block(
        self, block: Block, V: np.ndarray | None, step: Step
    ) -> tuple[np.ndarray, np.ndarray]:
        X = block.points(self.kernel.domain)
        self._check_width(block)
        y = None if block.y is None else _column(block.y, block)
        with config(progress=False):  # the line of the whole pass says it
            part = row_pass(self.kernel, X, self.Z, y, _float(block.weight))
            return part.pull(V, step)

    def _keep(self, token: str, out: np.ndarray, sums: np.ndarray, done: int, row: int) -> None:
        known = {**self._behind, **self.rows.seen}
        seen = np.array([(a, known[a]) for a in sorted(known) if a < row], dtype=np.int64)
        state = {"out": out, "sums": sums, "blocks": done, "rows": row, "seen": seen}
        if self.checkpoint is not None:
            self.checkpoint.save_partial(token, state)


def _column(y: np.ndarray, block: Block) -> np.ndarray:
    """Targets as numbers, of shape (rows, t)."""
    if y.dtype.kind not in "fiub":
        raise InvalidInput(
            f"RowBlocks: the targets of {block.source} are {y.dtype}, no numbers; a regression "
            "needs numbers, classes need a classifier."
        )
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def _float(w: Any) -> Any:
    return None if w is None else np.asarray(w, dtype=np.float64)


def _content(Z: Any) -> Any:
    """Return what the digest of centres is made of."""
    if isinstance(Z, np.ndarray) or is_torch(Z) or hasattr(Z, "tocsr"):
        return Z
    return hashlib.blake2b(pickle.dumps(Z), digest_size=16).hexdigest()
