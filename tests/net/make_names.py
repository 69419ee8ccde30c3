"""Writes every public name of mercer with its signature, one on a line.

    python tests/net/make_names.py

A name is public that stands in ``__all__`` of mercer or of one of its folders; below a class, its
public methods and properties, wherever in mercer they are written. The file says nothing of the
modules in which things are written: these may move. A change of the file is a change of what users
may write, and is told in CHANGELOG.md.
"""

import functools
import importlib
import inspect
import re
import types
from pathlib import Path

import mercer

FILE = Path(__file__).parent / "public_names.txt"
FOLDERS = (
    "datasets",
    "domains",
    "engines",
    "errors",
    "features",
    "io",
    "kernels",
    "losses",
    "explain",
    "models",
    "operators",
    "plot",
    "rkhs",
    "selection",
    "selection.active",
    "settings",
    "solvers",
    "statistics",
    "testing",
)
#: Methods with underscores that users call, if not by name.
SPELLED = {
    f"__{name}__"
    for name in (
        *("call", "len", "iter", "getitem", "contains", "enter", "exit", "bool", "float", "array"),
        *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "neg", "pow", "matmul"),
    )
}


def lines():
    """Return the lines of the file."""
    out = [f"mercer.{name} (module)" for name in sorted(set(dir(mercer)) & set(FOLDERS))]
    out += [_line("mercer", name, getattr(mercer, name)) for name in sorted(mercer.__all__)]
    for folder in FOLDERS:
        door = importlib.import_module(f"mercer.{folder}")
        for name in sorted(door.__all__):
            value = getattr(door, name)
            out.append(_line(door.__name__, name, value))
            if isinstance(value, type):
                out += [f"    {line}" for line in _members(value)]
    return out


def _line(owner, name, value):
    if isinstance(value, types.ModuleType):
        return f"{owner}.{name} (module)"
    if isinstance(value, type):
        return f"{owner}.{name}{_of_class(value)}"
    if callable(value):
        return f"{owner}.{name}{_signature(value)}"
    return f"{owner}.{name} ({type(value).__name__})"


def _members(cls):
    kin = sorted({base.__name__ for base in cls.__mro__[1:] if _is_told(base, cls)})
    if kin:
        yield f"is a {', '.join(kin)}"
    for name in sorted(dir(cls)):
        if name.startswith("_") and name not in SPELLED:
            continue
        if re.fullmatch(r"set_\w+_request", name):  # written by scikit-learn
            continue
        home = next((base for base in cls.__mro__ if name in vars(base)), None)
        if home is None or not _is_ours(home):
            continue
        yield _member(cls, name, vars(home)[name])


def _member(cls, name, held):
    if isinstance(held, property | functools.cached_property):
        writable = isinstance(held, property) and held.fset is not None
        return f"{name} ({'property, may be set' if writable else 'property'})"
    if isinstance(held, classmethod):
        return f"{name}{_signature(getattr(cls, name))} (of the class)"
    if isinstance(held, staticmethod):
        return f"{name}{_signature(held.__func__)} (static)"
    value = getattr(cls, name, held)
    if callable(value) and not isinstance(value, type):
        return f"{name}{_signature(value, bound=True)}"
    return f"{name} (attribute)"


# -------------------------------------------------------------------------------------- who is who
def _is_ours(cls):
    return cls.__module__.partition(".")[0] == "mercer"


@functools.cache
def _public():
    doors = [importlib.import_module(f"mercer.{folder}") for folder in FOLDERS]
    named = (getattr(door, name) for door in doors for name in door.__all__)
    return {value for value in named if isinstance(value, type)}


def _is_told(base, cls):
    """Whether a class is a public one, or one of others that a class of ours is derived from."""
    if _is_ours(base):
        return base in _public()
    direct = {b for ours in cls.__mro__ if _is_ours(ours) for b in ours.__bases__}
    plain = base.__module__ in ("abc", "typing") or base is object
    return base in direct and not plain and not base.__name__.startswith("_")


# -------------------------------------------------------------------------------------- signatures
def _of_class(cls):
    """The arguments of a class; those of an exception without a word of its own are Python's."""
    ways = ("__init__", "__new__")
    if not any(way in vars(base) for base in cls.__mro__ if _is_ours(base) for way in ways):
        return "(...)"
    return _signature(cls)


def _signature(value, bound=False):
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = list(signature.parameters.values())[int(bound) :]
    plain = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else Shown(p.default))
        for p in parameters
    ]
    return str(inspect.Signature(plain))


class Shown:
    """A default value, written without addresses and without the modules of classes."""

    def __init__(self, value):
        if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
            text = value.__name__
        else:
            text = repr(value)
        text = re.sub(r" at 0x[0-9a-fA-F]+", "", text)
        self.text = re.sub(r"\b(?:mercer|numpy|np|sklearn)(?:\.\w+)*\.(\w+)", r"\1", text)

    def __repr__(self):
        return self.text


def main():
    """Write the file."""
    found = lines()
    FILE.write_text("\n".join(found) + "\n")
    names = sum(not line.startswith(" ") for line in found)
    print(f"{names} names, {len(found) - names} lines below them")


if __name__ == "__main__":
    main()
