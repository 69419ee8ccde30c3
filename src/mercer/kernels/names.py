"""Short names of kernels, what an estimator takes for a Kernel, and its parameters in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sklearn.base import clone

from mercer.errors import InvalidInput, who
from mercer.kernels.base import Kernel
from mercer.kernels.constant import Precomputed
from mercer.kernels.dot import Cosine, Exponential, Linear, Polynomial
from mercer.kernels.laplacian import Laplacian
from mercer.kernels.periodic import Periodic
from mercer.kernels.radial import RBF, Matern, RationalQuadratic
from mercer.kernels.transforms import OnColumns
from mercer.kernels.user import FromFunction
from mercer.misspelt import nearest

#: What scikit-learn knows by a word and is not to be had by one here: why, and what to do.
REFUSED = {
    "sigmoid": (
        "tanh(γxᵀx′ + c) is no positive definite kernel",
        "take 'rbf', or FromFunction(f).repaired('clip')",
    ),
    "chi2": (
        "",
        "give sklearn.metrics.pairwise.chi2_kernel(X) with kernel='precomputed', or 'laplacian', "
        "which compares histograms in much the same way",
    ),
    "additive_chi2": (
        "it is no positive definite kernel",
        "give sklearn.metrics.pairwise.chi2_kernel(X), which is one, with kernel='precomputed'",
    ),
}

PLAIN = {float, int, str, type(None)}  # of parameters that need no copy


# Scales come from the data, as scikit-learn's gamma="scale" does; on standardised columns that is
# also the γ = 1/d of its pairwise kernels.
SHORT_NAMES: dict[str, Callable[[], Kernel]] = {
    "rbf": lambda: RBF(length_scale="scale"),
    "matern": lambda: Matern(length_scale="scale"),
    "rational_quadratic": lambda: RationalQuadratic(length_scale="scale"),
    "laplacian": lambda: Laplacian(length_scale="scale"),
    "exponential": lambda: Exponential(length_scale="scale"),
    "linear": Linear,
    "polynomial": lambda: Polynomial(degree=3, length_scale="scale"),
    "poly": lambda: Polynomial(degree=3, length_scale="scale"),
    "cosine": Cosine,
    "periodic": Periodic,
    "precomputed": Precomputed,
}


def as_kernel(kernel: Any, offset: float = 1.0) -> Kernel:
    """Return a Kernel for a Kernel, a short name such as "rbf", or a function of two objects.

    Parameters
    ----------
    kernel : Kernel, str or callable
        What an estimator was given.
    offset : float, default=1.0
        That of "poly": 1 as in scikit-learn's pairwise kernels, 0 for support vector machines.

    Examples
    --------
    >>> from mercer.kernels import as_kernel
    >>> as_kernel("rbf")
    RBF(length_scale='scale')
    """
    if isinstance(kernel, Kernel):
        params = kernel.get_params(deep=False)
        plain = PLAIN.issuperset(map(type, params.values()))
        return type(kernel)(**params) if plain else clone(kernel)
    if isinstance(kernel, str):
        if kernel not in SHORT_NAMES:
            legal = f"legal are {', '.join(SHORT_NAMES)}, a Kernel such as mercer.RBF(), or a "
            raise unknown_name(kernel, f"{legal}function of two points", SHORT_NAMES)
        named = SHORT_NAMES[kernel]()
        return named.set_params(offset=offset) if isinstance(named, Polynomial) else named
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        name = kernel.__name__
        raise InvalidInput(f"{who()}: kernel={name} is a class; write {name}().")
    if type(kernel).__module__.startswith("sklearn.gaussian_process"):
        raise InvalidInput(
            f"{who()}: kernel={kernel!r} is scikit-learn's; use mercer's own of the same name, "
            "such as mercer.RBF or mercer.Matern, which combine with + and * in the same way."
        )
    if (getattr(kernel, "__module__", "") or "").startswith("sklearn.metrics"):
        raise InvalidInput(
            f"{who()}: kernel={kernel.__name__} takes two collections; a function given as a "
            "kernel takes two points. Use mercer's own kernel, such as mercer.RBF, or "
            "kernel='precomputed'."
        )
    if callable(kernel):
        return FromFunction(kernel)
    raise InvalidInput(
        f"{who()}: kernel={kernel!r} is neither a Kernel, nor a short name such as 'rbf', nor a "
        "function."
    )


def unknown_name(name: str, cure: str, legal: Iterable[str]) -> InvalidInput:
    """Return the refusal of a word that is none of the legal short names; it ends in the cure."""
    if name in REFUSED:
        why, other = REFUSED[name]
        told = "; ".join(filter(None, (why, other if "precomputed" in legal else cure)))
        return InvalidInput(f"{who()}: kernel={name!r} is not to be had by its name: {told}.")
    found = nearest(name, legal)
    meant = f" ({found!r}?)" if found else ""
    return InvalidInput(f"{who()}: kernel={name!r} is not a known name{meant}; {cure}.")


# ---- Parameters in words ----


ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def names_in_words(kernel: Kernel) -> list[str]:
    """Return each entry of θ in words, such as "length_scale of the second RBF".

    Where `theta_names` say the way to a parameter, as ``k1__k2__length_scale``, these say whose it
    is: of which kernel, on which columns, and of several the how manieth in the order in which
    they are written.
    """
    names = kernel.theta_names
    owners = [_owner(kernel, name.rpartition("__")[0]) for name in names]
    ways: dict[str, list[str]] = {}
    for name, owner in zip(names, owners, strict=True):
        known, way = ways.setdefault(owner, []), name.rpartition("__")[0]
        if way not in known:
            known.append(way)
    words = []
    for name, owner in zip(names, owners, strict=True):
        way, _, last = name.rpartition("__")
        nth = ways[owner].index(way)
        several = len(ways[owner]) > 1
        which = (
            f"the {ORDINALS[nth] if nth < len(ORDINALS) else f'{nth + 1}th'} " if several else ""
        )
        # of a single kernel the name says enough, unless a process has one like it
        words.append(f"{last} of {which}{owner}" if way or last == "noise" else last)
    return words


def _owner(kernel: Any, way: str) -> str:
    """Return the class of the kernel at the end of a way such as ``k1__k2``, and its columns."""
    columns = ""
    for step in way.split("__") if way else ():
        if isinstance(kernel, OnColumns):
            columns = f" on {kernel.columns!r}"
        if isinstance(kernel, list | tuple):
            kernel = kernel[int(step)]
            columns = "" if isinstance(kernel, OnColumns) else f" on column {step}"
        else:
            kernel = getattr(kernel, step)
    return f"{type(kernel).__name__}{columns}"
