"""``mercer info``: what is in a model file."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from mercer.cli.files import read_model
from mercer.cli.report import (
    INSIDE,
    Score,
    column_lines,
    kernel_lines,
    layout,
    model_lines,
    model_text,
)
from mercer.cli.tables import listed
from mercer.memory import human

if TYPE_CHECKING:
    from mercer.cli.program import Console


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Carry out the command."""
    model = read_model(arguments.model)
    size = os.path.getsize(arguments.model)
    lines = [("file", f"{arguments.model} ({human(size)})"), ("holds", type(model).__name__)]
    lines += _about(model)
    console.say(layout(lines))


def _about(model: Any) -> list[tuple[str, str]]:
    from mercer.models import TableClassifier, TableRegressor

    if not isinstance(model, TableRegressor | TableClassifier):
        return _about_estimator(model)
    notes = model.notes_
    lines: list[tuple[str, str]] = []
    if "target" in notes:
        lines.append(("target", f"{notes['target']!r}, {notes.get('task', '')}"))
    if "rows" in notes:
        lines.append(("fitted on", f"{notes['rows']} rows of {notes.get('source', '?')}"))
    if isinstance(model, TableClassifier):
        lines.append(("classes", listed(model.classes_, 12, str)))
    counts = (notes.get(key, {}) for key in ("missing", "categories", "free"))
    lines += column_lines(model.encoder_, *counts)
    lines.append(("model", model_text(model, notes.get("model", ""))))
    lines += kernel_lines(model)
    lines += model_lines(model, notes.get("rows"))
    by_class: list[tuple[str, str]] = []
    for key, label in {"held_out": "held out", **INSIDE}.items():
        if key in notes:
            score = Score(**notes[key])
            lines.append((label, f"{score.rows} rows: {score}"))
            lines += score.interval()
            if not by_class:  # of the rows held out, or else of all
                by_class = score.lines()
                lines += by_class
    if "mercer" in notes:
        lines.append(("written by", f"mercer {notes['mercer']}"))
    return lines


def _about_estimator(model: Any) -> list[tuple[str, str]]:
    """Return what a model that is not for tables tells of its fit, as far as it has it."""
    has = vars(model)
    lines = [("is", " ".join(repr(model).split()))]
    if "feature_names_in_" in has:
        lines.append(("columns", listed(model.feature_names_in_, 12, str)))
    elif "n_features_in_" in has:
        lines.append(("columns", f"{model.n_features_in_}, without names"))
    if "classes_" in has:
        lines.append(("classes", listed(model.classes_, 12, str)))
    if "n_rows_" in has:
        kept = model.kernel_.domain.size(model.X_fit_)
        centres = f", by {kept} centres" if kept < model.n_rows_ else ""
        lines.append(("fitted on", f"{model.n_rows_} rows{centres}"))
    if "kernel_" in has:
        lines.append(("kernel", str(model.kernel_)))
    solution = has.get("solution_")
    if solution is not None and solution.residual is not None:
        state = "converged" if solution.converged else "not converged"
        lines.append(("solved", f"{state}, relative residual {solution.residual:.1e}"))
    return lines
