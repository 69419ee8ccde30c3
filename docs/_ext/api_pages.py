"""Write a page for each folder of mercer and one for each public name, before Sphinx reads pages.

The names are those of ``__all__``, the methods all that a class has, inherited ones too, so the
reference cannot miss one. Pages and stubs go to ``docs/api/generated``, which git ignores.
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache, cached_property
from inspect import getattr_static
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mercer

if TYPE_CHECKING:  # the tests read the pages without Sphinx
    from sphinx.application import Sphinx

__all__ = ["FOLDERS", "members", "page", "setup", "stub"]

#: In the order of the corridor.
FOLDERS = [
    *("kernels", "domains", "engines", "operators", "losses", "solvers", "rkhs"),
    *("features", "models", "statistics", "explain", "selection", "selection.active", "io", "plot"),
    *("datasets", "testing", "errors"),
]
ROUTING = r"set_\w+_request|get_metadata_routing"
OUTPUT = Path(__file__).parents[1] / "api" / "generated"


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def _listing(addresses: list[str]) -> list[str]:
    return [".. autosummary::", "   :toctree: stubs", "", *(f"   ~{a}" for a in addresses), ""]


def page(folder: str) -> str:
    """Return the page of a folder: what it is for, and its names by kind."""
    module = importlib.import_module(f"mercer.{folder}")
    title = f"mercer.{folder}"
    lines = [title, "=" * len(title), "", _first_paragraph(inspect.getdoc(module) or ""), ""]
    classes, functions, data = [], [], []
    for name in sorted(module.__all__, key=str.lower):
        item = getattr(module, name)
        if inspect.ismodule(item):  # it has a page of its own
            continue
        kind = classes if inspect.isclass(item) else functions if callable(item) else data
        kind.append(f"mercer.{folder}.{name}")
    for heading, names in (("Classes", classes), ("Functions", functions), ("Data", data)):
        if names:
            lines += [heading, "-" * len(heading), "", *_listing(names)]
    return "\n".join(lines)


def members(cls: type) -> list[str]:
    """Return what a page tells of a class: public methods and properties, inherited ones too.

    Its own come first. Attributes are told where a comment ``#:`` explains them. What comes from
    Python's own types, such as ``count`` of a tuple, is left out.
    """
    found: dict[str, None] = {}
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] in ("mercer", "sklearn"):
            public = (n for n in vars(base) if not n.startswith("_") or n == "__call__")
            found.update(dict.fromkeys(public))
    explained = _explained(inspect.getsourcefile(cls) or "")
    return [name for name in found if name in explained or _is_method(cls, name)]


@cache
def _explained(path: str) -> set[str]:
    """Return the names of a file that comments explain."""
    return {*re.findall(r"^ +#:.*\n +([a-z]\w*)\b", Path(path).read_text(encoding="utf-8"), re.M)}


def _is_method(cls: type, name: str) -> bool:
    kinds = (property, cached_property)
    return callable(getattr(cls, name, None)) or isinstance(getattr_static(cls, name), kinds)


def stub(address: str) -> str:
    """Return the page of a public name; of a class with a table of its methods, then each of them.

    Parameters
    ----------
    address : str
        Such as ``"mercer.models.SVC"``.
    """
    module, name = address.rsplit(".", 1)
    item = getattr(importlib.import_module(module), name)
    lines = [name, "=" * len(name), "", f".. currentmodule:: {module}", ""]
    if not inspect.isclass(item):
        kind = "function" if callable(item) else "data"
        return "\n".join([*lines, f".. auto{kind}:: {name}", ""])
    names = members(item)
    lines += [f".. autoclass:: {name}"]
    # Those that route metadata are the same in every class: scikit-learn's manual has them.
    routing = [n for n in names if re.fullmatch(ROUTING, n)]
    shown = [n for n in names if n not in routing]
    if shown:
        lines += [f"   :members: {', '.join(shown)}", ""]
        lines += ["   .. rubric:: Methods and properties", "", "   .. autosummary::", ""]
        lines += [f"      ~{name}.{n}" for n in shown]
    if routing:
        words = ", ".join(f"``{n}``" for n in routing)
        lines += ["", f"   To route metadata, as in scikit-learn: {words}."]
    return "\n".join([*lines, ""])


def _top() -> str:
    """Return the page of what belongs to no folder: the settings."""
    lines = ["Settings", "========", "", "Options that concern execution, not results.", ""]
    return "\n".join(lines + _listing(["mercer.config", "mercer.get_config"]))


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages."""
    public = {name for name in dir(mercer) if inspect.ismodule(getattr(mercer, name))}
    missing = public - set(FOLDERS)
    if missing:
        raise ValueError(f"docs/_ext/api_pages.py: add {sorted(missing)} to FOLDERS")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    _write(OUTPUT / "settings.rst", _top())
    for folder in FOLDERS:
        _write(OUTPUT / f"{folder}.rst", page(folder))
    pages = "\n".join(path.read_text(encoding="utf-8") for path in OUTPUT.glob("*.rst"))
    listed = re.findall(r"^ +~(mercer\S+)$", pages, re.M)
    (OUTPUT / "stubs").mkdir(exist_ok=True)
    for address in listed:
        _write(OUTPUT / "stubs" / f"{address}.rst", stub(address))
    for path in (OUTPUT / "stubs").glob("*.rst"):  # of a name that is gone
        if path.stem not in listed:
            path.unlink()
    return {"parallel_read_safe": True, "parallel_write_safe": True}
