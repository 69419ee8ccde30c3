"""Formulas as MathML, which browsers draw themselves: no script, no font, no server."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import Any

from docutils.nodes import Node, SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

__all__ = ["setup"]

logger = logging.getLogger(__name__)


def _markup(node: Node, block: bool) -> str:
    """Return the formula of a node as MathML; as TeX, with a warning, if docutils cannot."""
    try:
        markup = tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        logger.warning("%s in %r", error, node.astext(), location=node)
        return f"<code>{escape(node.astext())}</code>"
    # A norm is as high as its letters, not as the tallest thing in its row.
    return re.sub("<mo>([‖⟨⟩])</mo>", r'<mo stretchy="false">\1</mo>', markup)


def _visitor(block: bool) -> Callable[[Any, Node], None]:
    frame = '<div class="formula">{}</div>' if block else "{}"

    def visit(translator: Any, node: Node) -> None:
        translator.body.append(frame.format(_markup(node, block)))
        raise SkipNode

    return visit


def setup(app: Sphinx) -> dict[str, Any]:
    """Offer the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_visitor(False), None), (_visitor(True), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
