"""Parameters of a kernel: read, set all or none, compared, printed as an expression."""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from typing import Any, Self

import numpy as np

from mercer.errors import (
    InvalidInput,
    NotAKernel,
    name_keywords,
    speaking_for,
    speaks,
    users_level,
    who,
    with_figures,
)

LONG = 100  # entries of a matrix, letters of a text, above which they are not printed


class Parameterized:
    """An object that is its class and its parameters, the arguments of ``__init__``.

    scikit-learn's ``clone``, nested names such as ``k1__length_scale`` and grid searches rely on
    ``get_params`` and ``set_params``.
    """

    _judge_params: Any  # `_check_params`, which then speaks for the class

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        name_keywords(cls)
        cls._judge_params = speaks(cls._check_params)

    def __init__(self, **params: Any):
        for name, value in params.items():
            setattr(self, name, value)
        self._judge_params()

    def _check_params(self) -> None:
        """Raise `InvalidInput` for illegal parameters."""

    def _copied(self) -> Self:
        """Return a copy that shares no kernel with this one."""
        twin = copy.copy(self)
        for name in self._param_names():
            value = getattr(self, name)
            if isinstance(value, Parameterized):
                setattr(twin, name, value._copied())
        return twin

    @classmethod
    def _param_names(cls) -> tuple[str, ...]:
        return _names_of(cls.__init__)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; ``deep``: of kernels inside too, as ``k1__length_scale``."""
        params: dict[str, Any] = {}
        for name in self._param_names():
            value = getattr(self, name)
            params[name] = value
            if deep and isinstance(value, Parameterized):
                params.update({f"{name}__{k}": v for k, v in value.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters in place; all are checked before any is kept.

        A kernel inside is replaced by a changed copy, so that other kernels which share it stay.
        """
        before = {name: getattr(self, name) for name in self._param_names()}
        changes: dict[str, Any] = {}
        nested: dict[str, dict] = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in before:
                raise InvalidInput(
                    f"{type(self).__name__}: invalid parameter {name!r}; it has {sorted(before)}."
                    f"{self._meant(key)}"
                )
            if rest:
                nested.setdefault(name, {})[rest] = value
            else:
                changes[name] = value
        for name, inner in nested.items():
            part = changes.get(name, before[name])
            if not isinstance(part, Parameterized):
                raise InvalidInput(
                    f"{type(self).__name__}: {name}={part!r} is not a kernel, so it has no "
                    f"parameters {sorted(inner)}."
                )
            changes[name] = copy.copy(part).set_params(**inner)
        trial = copy.copy(self)
        vars(trial).update(changes)
        with speaking_for(type(self).__name__):
            trial._check_params()
        vars(self).update(vars(trial))
        return self

    def _meant(self, key: str) -> str:
        """Ask whether a parameter of a kernel inside was meant."""
        nested = [name for name in self.get_params() if name.endswith(f"__{key}")]
        return f" Did you mean {' or '.join(map(repr, nested[:3]))}?" if nested else ""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)  # type: ignore[attr-defined]
        return all(_same(mine[name], theirs[name]) for name in mine)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        defaults = _arguments(type(self).__init__)
        shown = [
            f"{name}={_short(value)}"
            for name, value in self.get_params(deep=False).items()
            if not (value is None and defaults[name].default is None)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __str__(self) -> str:
        return with_figures(repr(self))  # for people; repr has all digits


@functools.cache
def _arguments(init: Any) -> Any:
    """Return the arguments of a constructor; reading a signature takes longer than a small fit."""
    return inspect.signature(init).parameters


@functools.cache
def _names_of(init: Any) -> tuple[str, ...]:
    """Return the names of the parameters that a constructor takes."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return tuple(p.name for p in _arguments(init).values() if p.name != "self" and p.kind in named)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.shape(a) == np.shape(b) and bool(np.all(np.asarray(a) == np.asarray(b)))
    if isinstance(a, float) and isinstance(b, float) and a != a and b != b:
        return True
    return (type(a) is type(b) and a == b) or (a == b and not isinstance(a, Parameterized))


def _short(value: Any) -> str:
    """Return a value as one would write it; matrices, texts and tables beyond a few lines named."""
    if isinstance(value, np.ndarray) and value.ndim > 1 and value.size > LONG:
        return f"<{'×'.join(map(str, value.shape))} array>"
    if isinstance(value, str | bytes | dict) and len(value) > LONG:
        return f"<{type(value).__name__} of {len(value)}>"
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ", floatmode="unique")
    if isinstance(value, np.floating | np.integer):
        return repr(value.item())
    if callable(value) and not isinstance(value, Parameterized):
        return getattr(value, "__name__", repr(value))
    return repr(value)


# ---- Checks that parameters of kernels share ----


WORDS = ("median", "scale")


def require_psd(kernel: Any) -> None:
    """Refuse a kernel that is not positive semidefinite where one is needed."""
    if not kernel.psd:
        raise NotAKernel(
            f"{who()}: {kernel} is a similarity that is not positive semidefinite on all points, "
            "so it is no inner product. Use kernel.repaired('clip') or kernel.repaired('shift'), "
            "which is, or another kernel."
        )


def check_scale(name: str, value: Any) -> None:
    """Refuse what is neither a positive number, nor one for each column, nor a known word."""
    if isinstance(value, str):
        if value not in WORDS:
            raise InvalidInput(
                f"{who()}: {name}={value!r}; legal words are 'median' and 'scale', "
                "or give a positive number or one number for each column."
            )
        return
    try:
        array = np.asarray(value, dtype=float)
        good = array.ndim <= 1 and array.size > 0 and (array > 0).all() and np.isfinite(array).all()
    except (OverflowError, TypeError, ValueError):
        good = False
    if not good or isinstance(value, bool):
        raise InvalidInput(
            f"{who()}: {name}={value!r}; it must be positive: one number, one for each column, "
            "or a word, 'median' or 'scale'."
        )


def check_covariance(value: Any, *, definite: bool) -> np.ndarray:
    """Return a symmetric positive (semi)definite matrix or refuse it."""
    try:
        A = np.asarray(value, dtype=float)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"{who()}: covariance is not a matrix of numbers ({error}).") from error
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not np.isfinite(A).all():
        raise InvalidInput(f"{who()}: covariance has shape {A.shape}; give a square finite matrix.")
    scale = np.abs(A).max(initial=0.0)
    if np.abs(A - A.T).max(initial=0.0) > 1e-10 * scale:
        raise NotAKernel(f"{who()}: covariance is not symmetric; use (A + A.T) / 2.")
    low = np.linalg.eigvalsh(A).min(initial=np.inf)
    if low < -1e-10 * scale or (definite and low <= 1e-14 * scale):
        need = "positive definite" if definite else "positive semidefinite"
        raise NotAKernel(
            f"{who()}: covariance has smallest eigenvalue {low:.3g}; it must be {need} "
            "for this to be a kernel."
        )
    return A


def check_diagonal(kernel: Any, d: Any) -> Any:
    """Return the values k(x, x), or refuse those that are not finite."""
    finite = np.isfinite(d) if isinstance(d, np.ndarray) else d.detach().isfinite().cpu().numpy()
    if not finite.all():
        i = int(np.argmin(finite))
        raise InvalidInput(
            f"{kernel}: k(x, x) is {float(d[i])} at row {i}, not a finite number: the kernel "
            "overflows on these data. Scale the columns, for example with "
            "sklearn.preprocessing.StandardScaler."
        )
    return d


def warn_all_zero(kernel: Any, why: str, cure: str) -> None:
    """Warn that all values of a kernel are zero on the points it is fitted to."""
    warnings.warn(
        f"{kernel}: {why}, so all kernel values are 0 and nothing can be learned; {cure}.",
        UserWarning,
        stacklevel=users_level(),
    )


def check_callable(function: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise InvalidInput(f"{who()}: function={function!r} is not callable; give a function.")
