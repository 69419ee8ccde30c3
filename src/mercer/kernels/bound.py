"""A kernel bound to two collections: evaluates tiles and pulls cotangents back."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.domains import namespace
from mercer.errors import InvalidInput


def array_of(X: Any) -> Any:
    """Return the array that carries the dtype and device of a collection, or None."""
    return X if hasattr(X, "dtype") and not isinstance(X, tuple) else None


class Bound:
    """k on X × Y, ready to be evaluated tile by tile.

    Whatever costs O(nd) is done once here, so that a tile costs only its entries. ``Y is None``
    means K(X, X): then ``symmetric`` is true and entries on the diagonal are exact.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X, Y : canonical collections
        As returned by ``kernel.domain.check``.
    """

    whole = False  # compute in one tile (torch autograd must see one expression)
    slow = False  # a route of many passes was taken, since rounding forbids the usual one
    threads = True
    fresh = False  # a tile is an array of its own, which the caller may write to
    flagged = True  # NumPy's floating-point flags tell of an overflow in a tile
    tile_entries: int | None = None  # entries that are a tile's work, where each costs much

    def __init__(self, kernel: Any, X: Any, Y: Any = None):
        self.kernel = kernel
        self.symmetric = Y is None
        self.collections = X, X if Y is None else Y
        size = kernel.domain.size
        self.shape = (size(X), size(X if Y is None else Y))
        self.workspace = kernel.workspace
        example = array_of(X)
        self.xp = namespace(example)
        self._like = example
        self.flagged = not (sp.issparse(X) or sp.issparse(Y))
        if self.xp is np:
            single = example is not None and example.dtype == np.float32
            self.dtype: Any = np.dtype(np.float32 if single else np.float64)
            self.itemsize = self.dtype.itemsize
        else:
            self.dtype = X.dtype if X.dtype.is_floating_point else self.xp.float64
            self.itemsize = self.dtype.itemsize
            self.threads = False
            self.whole = bool(X.requires_grad or (Y is not None and Y.requires_grad))

    def follow(self, lead: Bound) -> None:
        """Take over the kind of array of another bound kernel."""
        self.xp, self._like = lead.xp, lead._like
        self.dtype, self.itemsize = lead.dtype, lead.itemsize
        self.threads, self.whole = lead.threads, lead.whole

    @property
    def name(self) -> str:
        """The kernel in words, its numbers in four digits, for messages."""
        return str(self.kernel)

    def rows_of(self, index: np.ndarray) -> Bound:
        """Return k on some of the rows, as points of another collection, against all of Y."""
        X, Y = self.collections
        return self.kernel._bind(self.kernel.domain.take(X, index), Y)

    def at(self, X: Any) -> Bound:
        """Return k at new points X against all of Y, which may be used as it was prepared."""
        return self.kernel._bind(X, self.collections[1])

    # -- what a kernel defines ---------------------------------------------------------------
    def verify(self) -> None:
        """Refuse what is plainly no kernel, before one half of K(X, X) stands for the other."""

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return k on the given rows and columns."""
        raise InvalidInput(f"{self.name}: a bound kernel must define tile(rows, cols).")

    def times(self, tile: np.ndarray, rows: slice, cols: slice) -> np.ndarray:
        """Multiply a tile of another kernel by k, in place."""
        return np.multiply(tile, self.tile(rows, cols), out=tile)

    def product(self, V: Any) -> Any:
        """Return K V where it needs no tiles, as for ΦΨᵀV with sparse Φ and Ψ; None otherwise."""
        if self.xp is np or self.whole or V.requires_grad:
            return None
        fused = self.fused()
        return None if fused is None else self.narrow(fused.times(V))

    def fused(self) -> Any:
        """Return K as `engines.device.fused` multiplies by it on a device; None for tiles."""
        return None

    def gradient(self, coef: Any) -> Any:
        """Return Σⱼ cⱼ ∇ₓ k(xᵢ, yⱼ) for all rows i where a device needs no tiles; None for them."""
        return None

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile."""
        if len(self.kernel.theta):
            raise InvalidInput(f"{self.name}: no derivative in its parameters is defined.")
        return self.zeros((0,), wide=True)

    def pull_theta_with(self, rows: slice, cols: slice, C: Any, tile: Any) -> Any:
        """Return `pull_theta`, given the kernel values of the tile, which may save work."""
        return self.pull_theta(rows, cols, C)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the rows Σⱼ Cᵢⱼ ∇ₓ k(xᵢ, yⱼ) over a tile."""
        raise InvalidInput(
            f"{self.name}: it has no gradient in x. Differentiable are the radial, dot-product and "
            "periodic kernels and their sums, products, powers and column choices."
        )

    # -- arrays of the right kind ------------------------------------------------------------
    def _wide(self, wide: bool) -> Any:
        return self.xp.float64 if wide else self.dtype

    def empty(self, shape: tuple, wide: bool = False) -> Any:
        """Allocate; ``wide`` for float64 sums."""
        if self.xp is np:
            return np.empty(shape, self._wide(wide))
        return self.xp.empty(shape, dtype=self._wide(wide), device=self._like.device)

    def zeros(self, shape: tuple, wide: bool = False) -> Any:
        """Allocate zeros."""
        out = self.empty(shape, wide)
        out[...] = 0
        return out

    def ones(self, shape: tuple) -> Any:
        """Allocate ones."""
        out = self.empty(shape)
        out[...] = 1
        return out

    def narrow(self, A: Any) -> Any:
        """Return float64 sums in the dtype of the kernel values."""
        return A.astype(self.dtype, copy=False) if self.xp is np else A.to(self.dtype)

    def asarray(self, V: Any) -> Any:
        """Bring coefficients to the dtype and device of the kernel values."""
        if self.xp is np:
            return np.asarray(V, dtype=self.dtype)
        if isinstance(V, np.ndarray) and (not V.flags.writeable or min(V.strides, default=0) < 0):
            V = V.copy()  # torch cannot wrap such memory
        return self.xp.as_tensor(V, dtype=self.dtype, device=self._like.device)

    def on_diagonal(self, rows: slice, cols: slice) -> tuple[Any, Any] | None:
        """Positions inside the tile that lie on the diagonal of a symmetric matrix."""
        low, high = max(rows.start, cols.start), min(rows.stop, cols.stop)
        if not self.symmetric or low >= high:
            return None
        index = np.arange(low, high)
        return index - rows.start, index - cols.start


class CombinedBound(Bound):
    """A kernel made of other kernels: tiles are combined, cotangents handed to the parts.

    Subclasses define ``combine(tiles, rows, cols)`` and ``share(tiles, C, rows, cols)``, the list
    of cotangents ∂L/∂K_part.
    """

    plain = False  # all that depends on the points is in the parts

    def __init__(self, kernel: Any, X: Any, Y: Any = None):
        super().__init__(kernel, X, Y)
        self.parts = []
        for part in kernel._kernels():
            inner_X = kernel._seen_by(part, X, "X")
            inner_Y = None if Y is None else kernel._seen_by(part, Y, "Y")
            if inner_Y is not None:
                inner_X, inner_Y = part.domain.match(inner_X, inner_Y)
            self.parts.append(part._bind(inner_X, inner_Y))
        leads = [p for p in self.parts if not p.kernel._indifferent] or self.parts
        first = leads[0]
        self.xp, self._like = first.xp, first._like
        self.dtype = max((p.dtype for p in leads), key=lambda t: t.itemsize)
        self.itemsize = self.dtype.itemsize
        self.threads = all(p.threads for p in self.parts)
        self.whole = any(p.whole for p in self.parts)
        self.flagged = all(p.flagged for p in self.parts)
        self.slow = any(p.slow for p in self.parts)
        self.workspace = max(p.workspace for p in self.parts) + len(self.parts)
        costly = [p.tile_entries for p in self.parts if p.tile_entries is not None]
        self.tile_entries = min(costly) if costly else None
        for part in self.parts:
            if part.kernel._indifferent:
                part.follow(self)

    def at(self, X: Any) -> Bound:
        """Return k at new points X; the parts use Y as they prepared it."""
        Y, kernel = self.collections[1], self.kernel
        rows = isinstance(X, np.ndarray) and isinstance(Y, np.ndarray) and X.dtype == Y.dtype
        if not (self.plain and rows and X.dtype.kind == "f" and self.xp is np):
            return super().at(X)
        new = copy.copy(self)
        new.symmetric, new.shape = False, (len(X), self.shape[1])
        new.collections = X, Y
        pairs = zip(self.parts, kernel._kernels(), strict=True)
        new.parts = [part.at(kernel._seen_by(k, X)) for part, k in pairs]
        for part in new.parts:
            if part.kernel._indifferent:
                part.follow(self)
        new.slow = any(part.slow for part in new.parts)
        new.workspace = max(part.workspace for part in new.parts) + len(new.parts)
        return new

    def follow(self, lead: Bound) -> None:
        """Take over the kind of array of another bound kernel, parts included."""
        super().follow(lead)
        for part in self.parts:
            part.follow(lead)

    def verify(self) -> None:
        """Refuse what is plainly no kernel, part by part."""
        for part in self.parts:
            part.verify()

    def combine(self, tiles: list, rows: slice, cols: slice) -> Any:
        """Return the tile of the combination."""
        return tiles[0]

    def share(self, tiles: list, C: Any, rows: slice, cols: slice) -> list:
        """Return the cotangent of each part."""
        return [C]

    def writes_to(self, part: Bound) -> bool:
        """Whether a tile of a part may be changed to become one of the combination."""
        return part.fresh and self.xp is np and not self.whole and part.dtype == self.dtype

    def _tiles(self, rows: slice, cols: slice) -> list:
        return [part.tile(rows, cols) for part in self.parts]

    def tile(self, rows: slice, cols: slice) -> Any:
        """Return k on the given rows and columns."""
        return self.combine(self._tiles(rows, cols), rows, cols)

    def pull_theta(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return Σ Cᵢⱼ ∂Kᵢⱼ/∂θ over a tile."""
        tiles = self._tiles(rows, cols)
        shares = self.share(tiles, C, rows, cols)
        return self._strung(
            p.pull_theta_with(rows, cols, c, tile)
            for p, c, tile in zip(self.parts, shares, tiles, strict=True)
        )

    def _strung(self, pulled: Iterable[Any]) -> Any:
        """Return the derivatives of the parts in one row."""
        parts = list(pulled)
        return self.xp.concatenate(parts) if self.xp is np else self.xp.cat(parts)

    def pull_points(self, rows: slice, cols: slice, C: Any) -> Any:
        """Return the rows Σⱼ Cᵢⱼ ∇ₓ k(xᵢ, yⱼ) over a tile."""
        shares = self.share(self._tiles(rows, cols), C, rows, cols)
        pulled = [p.pull_points(rows, cols, c) for p, c in zip(self.parts, shares, strict=True)]
        return sum(pulled[1:], pulled[0])


def dense_rows(X: Any, rows: slice) -> Any:
    """Return rows of a dense or sparse collection as a dense array."""
    return X[rows].toarray() if sp.issparse(X) else X[rows]
