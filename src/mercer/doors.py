"""How a folder opens: its stub lists what comes from where, and a name is loaded when it is used.

Every folder has a door, its ``__init__``, and other folders come in by the door only. What may
pass is written once, in ``__init__.pyi``, as import statements, which editors and type checkers
read too. Where some of it is the house's own, ``__all__`` holds what users may rely on.
"""

from __future__ import annotations

import importlib
import sys

TYPE_CHECKING = False  # as in typing, which a light import leaves alone
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from typing import Any


def door(folder: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a folder; its stub is read when one is asked."""
    module = sys.modules[folder]
    sources: dict[str, str] = {}

    def load(name: str) -> Any:
        if not sources:
            # In one step: a table that Ctrl-C cut short would lack names for good.
            sources.update({"__all__": folder, **_read_stub(module)})
        if name not in sources:
            meant = "" if name[:1] == "_" else _meant(name, module.__all__)
            raise AttributeError(f"module {folder!r} has no attribute {name!r}{meant}")
        if sources[name] != folder:
            setattr(module, name, getattr(importlib.import_module(sources[name]), name))
        elif name not in vars(module):
            return importlib.import_module(f"{folder}.{name}")
        return vars(module)[name]

    def listing() -> list[str]:
        public = load("__all__")
        folders = [name for name, source in sources.items() if source == folder]
        return sorted({*(name for name in vars(module) if name[:2] == "__"), *public, *folders})

    return load, listing


def _meant(name: str, legal: list[str]) -> str:
    from mercer.misspelt import name_meant

    return name_meant(name, legal)


def _read_stub(module: Any) -> dict[str, str]:
    """Return where each name of a folder comes from; its public names become ``__all__``."""
    with open(f"{module.__path__[0]}/__init__.pyi", encoding="utf-8") as stub:
        imports, _, listed = stub.read().partition("\n__all__ = [")
    sources: dict[str, str] = {}
    for statement in f"\n{imports}".split("\nfrom ")[1:]:
        source, _, items = statement.partition(" import ")
        names = (item.partition(" as ")[0].strip(" ()\n") for item in items.split(","))
        sources.update(dict.fromkeys(filter(None, names), source))
    public = [item.strip(' \n"') for item in listed.partition("]")[0].split(",")]
    every = [name for name, source in sources.items() if source != module.__name__]
    module.__all__ = sorted(filter(None, public if listed else every))
    return sources


class Forwarder:
    """Finds what pickles of earlier versions name; asked only where nobody else knows a module."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how to load a module of ours that has moved, or None."""
        if not name.startswith("mercer."):
            return None
        from mercer.moved import spec_of

        spec = spec_of(name)
        if spec is None:
            _refuse_import(*name.rpartition(".")[::2])
        return spec


def _refuse_import(folder: str, name: str) -> None:
    """Refuse ``from folder import name`` in the words of `door`: Python says less of such names."""
    import inspect

    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_handle_fromlist":
        frame = frame.f_back
        own = frame is not None and frame.f_globals.get("__name__")
        if own not in (__name__, "importlib._bootstrap"):
            return  # ``import folder.name``, or somebody who asks whether there is such a module
    listed = getattr(sys.modules.get(folder), "__all__", [])
    meant = "" if name[:1] == "_" else _meant(name, listed)
    if meant:
        raise ImportError(f"cannot import name {name!r} from {folder!r}{meant}", name=folder)


sys.meta_path.append(Forwarder)  # type: ignore[arg-type]
