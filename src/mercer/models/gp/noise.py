"""The noise of a regression: a word, a number or a variance for each row, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.vectors import is_torch, refuse_odd_arrays
from mercer.errors import InvalidInput

__all__ = ["check_noise", "new_noise", "prior_noise"]


def check_noise(
    noise: Any, n: int, tuned: bool, owner: str, t: int = 1, word: str | None = "'fit'"
) -> Any:
    """Return "fit", a variance, one variance for each of n rows, or for each of t outputs.

    The last has the shape (1, t).

    Parameters
    ----------
    noise : object
        As the user gave it.
    n : int
        Number of rows, those of weight 0 included.
    tuned : bool
        Whether parameters are searched for; "fit" asks for it.
    owner : str
        Whose noise it is, for messages.
    t : int, default=1
        Number of outputs.
    word : str or None
        The word that is legal too, for messages.
    """
    noise = _host(noise)
    legal = f"give {'a' if word is None else word + ', a'} variance ≥ 0, or {n} of them"
    legal += f", or one for each of {t} outputs" if t > 1 else ""
    if isinstance(noise, str):
        if noise != "fit" or word is None:
            raise InvalidInput(f"{owner}: noise={noise!r}; {legal}.")
        if not tuned:
            raise InvalidInput(
                f"{owner}: noise='fit' with optimizer=None, which fits nothing; give the variance "
                "of the noise as a number, such as noise=0.1, or optimizer='lbfgs'."
            )
        return noise
    if 1 < t == np.size(noise) != n and np.ndim(noise) == 1:
        out = np.asarray(_variances(noise, "noise", t, legal, owner))
        if not (out > 0).all():
            raise InvalidInput(f"{owner}: noise={noise!r} of the outputs; {legal}, > 0.")
        return out[None, :]
    return _variances(noise, "noise", n, legal, owner)


def prior_noise(noise: Any, owner: str) -> float:
    """Return the variance of the noise of a process that was not fitted: 0 unless it is a number.

    Parameters
    ----------
    noise : object
        As the user gave it.
    owner : str
        Whose noise it is, for messages.
    """
    noise = _host(noise)
    given = check_noise(noise, np.size(noise), True, owner)
    return given if isinstance(given, float) else 0.0


def new_noise(with_noise: Any, m: int, owner: str) -> bool | np.ndarray:
    """Return whether noise is asked for, or the variances of the noise of m new rows."""
    if isinstance(with_noise, bool | np.bool_):
        return bool(with_noise)
    legal = f"give True, False, or the variances of the noise of the {m} rows"
    if isinstance(with_noise, int | np.integer):  # 1 for True would be a variance of 1
        raise InvalidInput(f"{owner}: with_noise={with_noise!r}; {legal}.")
    out = _variances(_host(with_noise), "with_noise", m, legal, owner)
    return np.full(m, out) if np.ndim(out) == 0 else np.asarray(out)


def _host(A: Any) -> Any:
    return A.detach().cpu().double().numpy() if is_torch(A) else A


def _variances(given: Any, name: str, n: int, legal: str, owner: str) -> float | np.ndarray:
    refuse_odd_arrays(given, name, owner)
    shown = repr(given) if np.size(given) <= 6 else f"{type(given).__name__}"
    try:
        kind = np.asarray(given).dtype.kind
        value = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        kind, value = "O", np.array(np.nan)
    if kind not in "fiu":
        raise InvalidInput(f"{owner}: {name}={shown}; {legal}.")
    if value.ndim > 1 or value.shape not in ((), (n,)):
        raise InvalidInput(f"{owner}: {name} has shape {value.shape}; {legal}.")
    if not np.isfinite(value).all():
        raise InvalidInput(f"{owner}: {name} holds NaN or infinity; {legal}.")
    if (value < 0).any():
        i = int(np.argmin(value))
        which = f"[{i}] = {value[i]:g}" if value.ndim else f"={float(value):g}"
        raise InvalidInput(
            f"{owner}: {name}{which} is negative; {name} is a variance, which is ≥ 0."
        )
    return float(value) if value.ndim == 0 else value.copy()
