"""How a folder opens: its stub lists what comes from where, and a name is loaded when it is used.

Every folder has a door, its ``__init__``, and other folders come in by the door only. What may
pass is written once, in ``__init__.pyi``, as import statements, which editors and type checkers
read too. ``__all__`` there holds the names that users may rely on; the others are the house's own.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # as in typing, which a light import leaves alone
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def door(folder: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a folder, as its stub lists them."""
    module = sys.modules[folder]
    with open(f"{module.__path__[0]}/__init__.pyi", encoding="utf-8") as stub:
        imports, _, listed = stub.read().partition("\n__all__ = [")
    sources = {}
    for statement in f"\n{imports}".split("\nfrom ")[1:]:
        source, _, names = statement.partition(" import ")
        for name in filter(
            None, (item.split(" as ")[0].strip(" ()\n") for item in names.split(","))
        ):
            sources[name] = source
    public = [item.strip(' \n"') for item in listed.partition("]")[0].split(",")]
    public = sorted(filter(None, public))

    def load(name: str) -> Any:
        if name not in sources:
            raise AttributeError(f"module {folder!r} has no attribute {name!r}")
        if sources[name] == folder:
            return importlib.import_module(f"{folder}.{name}")
        value = getattr(importlib.import_module(sources[name]), name)
        setattr(module, name, value)
        return value

    def listing() -> list[str]:
        folders = [name for name, source in sources.items() if source == folder]
        return sorted({*(name for name in vars(module) if name[:2] == "__"), *public, *folders})

    return load, listing, public
