"""`.npy` files by ranges of rows, read and never mapped or loaded whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains.blocks.block import BlockPlace, block_rows
from mercer.domains.blocks.files import FileMark, list_files
from mercer.domains.blocks.parts import BlockPart
from mercer.errors import InvalidInput
from mercer.settings import get_config

HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def npy_parts(
    X_path: Any, y_path: Any, weight_path: Any, wanted_rows: int | None
) -> tuple[list[BlockPart], int]:
    """Return readers of the blocks of `.npy` files, and how many files hold the points.

    Parameters
    ----------
    X_path, y_path, weight_path : path-like, sequence of them, or None
        Files or folders of points, targets and weights.
    wanted_rows : int, optional
        Rows of a block; from the memory budget by default.
    """
    X = NpyRows.of(X_path, "X", "fiub", (2,))
    y = None if y_path is None else NpyRows.of(y_path, "y", "fiubU", (1, 2))
    w = None if weight_path is None else NpyRows.of(weight_path, "the weights", "fiub", (1,))
    first = X.files[0]
    for name, rows in (("the targets", y), ("the weights", w)):
        if rows is not None and rows.rows != X.rows:
            raise InvalidInput(
                f"RowBlocks: {rows.files[0].mark.name!r}: {name} have {rows.rows} rows, the points "
                f"in {first.mark.name!r} {X.rows}; give one for each point."
            )

    def some(rows: NpyRows | None, a: int, b: int) -> NpyRows | None:
        return None if rows is None else rows.between(a, b)

    step = block_rows(wanted_rows, 8 * (first.shape[1] + 2), get_config().memory)
    parts = [
        BlockPart(NpyReader(X.between(a, b), some(y, a, b), some(w, a, b), a, b), a, b - a, place)
        for a, b, place in X.cuts(step)
    ]
    return parts, len(X.files)


@dataclass(frozen=True)
class _Npy:
    """One array of a file: where its entries start, and how they lie."""

    mark: FileMark
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool

    @classmethod
    def of(cls, name: str, kinds: str, role: str) -> _Npy:
        mark = FileMark.of(name)
        try:
            with open(name, "rb") as file:
                version = np.lib.format.read_magic(file)
                if version not in HEADERS:
                    raise ValueError("it holds records")
                shape, fortran, dtype = HEADERS[version](file)
                offset = file.tell()
        except (ValueError, OSError) as error:
            what = "an .npz archive, give the .npy files in it" if _zipped(name) else str(error)
            raise InvalidInput(f"RowBlocks: {name!r} is no array of numpy.save: {what}.") from None
        if dtype.kind not in kinds or dtype.hasobject:
            raise InvalidInput(
                f"RowBlocks: {name!r} holds {dtype} values; {role} must be numbers"
                + (" or labels." if "U" in kinds else ".")
            )
        needed = offset + int(np.prod(shape, dtype=object)) * dtype.itemsize
        if mark.size < needed:
            raise InvalidInput(
                f"RowBlocks: {name!r} is truncated: an array of shape {shape} takes {needed} "
                f"bytes, the file has {mark.size}. Copy it again."
            )
        return cls(mark, offset, shape, dtype, bool(fortran))

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return some rows, by reading them: a map of a file that shrinks ends the process."""
        self.mark.require_same()
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        rows, size = stop - start, self.dtype.itemsize
        try:
            with open(self.mark.path, "rb") as file:
                if not self.fortran:
                    file.seek(self.offset + start * width * size)
                    flat = np.fromfile(file, self.dtype, rows * width)
                    if flat.size == rows * width:
                        return flat.reshape(rows, *self.shape[1:])
                else:
                    out = np.empty((rows, width), self.dtype)
                    for j in range(width):
                        file.seek(self.offset + (j * self.shape[0] + start) * size)
                        out[:, j] = np.fromfile(file, self.dtype, rows)
                    return out.reshape(rows, *self.shape[1:])
        except (OSError, ValueError):
            self.mark.require_same()
            raise
        raise self.mark.changed()


def _zipped(name: str) -> bool:
    with open(name, "rb") as file:
        return file.read(2) == b"PK"


@dataclass(frozen=True)
class NpyRows:
    """The rows of `.npy` files, one after the other."""

    files: tuple[_Npy, ...]
    first: int = 0  # number of their first row

    @classmethod
    def of(cls, path: Any, role: str, kinds: str, dimensions: tuple[int, ...]) -> NpyRows:
        """Look at a file, a folder, or a list of paths."""
        files = tuple(_Npy.of(n, kinds, role) for n in list_files(path, (".npy",), ".npy"))
        first = files[0]
        for file in files:
            if len(file.shape) not in dimensions:
                legal = " or ".join(map(str, dimensions))
                raise InvalidInput(
                    f"RowBlocks: the array in {file.mark.name!r} has shape {file.shape}; {role} "
                    f"must have {legal} dimension(s), one row for each point."
                )
            if file.shape[1:] != first.shape[1:]:
                raise InvalidInput(
                    f"RowBlocks: {file.mark.name!r} has rows of shape {file.shape[1:]} and "
                    f"{first.mark.name!r} of {first.shape[1:]}; all files must have the same "
                    "columns."
                )
        return cls(files)

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(file.shape[0] for file in self.files)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return a range of rows, across files where it goes across."""
        pieces, first = [], self.first
        for file in self.files:
            last = first + file.shape[0]
            if first < stop and start < last:
                pieces.append(file.read(max(start, first) - first, min(stop, last) - first))
            first = last
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def between(self, start: int, stop: int) -> NpyRows:
        """Return the files that hold these rows only, for a reader that travels."""
        kept: list[_Npy] = []
        first = base = self.first
        for file in self.files:
            if first < stop and start < first + file.shape[0]:
                base = base if kept else first
                kept.append(file)
            first += file.shape[0]
        return NpyRows(tuple(kept), base)

    def cuts(self, step: int) -> list[tuple[int, int, BlockPlace]]:
        """Return ranges of at most `step` rows, each within one file, and where they stand."""
        out, first = [], 0
        for file in self.files:
            for i in range(0, file.shape[0], step):
                stop = min(i + step, file.shape[0])
                out.append((first + i, first + stop, BlockPlace(repr(file.mark.name), i)))
            first += file.shape[0]
        return out


@dataclass(frozen=True)
class NpyReader:
    """A block of `.npy` files."""

    X: NpyRows
    y: NpyRows | None
    weight: NpyRows | None
    start: int
    stop: int

    def __call__(self) -> tuple[Any, Any, Any]:
        """Return the points, targets and weights of the block."""
        y, w = (
            None if rows is None else rows.read(self.start, self.stop)
            for rows in (self.y, self.weight)
        )
        return self.X.read(self.start, self.stop), y, w

    @property
    def marks(self) -> tuple[FileMark, ...]:
        """The files."""
        used = [rows for rows in (self.X, self.y, self.weight) if rows is not None]
        return tuple(file.mark for rows in used for file in rows.files)
