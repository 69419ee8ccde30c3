"""Checks that parameters of kernels share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mercer.errors import InvalidInput, NotAKernel

__all__ = [
    "check_callable",
    "check_covariance",
    "check_diagonal",
    "check_number",
    "check_scale",
    "check_whole",
    "require_psd",
    "warn_all_zero",
]

WORDS = ("median", "scale")


def check_number(owner: str, name: str, value: Any, low: float, *, open: bool = True) -> None:
    """Refuse what is not one finite number > low (or ≥ low when not open)."""
    bad = isinstance(value, bool | str) or np.ndim(value) != 0 or value is None
    if not bad:
        try:
            number = float(value)
        except (TypeError, ValueError):
            bad = True
        else:
            bad = not (np.isfinite(number) and (number > low if open else number >= low))
    if bad:
        raise InvalidInput(
            f"{owner}: {name}={value!r}; it must be a finite number {'>' if open else '≥'} {low:g}."
        )


def check_whole(owner: str, name: str, value: Any, low: int) -> None:
    """Refuse what is not one whole number ≥ low."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low:
        raise InvalidInput(f"{owner}: {name}={value!r}; it must be a whole number ≥ {low}.")


def require_psd(kernel: Any, owner: str) -> None:
    """Refuse a kernel that is not positive semidefinite where one is needed."""
    if not kernel.psd:
        raise NotAKernel(
            f"{owner}: {kernel!r} is a similarity that is not positive semidefinite on all points, "
            "so it is no inner product. Use kernel.repaired('clip') or kernel.repaired('shift'), "
            "which is, or another kernel."
        )


def check_scale(owner: str, name: str, value: Any) -> None:
    """Refuse what is neither a positive number, nor one for each column, nor a known word."""
    if isinstance(value, str):
        if value not in WORDS:
            raise InvalidInput(
                f"{owner}: {name}={value!r}; legal words are 'median' and 'scale', "
                "or give a positive number or one number for each column."
            )
        return
    try:
        array = np.asarray(value, dtype=float)
        good = array.ndim <= 1 and array.size > 0 and (array > 0).all() and np.isfinite(array).all()
    except (TypeError, ValueError):
        good = False
    if not good or isinstance(value, bool):
        raise InvalidInput(
            f"{owner}: {name}={value!r}; it must be positive: one number, one for each column, "
            "or a word, 'median' or 'scale'."
        )


def check_covariance(owner: str, value: Any, *, definite: bool) -> np.ndarray:
    """Return a symmetric positive (semi)definite matrix or refuse it."""
    try:
        A = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{owner}: covariance is not a matrix of numbers ({error}).") from error
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not np.isfinite(A).all():
        raise InvalidInput(f"{owner}: covariance has shape {A.shape}; give a square finite matrix.")
    scale = np.abs(A).max(initial=0.0)
    if np.abs(A - A.T).max(initial=0.0) > 1e-10 * scale:
        raise NotAKernel(f"{owner}: covariance is not symmetric; use (A + A.T) / 2.")
    low = np.linalg.eigvalsh(A).min(initial=np.inf)
    if low < -1e-10 * scale or (definite and low <= 1e-14 * scale):
        need = "positive definite" if definite else "positive semidefinite"
        raise NotAKernel(
            f"{owner}: covariance has smallest eigenvalue {low:.3g}; it must be {need} "
            "for this to be a kernel."
        )
    return A


def check_diagonal(owner: Any, d: Any) -> Any:
    """Return the values k(x, x), or refuse those that are not finite."""
    finite = np.isfinite(d) if isinstance(d, np.ndarray) else d.detach().isfinite().cpu().numpy()
    if not finite.all():
        i = int(np.argmin(finite))
        raise InvalidInput(
            f"{owner!r}: k(x, x) is {float(d[i])} at row {i}, not a finite number: the kernel "
            "overflows on these data. Scale the columns, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    return d


def warn_all_zero(kernel: Any, why: str, cure: str) -> None:
    """Warn that all values of a kernel are zero on the points it is fitted to."""
    warnings.warn(
        f"{kernel!r}: {why}, so all kernel values are 0 and nothing can be learned; {cure}.",
        UserWarning,
        stacklevel=3,
    )


def check_callable(owner: str, function: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise InvalidInput(f"{owner}: function={function!r} is not callable; give a function.")
