"""Samples as a test takes them: canonical points, a kernel made for them, weights, randomness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.domains import (
    Domain,
    Numbers,
    Table,
    Vectors,
    concatenate,
    is_torch,
    odd_point,
    to_host,
)
from mercer.domains.tables import is_frame
from mercer.errors import InvalidInput, said, speaking_for, who
from mercer.estimator import check_weights
from mercer.kernels import RBF, Kernel, as_kernel, require_psd
from mercer.operators import Place, place_of


@dataclass(frozen=True, eq=False)
class Pair:
    """Two variables observed together, each with its kernel.

    Parameters
    ----------
    kernel_x, kernel_y : Kernel
        Without words.
    X, Y : canonical collections
        Row i of both belongs together; of precomputed kernels the Gram matrices.
    n : int
        Number of rows.
    weights : ndarray of shape (n,) or None
        Weights ≥ 0; None where all are one.
    place : Place or None
        Where matrices are computed; None for NumPy's memory.
    """

    kernel_x: Kernel
    X: Any
    kernel_y: Kernel
    Y: Any
    n: int
    weights: np.ndarray | None
    place: Place | None = None


def named_kernel(kernel: Any) -> Kernel:
    """Return a kernel; one given by its name has the scale of the median distance."""
    k = as_kernel(kernel)
    require_psd(k)
    if isinstance(kernel, str) and k.get_params(deep=False).get("length_scale") == "scale":
        k.set_params(length_scale="median")
    return k


def _on_host(X: Any, name: str) -> np.ndarray:
    """Return a tensor as an array, in a precision that NumPy has."""
    if str(X.layout) != "torch.strided" or X.is_meta:
        what = "is on the device 'meta'" if X.is_meta else f"has the layout {X.layout}"
        raise InvalidInput(f"{who()}: the tensor {name} {what}; give numbers, {name}.to_dense().")
    return np.asarray(to_host(X))


def one_sample(X: Any, kernel: Any, name: str = "X") -> tuple[Kernel, Any]:
    """Return the kernel, words not yet resolved, and the points in the form of its domain.

    A kernel left out is RBF at the median distance, and one given by its name has the scale of the
    median distance, too. Numbers in one dimension are one column.
    """
    k = RBF("median") if kernel is None else named_kernel(kernel)
    if is_torch(X):
        X = _on_host(X, name)
    elif isinstance(X, dict):
        X = Table(X)
    frame = not isinstance(X, np.ndarray) and (isinstance(X, Table) or is_frame(X))
    if isinstance(k.domain, Vectors | Numbers) and not frame:
        X = _as_column(X)
    try:
        points = k.domain.check(X, name)
    except InvalidInput as error:
        text = said(error, "Vectors", "Tables", "Objects", "Numbers")
        cure = ""
        if frame and "where numbers belong" in text and "datetime64" not in text:
            cure = (
                " mercer.TableEncoder().fit(both), on the rows of all samples, encodes: transform "
                "each sample with it."
            )
        elif kernel is None and "a kernel for such points" not in text and not _numeric(X):
            cure = " Without a kernel the points must be numbers; give a kernel for such data."
        raise InvalidInput(f"{who()}: {text}{cure}") from None
    if k.domain.size(points) == 0:
        raise InvalidInput(f"{who()}: {name} is empty; give at least one point.")
    if isinstance(k.domain, Vectors) and isinstance(points, np.ndarray):
        points = points.astype(np.float64, copy=False)
    return k, points


def pool(
    samples: list[Any], kernel: Any, weights: list[Any], names: list[str], fit: bool = True
) -> tuple[Kernel, Any, list[int], np.ndarray | None]:
    """Return the kernel made for all points, the points of all samples, their sizes and weights.

    Columns that have names are matched by them.
    """
    several = [Table(X) if isinstance(X, dict) else X for X in samples]
    checked = [one_sample(several[0], kernel, names[0])]
    k, Z = checked[0]
    if isinstance(k.domain, Vectors):
        several = _same_columns(several, names)
    for X, name in zip(several[1:], names[1:], strict=True):
        checked.append(one_sample(X, kernel, name))
    sizes = [k.domain.size(Z)]
    for (_, points), name in zip(checked[1:], names[1:], strict=True):
        sizes.append(k.domain.size(points))
        if not k.domain.holds_points and np.ndim(Z) != np.ndim(points):
            flat = names[0] if np.ndim(Z) == 1 else name
            raise InvalidInput(
                f"{who()}: {flat} holds one number for each point, no rows of kernel values; with "
                "a precomputed kernel give K[:n] and K[n:] of the matrix of all points."
            )
        widths = [getattr(part, "shape", ())[1:] for part in (Z, points)]  # tables have none
        widths = [width[0] for width in widths if width]
        if len(widths) == 2 and widths[0] != widths[1]:
            raise InvalidInput(
                f"{who()}: {names[0]} has {widths[0]} columns and {name} has {widths[1]}; all "
                "samples need the same columns in the same order."
            )
        try:
            Z = concatenate(k.domain, Z, points)
        except InvalidInput as error:
            raise InvalidInput(f"{who()}: {said(error, 'Points')}") from None
    w: np.ndarray | None = None
    if any(weight is not None for weight in weights):
        parts = []
        for weight, size, name in zip(weights, sizes, names, strict=True):
            with speaking_for(f"{who()} (weights of {name})"):
                given = check_weights(weight, size)
            parts.append(np.ones(size) if given is None else given)
        w = np.concatenate(parts)
    Z = _square(k.domain, Z, sizes, names)
    return k.fit_params(Z, w) if fit else k, Z, sizes, w


def paired(X: Any, Y: Any, kernel_x: Any, kernel_y: Any, sample_weight: Any) -> Pair:
    """Return two variables observed together, each with a kernel made for it.

    X, Y : collections of n points
        Row i of both belongs together; of a precomputed kernel the Gram matrix.
    kernel_x, kernel_y : Kernel, str, callable or None
        The kernels; RBF at the median distance when left out.
    sample_weight : array of shape (n,) or None
        Weights of the rows.
    """
    (kx, ky), (A, B), w = together([X, Y], [kernel_x, kernel_y], ["X", "Y"], sample_weight)
    return Pair(kx, A, ky, B, kx.domain.size(A), w, place_of(X, Y))


def together(
    variables: Sequence[Any], kernels: Sequence[Any], names: Sequence[str], sample_weight: Any
) -> tuple[list[Kernel], list[Any], np.ndarray | None]:
    """Return kernels made for variables observed together, their points, and the weights."""
    made = [one_sample(*each) for each in zip(variables, kernels, names, strict=True)]
    sizes = [k.domain.size(Z) for k, Z in made]
    for m, name in zip(sizes, names, strict=True):
        if m != sizes[0]:
            raise InvalidInput(
                f"{who()}: {names[0]} has {sizes[0]} rows and {name} has {m}; row i of both must "
                "belong together."
            )
    w = check_weights(sample_weight, sizes[0])
    points = [
        _square(k.domain, Z, sizes[:1], [name]) for (k, Z), name in zip(made, names, strict=True)
    ]
    fitted = [k.fit_params(Z, w) for (k, _), Z in zip(made, points, strict=True)]
    return fitted, points, w


def as_counts(weights: np.ndarray | None) -> np.ndarray | None:
    """Return weights as whole numbers if that is what they are, else None."""
    if weights is None or not (weights == np.floor(weights)).all() or weights.max() > 2**31:
        return None
    return weights.astype(np.int64)


# -------------------------------------------------------------------------------------- parts
def _numeric(X: Any) -> bool:
    try:
        return np.asarray(X).dtype.kind in "fiubc"
    except (TypeError, ValueError):
        return False


def _as_column(X: Any) -> Any:
    """Numbers in one dimension are n points of one column."""
    if not hasattr(X, "__len__") or hasattr(X, "tocsr") or odd_point(X) is not None:
        return X
    try:
        values = np.asarray(X)
    except ValueError:  # rows of different lengths, for the domain to refuse
        return X
    return values[:, None] if values.ndim == 1 and values.dtype.kind in "fiub" else X


def _same_columns(samples: list[Any], names: list[str]) -> list[Any]:
    """Return samples whose named columns stand in the order of the first that has names."""
    if all(isinstance(X, np.ndarray) for X in samples):
        return samples
    named = [isinstance(X, Table) or is_frame(X) for X in samples]
    if sum(named) < 2:
        return samples
    out, first = list(samples), named.index(True)
    wanted = Table.from_frame(samples[first], names[first]).names
    for i in range(first + 1, len(samples)):
        if not named[i]:
            continue
        table = Table.from_frame(samples[i], names[i])
        missing = [name for name in wanted if name not in table.names]
        extra = [name for name in table.names if name not in wanted]
        if missing or extra:
            lacks = f" lacks {', '.join(missing)}" if missing else ""
            more = f" has {', '.join(extra)} more" if extra else ""
            raise InvalidInput(
                f"{who()}: {names[i]}{lacks}{' and' * bool(missing and extra)}{more}, compared to "
                f"the columns of {names[first]}; choose the same columns of all samples."
            )
        if list(table.names) != list(wanted):
            out[i] = Table({name: table[name] for name in wanted})
    return out


def _square(domain: Domain, Z: Any, sizes: list[int], names: list[str]) -> Any:
    """Return points, or the Gram matrix of all; or say what its rows are expected to be."""
    if domain.holds_points:
        return Z
    total = sum(sizes)
    if np.ndim(Z) != 2 or np.shape(Z)[1] != total:
        what = " and ".join(names)
        many = f"K[:n] and K[n:] of the {total} × {total} matrix of all points"
        raise InvalidInput(
            f"{who()}: {what} hold{'s' * (len(sizes) == 1)} {total} rows of kernel values with "
            f"{np.shape(Z)[-1]} column{'s' * (np.shape(Z)[-1] != 1)}; "
            + (f"give {many}." if len(sizes) > 1 else "give the square Gram matrix.")
        )
    return domain.check_training(
        Z, names[0] if len(sizes) == 1 else "the Gram matrix of all points"
    )
