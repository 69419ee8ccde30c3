"""Draw the figures of the manual anew at each build, into ``docs/_build/figures``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import radial
from sphinx.application import Sphinx

__all__ = ["setup"]

OUTPUT = Path(__file__).parents[1] / "_build" / "figures"


def setup(app: Sphinx) -> dict[str, Any]:
    """Draw every figure before pages are read."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    radial.draw(OUTPUT / "radial.png")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
