"""Kernel methods: any positive definite kernel, any data, any method, with a certificate."""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

# Public name -> module that defines it. Loaded on first use, so that `import mercer` is light.
_NAMES = {
    "config": "mercer.settings",
    "get_config": "mercer.settings",
}


def __getattr__(name: str):
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'mercer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
