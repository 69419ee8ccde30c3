"""Predictions from file to file: read, predicted and written a block at a time."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from mercer.domains import RowBlocks
from mercer.domains.blocks import pyarrow_parquet
from mercer.engines import refuse_target, replace_file
from mercer.errors import InvalidInput
from mercer.estimator import answers


def write_predictions(
    model: Any,
    blocks: RowBlocks,
    path: str | os.PathLike[str],
    *,
    method: str = "predict",
    overwrite: bool = True,
) -> int:
    """Write a model's predictions at points that come in blocks to a file.

    Memory is that of a few blocks, whatever the number of rows. The file appears under its path
    whole or not at all.

    Parameters
    ----------
    model : estimator
        Fitted.
    blocks : RowBlocks
        The points.
    path : str or path-like
        ``.npy`` for an array, ``.parquet`` for a table with a column for each output or class
        (needs pyarrow).
    method : str, default="predict"
        What to ask: "predict", "predict_proba", "decision_function", "transform".
    overwrite : bool, default=True
        Whether a file of that name may be replaced; if not, `FileExistsError`.

    Returns
    -------
    int
        The number of rows written.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import mercer
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> model = mercer.KernelRidge("rbf", alpha=0.1).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "predicted.npy")
    ...     mercer.write_predictions(model, mercer.RowBlocks.from_arrays(X, block_rows=20), path)
    ...     np.load(path).shape
    50
    (50,)
    """
    if not isinstance(blocks, RowBlocks):
        raise InvalidInput(
            f"write_predictions: the points are a {type(blocks).__name__}; give RowBlocks, such as "
            "RowBlocks.from_parquet(path)."
        )
    name = os.fsdecode(path)
    ending = os.path.splitext(name)[1].lower()
    if ending not in (".npy", ".parquet", ".pq"):
        raise InvalidInput(
            f"write_predictions: {name!r} ends in {ending or 'nothing'!r}; legal: .npy, .parquet."
        )
    target = refuse_target(name, overwrite)
    if any(os.path.realpath(read) == target for read in blocks.files):
        raise InvalidInput(f"write_predictions: {name!r} is read from; give another path.")
    if os.path.dirname(target) in blocks.folders:
        raise InvalidInput(
            f"write_predictions: {name!r} is in a folder whose files are read; give a path in "
            "another folder."
        )
    if not hasattr(model, method):
        raise InvalidInput(f"write_predictions: a {type(model).__name__} has no {method}.")
    values = (_array(made, method) for _, made in answers(model, blocks, method))
    if ending == ".npy":
        known = getattr(model, "classes_", None) if method == "predict" else None
        pieces: Iterator[Any] = _npy_pieces(values, blocks.n_rows, known)
    else:
        pyarrow_parquet()
        labels = getattr(model, "classes_", None) if method == "predict_proba" else None
        pieces = parquet_pieces(_columns(part, method, labels) for part in values)
    replace_file(target, pieces, overwrite)
    return blocks.n_rows


def _array(values: Any, method: str) -> np.ndarray:
    if hasattr(values, "iloc") or hasattr(values, "to_numpy"):
        values = values.to_numpy()
    values = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    if values.ndim not in (1, 2) or values.dtype.kind not in "fiubUO":
        raise InvalidInput(
            f"write_predictions: {method} gives {values.dtype} values of {values.ndim} "
            "dimensions; numbers or labels in one or two are needed."
        )
    return values


def _npy_pieces(
    parts: Iterator[np.ndarray], rows: int, labels: Any
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a file; the labels say how long text can be."""
    width: tuple[int, ...] | None = None
    for part in parts:
        part = _plain(part)
        if width is None:
            width, dtype = part.shape[1:], part.dtype
            if dtype.kind not in "fiubU":
                raise InvalidInput("write_predictions: .npy holds numbers or text only.")
            if dtype.kind == "U" and isinstance(labels, np.ndarray):
                dtype = np.promote_types(dtype, _plain(labels).dtype)
            head = io.BytesIO()
            layout = {"descr": dtype.str, "fortran_order": False, "shape": (rows, *width)}
            np.lib.format.write_array_header_1_0(head, layout)
            yield head.getvalue()
        elif part.shape[1:] != width:
            raise InvalidInput("write_predictions: blocks have answers of different widths.")
        if not np.can_cast(part.dtype, dtype, "safe"):
            raise InvalidInput(
                f"write_predictions: answers of type {part.dtype} after some of type {dtype}, "
                "which cannot hold them; write a .parquet file."
            )
        kept = np.ascontiguousarray(part.astype(dtype, copy=False))
        yield kept.reshape(-1).view(np.uint8).data


def _plain(values: np.ndarray) -> np.ndarray:
    """Return objects as numbers or text."""
    return np.array(values.tolist()) if values.dtype.kind == "O" else values


def _columns(values: np.ndarray, method: str, labels: Any) -> dict[str, Any]:
    """Return answers as named columns."""
    if values.ndim == 1:
        return {"prediction" if method == "predict" else method: values}
    stem = "probability" if labels is not None else "prediction" if method == "predict" else method
    names = range(values.shape[1]) if labels is None else labels
    return {f"{stem}_{name}": values[:, j] for j, name in enumerate(names)}


def parquet_pieces(
    batches: Iterable[Mapping[str, Any]], types: Mapping[str, Any] | None = None
) -> Iterator[bytes]:
    """Yield the bytes of a Parquet file of batches of columns, one row group a batch.

    Parameters
    ----------
    batches : iterable of mappings
        Columns by name, the same in each batch.
    types : mapping of str to pyarrow types, optional
        Types of columns that the first batch may not tell.
    """
    import pyarrow as pa

    parquet = pyarrow_parquet()
    sink = _Sink()
    writer, kinds = None, types or {}
    try:
        for batch in batches:
            names = batch if writer is None else writer.schema.names
            table = pa.table({n: pa.array(_listed(batch[n]), kinds.get(n)) for n in names})
            if writer is None:
                writer = parquet.ParquetWriter(sink, table.schema)
                kinds = {field.name: field.type for field in table.schema}
            writer.write_table(table)
            yield sink.taken()
        if writer is not None:
            writer.close()
            yield sink.taken()
    finally:
        if writer is not None and writer.is_open:
            writer.close()


def _listed(column: Any) -> Any:
    if isinstance(column, np.ndarray) and column.dtype.kind in "fiub":
        return column
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


class _Sink(io.RawIOBase):
    """A file that hands on what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self.position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self.parts.append(raw)
        self.position += len(raw)
        return len(raw)

    def tell(self) -> int:
        return self.position

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        raw = b"".join(self.parts)
        self.parts.clear()
        return raw
