"""Let docstrings be read as plain text: |x| is a modulus, not a substitution of reStructuredText.

Methods that scikit-learn adds to every estimator to route metadata are left out of the reference.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

__all__ = ["escape_bars", "setup"]

LITERAL = re.compile(r"(``.*?``|`.*?`)")


def escape_bars(line: str) -> str:
    """Return a line with its vertical bars escaped, except in code."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    parts = LITERAL.split(line)
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    return "".join(parts)


def _process(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [escape_bars(line) for line in lines]


def _skip(app: Sphinx, what: str, name: str, item: Any, skip: bool, options: Any) -> bool | None:
    routing = getattr(item, "__module__", "") == "sklearn.utils._metadata_requests"
    return True if routing or re.fullmatch(r"set_\w+_request", name) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Listen to autodoc, before numpydoc does."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
