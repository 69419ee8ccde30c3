"""Solution: what every solver returns, the answer together with its certificate."""

from __future__ import annotations

import math
import numbers
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

from mercer.errors import NotConverged

__all__ = ["Solution", "accept", "either"]

NOTHING = 0.1  # a relative residual from which an answer is none


@dataclass(frozen=True, eq=False)
class Solution:
    """An answer and the evidence for it.

    Parameters
    ----------
    value : object
        The answer; its type is the solver's (an array, an `EigenPairs`, ...).
    converged : bool
        Whether the certificate meets the solver's tolerance.
    n_iter : int, default=0
        Iterations spent; 0 for a direct method.
    residual : float or None, default=None
        Relative residual, recomputed from the problem after the last iteration.
    gap : float or None, default=None
        Duality gap, for problems that have a dual.
    primal, dual : float or None, default=None
        Values of the two objectives at the answer.
    message : str, default=""
        For a failure the cause and the cure; for a success empty or one remark.
    extra : dict
        What only this solver has to say, such as the jitter a factorisation added.

    Examples
    --------
    >>> from mercer.solvers import Solution
    >>> Solution(value=[1.0], converged=True, residual=1e-16).unwrap()
    [1.0]
    """

    value: Any
    converged: bool
    n_iter: int = 0
    residual: float | None = None
    gap: float | None = None
    primal: float | None = None
    dual: float | None = None
    message: str = ""
    extra: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        shape = getattr(self.value, "shape", None)
        value = type(self.value).__name__ + (f" of shape {tuple(shape)}" if shape else "")
        facts = ", ".join(f"{k}={v!r}" for k, v in self.summary().items() if v not in (None, ""))
        return f"Solution({value}: {facts})"

    def unwrap(self) -> Any:
        """Return the answer; warn once, with cause and cure, if it is not converged.

        Returns
        -------
        object
            `value`, whether converged or not.

        Warns
        -----
        NotConverged
            When `converged` is false.

        Examples
        --------
        >>> from mercer.solvers import Solution
        >>> Solution(value=3.0, converged=True).unwrap()
        3.0
        """
        if not self.converged:
            text = self.message or self._default_message()
            warnings.warn(text, NotConverged, stacklevel=_users_level())
        return self.value

    def summary(self) -> dict[str, Any]:
        """Return everything but the answer as plain numbers and text, fit for a model file.

        Entries of `extra` that are not a number, text, a boolean or None are left out.

        Returns
        -------
        dict
            Keys ``converged, n_iter, residual, gap, primal, dual, message`` and those of `extra`.

        Examples
        --------
        >>> from mercer.solvers import Solution
        >>> Solution(value=3.0, converged=True, extra={"jitter": 0.0}).summary()["jitter"]
        0.0
        """
        out: dict[str, Any] = {
            "converged": bool(self.converged),
            "n_iter": int(self.n_iter),
            "residual": _plain(self.residual),
            "gap": _plain(self.gap),
            "primal": _plain(self.primal),
            "dual": _plain(self.dual),
            "message": str(self.message),
        }
        for key, value in self.extra.items():
            if value is None or isinstance(value, str | bool | numbers.Real):
                out.setdefault(str(key), _plain(value))
        return out

    def _default_message(self) -> str:
        seen = [
            f"{name} {value:.3g}"
            for name, value in (("residual", self.residual), ("gap", self.gap))
            if value is not None and math.isfinite(value)
        ]
        return (
            f"A solver stopped after {self.n_iter} iterations without reaching its tolerance"
            f"{' (' + ', '.join(seen) + ')' if seen else ''}; "
            "allow more iterations, loosen the tolerance, or use a larger ridge."
        )


def _plain(value: Any) -> Any:
    """Turn NumPy scalars into Python's, so that JSON and repr need not know NumPy."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if hasattr(value, "dtype") and value.dtype == bool:
        return bool(value)
    return float(value)


def _users_level() -> int:
    """Return the stacklevel at which a warning names the line of a caller outside the package."""
    frame, level = sys._getframe(1), 1
    own = __name__.partition(".")[0]
    while frame.f_back is not None and _package(frame) == own:
        frame, level = frame.f_back, level + 1
    return level


def _package(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def accept(residual: float) -> list[str]:
    """Return the advice to accept what was reached, none where that is nothing."""
    return [f"accept tol={2.0 * residual:.1g}"] if residual < NOTHING else []


def either(cures: list[str]) -> str:
    """Return several cures as one sentence."""
    return f"{', '.join(cures[:-1])}, or {cures[-1]}" if cures[1:] else cures[0]
