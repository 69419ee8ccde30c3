"""`Combination`: a kernel made of other kernels, and the domain that serves all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from mercer.domains import (
    Domain,
    GramRows,
    IncompleteCollection,
    IncompletePoints,
    IncompleteVectors,
    Numbers,
    Objects,
    Tables,
    Vectors,
)
from mercer.domains.vectors import is_torch
from mercer.errors import InvalidInput
from mercer.kernels.base import Kernel
from mercer.kernels.bound import Bound, CombinedBound
from mercer.kernels.geometry import Geometry, geometry_of
from mercer.kernels.precomputed import Precomputed

__all__ = ["Combination"]

INCOMPLETE = (IncompleteVectors, IncompletePoints)


class Combination(Kernel):
    """A kernel made of other kernels, whose log-parameters it strings together."""

    _parts: tuple[str, ...] = ("k1", "k2")
    _bound: type[CombinedBound] = CombinedBound
    #: Whether the combination is one of kernel values alone, and brings no arrays of its own.
    _pointwise: bool = True
    #: Whether a point holds several points of the parts, one after another, `X.sizes` in number.
    _grouped: bool = False

    def _kernels(self) -> list[Kernel]:
        return [getattr(self, name) for name in self._parts]

    def _check_params(self) -> None:
        for name in self._parts:
            if not isinstance(getattr(self, name), Kernel):
                raise InvalidInput(
                    f"{type(self).__name__}: {name}={getattr(self, name)!r} is not a Kernel."
                )
        self._join([k.domain for k in self._kernels()])

    def _join(self, domains: list[Domain]) -> Domain:
        """Return the domain that serves all parts."""
        kinds = [d for d in domains if not isinstance(d, Objects)]
        if not kinds:
            return Objects()
        for kind in (Tables, GramRows):
            if any(isinstance(d, kind) for d in kinds):
                if kind is GramRows and not all(isinstance(d, GramRows) for d in kinds):
                    raise InvalidInput(
                        f"{type(self).__name__}: a precomputed kernel has no points to share with "
                        "other kernels; combine the matrices instead."
                    )
                return _all_columns(kinds) if kind is Tables else GramRows()
        whole = [d.inner if isinstance(d, INCOMPLETE) else d for d in kinds]
        if whole != kinds:
            inner = self._join(whole)
            rows = isinstance(inner, Vectors)
            return IncompleteVectors(inner) if rows else IncompletePoints(inner)
        if all(isinstance(d, Numbers) for d in kinds):
            return kinds[0] if all(d == kinds[0] for d in kinds) else Numbers()
        if all(isinstance(d, Vectors) for d in kinds):
            return Vectors()
        if all(d == kinds[0] for d in kinds):
            return kinds[0]
        names = " and ".join(sorted({d.name for d in kinds}))
        raise InvalidInput(
            f"{type(self).__name__}: kernels on {names} share no points; choose the column of each "
            "with .on(column)."
        )

    @property
    def psd(self) -> bool:  # type: ignore[override]
        """Whether all parts are positive semidefinite."""
        return all(k.psd for k in self._kernels())

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """What a point is for all parts."""
        return self._join([k.domain for k in self._kernels()])

    def _route(self, X: Any) -> Any:
        """Return what the parts see of X."""
        return X

    def _seen_by(self, part: Kernel, X: Any, name: str = "X") -> Any:
        """Return the canonical collection that a part sees of X."""
        X = self._route(X)
        takes_missing = isinstance(part.domain, IncompletePoints) or part._indifferent
        if isinstance(X, IncompleteCollection) and not takes_missing:
            X = X.complete(name)
        return part.domain.check(X, name)

    def _inside(self, X: Any) -> list[tuple[Kernel, Any]]:
        return [(k, self._seen_by(k, X)) for k in self._kernels()]

    def _diagonals(self, X: Any) -> list:
        """Return k(xᵢ, xᵢ) of the parts, all of one kind of array."""
        return self._alike([k._diag(Z) for k, Z in self._inside(X)])

    def _alike(self, arrays: list) -> list:
        """Return arrays of the parts, those of indifferent parts in the kind of the others."""
        follows = [k._indifferent for k in self._kernels()]
        lead = next((a for a, f in zip(arrays, follows, strict=True) if not f), None)
        if lead is None:
            return arrays
        return [_like(a, lead) if f else a for a, f in zip(arrays, follows, strict=True)]

    def _checked(self, X: Any, Y: Any) -> tuple[Any, Any]:
        if isinstance(self.domain, GramRows):
            return Precomputed()._checked(X, Y)
        return super()._checked(X, Y)

    @property
    def _indifferent(self) -> bool:  # type: ignore[override]
        return self._pointwise and all(k._indifferent for k in self._kernels())

    def _bind(self, X: Any, Y: Any = None) -> Bound:
        return self._bound(self, X, Y)

    def _geometries(self) -> list[Geometry | None]:
        """Return those of the parts, as seen from the points of the combination."""

        def seen(k: Kernel, g: Geometry | None) -> Geometry | None:
            def image(X: Any) -> Any:
                return g.image(self._seen_by(k, X))  # type: ignore[union-attr]

            return None if g is None else replace(g, image=image)

        return [seen(k, geometry_of(k)) for k in self._kernels()]

    def _words(self) -> list[str]:
        return [word for k in self._kernels() for word in k._words()]

    def _open(self) -> list[str]:
        return [name for k in self._kernels() for name in k._open()]

    def _asks(self) -> bool:
        return super()._asks() or any(k._asks() for k in self._kernels())

    def fit_params(self, X: Any, sample_weight: Any = None) -> Self:
        """Return the combination with the words of its parts replaced by numbers taken from X."""
        if not self._asks():
            return self
        X = self.domain.check(X)
        if self._grouped and sample_weight is not None:
            sample_weight = np.repeat(sample_weight, X.sizes)  # each has the weight of its group
        parts = {name: getattr(self, name) for name in self._parts}
        return self._replace(
            {
                name: part.fit_params(self._seen_by(part, X), sample_weight)
                for name, part in parts.items()
            }
        )

    @property
    def theta(self) -> np.ndarray:
        """Log-parameters of the parts, one after another, and those of the combination itself."""
        return np.concatenate([*(k.theta for k in self._kernels()), super().theta])

    @property
    def theta_names(self) -> list[str]:
        """Names such as ``k1__length_scale``."""
        parts = [f"{p}__{n}" for p in self._parts for n in getattr(self, p).theta_names]
        return parts + super().theta_names

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of `theta`."""
        return np.concatenate([*(k.bounds for k in self._kernels()), super().bounds])

    def with_theta(self, theta: Any) -> Self:
        """Return the combination with these log-parameters."""
        theta = self._check_theta(theta)
        changes: dict[str, Any] = {}
        start = 0
        for name, part in zip(self._parts, self._kernels(), strict=True):
            size = len(part.theta)
            changes[name] = part.with_theta(theta[start : start + size])
            start += size
        own = zip(self._own(), theta[start:], strict=True)  # numbers, not arrays
        return self._replace(changes | {name: float(np.exp(t)) for (name, _), t in own})


def _all_columns(domains: list[Domain]) -> Tables:
    """Return rows of a table that some kernels look at, each at columns of its own."""
    names: dict[str, None] = {}
    for domain in domains:
        if not isinstance(domain, Tables) or domain.columns is None:
            return Tables()
        names |= dict.fromkeys(domain.columns)
    return Tables(tuple(names))


def _like(d: Any, lead: Any) -> Any:
    """Return numbers in the kind of array of others."""
    if not is_torch(lead):
        return np.asarray(d, dtype=lead.dtype)
    import torch

    return torch.as_tensor(d, dtype=lead.dtype, device=lead.device)
