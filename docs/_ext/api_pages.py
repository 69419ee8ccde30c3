"""Write a page for each folder of mercer, listing its public names, before Sphinx looks for pages.

The names are those of ``__all__``, so the reference cannot miss one. Pages and stubs go to
``docs/api/generated``, which git ignores.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import mercer

__all__ = ["FOLDERS", "page", "setup"]

#: In the order of the corridor.
FOLDERS = [
    *("kernels", "domains", "engines", "operators", "losses", "solvers", "rkhs"),
    *("features", "models", "statistics", "selection", "selection.active", "io", "plot"),
    *("datasets", "testing", "errors"),
]
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
    listed = "\n".join(path.read_text(encoding="utf-8") for path in OUTPUT.glob("*.rst"))
    for stub in (OUTPUT / "stubs").glob("*.rst"):  # of a name that is gone
        if f"~{stub.stem}\n" not in listed:
            stub.unlink()
    return {"parallel_read_safe": True, "parallel_write_safe": True}
