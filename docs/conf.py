"""How Sphinx builds the manual: nothing is fetched, nothing that a reader loads comes from afar."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE / "figures")]

from mercer import __version__  # noqa: E402

project = "mercer"
author = "mercer developers"
copyright = "mercer developers, BSD-3-Clause"
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "api_pages",
    "plain_docstrings",
    "drawings",
    "mathml",
]
exclude_patterns = ["_build"]
default_role = "py:obj"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

autosummary_generate = False  # api_pages writes them
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_math_renderer = "mathml"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["mercer.css"]
# Only the guide and the reference have pages below them to list.
ALONE = ["index", "install", "choose", "how-to-add", "design", "notation"]
ALONE += ["contributing", "changelog"]
html_sidebars = {page: [] for page in ALONE}
smartquotes = False
# `function_` of an inherited attribute may be that of several classes: any of them says the same.
suppress_warnings = ["ref.python"]
html_theme_options = {
    "logo": {"text": "mercer"},
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
