"""Let docstrings be read as plain text: |x| is a modulus, not a substitution of reStructuredText.

What a class inherits from scikit-learn is told in the first paragraph of its docstring there: the
rest of it links to pages of scikit-learn's manual.
"""

from __future__ import annotations

import inspect
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
    if what in ("method", "property") and _origin(item).partition(".")[0] == "sklearn":
        end = lines.index("") if "" in lines else len(lines)
        lines[end:] = ["", "As in scikit-learn."]
    lines[:] = [escape_bars(line) for line in lines]


def _origin(item: Any) -> str:
    """Return the module that a method or property is written in."""
    function = item.fget if isinstance(item, property) else item
    return getattr(inspect.unwrap(function), "__module__", None) or ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Listen to autodoc, before numpydoc does."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
