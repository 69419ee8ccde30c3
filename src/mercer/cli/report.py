"""What ``mercer fit`` and ``mercer info`` print."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from mercer.features import TableColumns
from mercer.models.margin import stratified_folds

if TYPE_CHECKING:
    from mercer.cli.preparation import Prepared

# ---- How well a model predicts, beside the simplest prediction there is ----


FOLDS = 5


@dataclass(frozen=True)
class Score:
    """R² and error of a regression, or accuracy of a classification, on some rows."""

    rows: int
    measure: str  # "R2" or "accuracy"
    value: float
    error: float  # root mean squared error, or share of wrong classes
    baseline: float  # error of the mean of the target, or of its most frequent class

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def remark(self) -> str:
        """Return a remark where the model is no better than the simplest prediction, else ""."""
        if self.error < self.baseline or self.baseline == 0:
            return ""
        simple = "always the most frequent class"
        if self.measure != "accuracy":
            simple = "the mean of the target"
        much = "worse than" if self.error > self.baseline else "no better than"
        return (
            f"the model is {much} {simple} on {self.rows} rows that it did not see; the columns "
            "may say nothing about the target"
        )

    def __str__(self) -> str:
        if self.measure == "accuracy":
            return (
                f"{100 * self.value:.1f} % right "
                f"(always the most frequent class: {100 * (1 - self.baseline):.1f} %)"
            )
        return (
            f"R² {self.value:.3f}, RMSE {self.error:.4g} (mean of the target: {self.baseline:.4g})"
        )


def evaluate(data: Prepared, model: Any, train: np.ndarray, test: np.ndarray) -> Score:
    """Return the score of a model on rows that it has not seen."""
    predicted = model.predict(data.table.take(test))
    return _score(data.target[test], predicted, data.target[train], data.task)


def inside_score(data: Prepared, model: Any, seed: int) -> Score:
    """Return the score of a fitted model on the rows it was fitted on, each predicted without it.

    Ridge models: exact leave-one-out. Support vector classifiers: five folds with the kernel and C
    of the model. The encoder is kept in both.
    """
    if hasattr(model, "loo"):
        return _score(data.target, model.loo(), data.target, data.task)
    fold = stratified_folds(data.target, FOLDS, (seed + 1) % 2**32)
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)]
    inside = clone(model.model_).set_params(kernel=model.kernel_, probability=False)
    path = inside.path(model.encode(data.table), data.target, [inside.C], cv=pairs)
    right = float(np.average(path.scores[0], weights=[len(test) for _, test in pairs]))
    counts = np.unique(data.target, return_counts=True)[1]
    return Score(len(data), "accuracy", right, 1.0 - right, 1.0 - float(counts.max() / len(data)))


def _score(true: np.ndarray, predicted: np.ndarray, seen: np.ndarray, task: str) -> Score:
    if task == "classification":
        wrong = float(np.mean(predicted != true))
        classes, counts = np.unique(seen, return_counts=True)
        usual = float(np.mean(true != classes[counts.argmax()]))
        return Score(len(true), "accuracy", 1.0 - wrong, wrong, usual)
    error = float(np.mean((true - predicted) ** 2))
    spread = float(np.mean((true - true.mean()) ** 2))
    usual = float(np.mean((true - seen.mean()) ** 2))
    r2 = 1.0 - error / spread if spread > 0 else float(error == 0)
    return Score(len(true), "R2", r2, error**0.5, usual**0.5)


# ---- report ----


_WIDTH = 12
_SHOWN = 12
# names in quotes, which stay as they are; numbers; and what arrays have between theirs
_TOKEN = re.compile(
    r"""(?P<name>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|"""
    r"(?P<number>\d+\.(?:\d+(?:e[+-]?\d+)?|(?=[\s,\]])))|"
    r"(?P<inner>(?<=\[)\s+|\s+(?=\]))|(?P<gap>\s+)"
)


def fit_report(
    data: Prepared,
    model: Any,
    held_out: Score | None,
    inside: Score,
    chosen: tuple[str, Mapping[str, Mapping[str, float]]],
    why: str,
    output: str,
    size: int,
) -> str:
    """Return the report of ``mercer fit``."""
    how, compared = chosen
    rows = f"{len(data)} of {data.path}"
    if data.dropped_rows:
        rows += f"; {data.dropped_rows} without a value of {data.target_name!r} left out"
    if data.sampled_from:
        rows += f"; chosen at random from {data.sampled_from}"
    lines = [
        ("rows", rows),
        ("target", f"{data.target_name!r}, {data.task}: {data.why}"),
        *column_lines(model.encoder_, data.missing(), data.distinct(), data.free),
        *(("left out", f"{n!r}: {why}") for n, why in data.left_out.items()),
        ("model", model_text(model, why)),
        ("kernel", f"{kernel_text(model.kernel_)}, {how}"),
        *compared_lines(compared),
        *model_lines(model, len(data)),
    ]
    trained = "tuned and fitted" if how.startswith("tuned") else "fitted"
    if held_out is not None:
        other = f"by a model {trained} on the other {len(data) - held_out.rows} rows"
        lines.append(("held out", f"{held_out.rows} rows: {held_out}, {other}"))
    doubt = (held_out or inside).remark()
    lines += [
        ("leave-one-out" if hasattr(model, "loo") else "folds", f"{inside.rows} rows: {inside}"),
        ("wrote", f"{output} ({size_text(size)}), {trained} on all {len(data)} rows"),
        *(("remark", text) for text in (*data.remarks.values(), doubt) if text),
    ]
    return layout(lines)


def compared_lines(compared: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    """Return a line on each column of strings: the left-out errors of the kernels tried for it."""
    lines = []
    for name, errors in compared.items():
        best = sorted(errors, key=errors.__getitem__)
        told = ", ".join(f"{kernel} {errors[kernel]:.3f}" for kernel in best)
        lines.append(("compared", f"{name!r} alone, left-out error over spread: {told}"))
    return lines


def model_text(model: Any, why: str = "") -> str:
    """Return the name of the model inside a table model, and why it was taken."""
    name = type(model.model_).__name__
    return ("ridge" if name.startswith("KernelRidge") else name) + (f", {why}" if why else "")


def model_lines(model: Any, rows: int | None) -> list[tuple[str, str]]:
    """Return lines on the penalty of a fitted model, and on its support vectors if it has any."""
    inside = model.model_
    if not hasattr(inside, "support_kind_"):
        return [("alpha", f"{inside.alpha_:.4g}")]
    count, bound = len(inside.support_), int((inside.support_kind_ == "bound").sum())
    of = "" if rows is None else f" of {rows} rows"
    margins = np.unique(np.atleast_1d(inside.margin_))
    text = f"margin {margins[0]:.3g}"
    if len(margins) > 1:
        text = f"margins {margins[0]:.3g} to {margins[-1]:.3g}"
    return [
        ("C", f"{inside.C:.4g}"),
        ("support", f"{count}{of}, {bound} of them at their bound; {text}"),
    ]


def column_lines(
    encoder: Any,
    missing: Mapping[str, int],
    distinct: Mapping[str, int],
    free: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Return a line on the columns of numbers, on the categories, on text and on sequences."""
    free = free or {}
    groups: dict[str, list[str]] = {"numbers": [], "categories": [], "text": [], "sequences": []}
    whole = isinstance(encoder, TableColumns)  # gaps stay gaps, and all categories are kept
    for j, (name, kind) in enumerate(zip(encoder.columns_, encoder.kinds_, strict=True)):
        gaps = f"{missing[name]} {'missing' if whole else 'filled'}" if missing.get(name) else ""
        if name in free:
            label = "text" if free[name] == "text" else "sequences"
            groups[label].append(f"{name} ({gaps})" if gaps else name)
        elif kind == "number" and name not in distinct:
            groups["numbers"].append(f"{name} ({gaps})" if gaps else name)
        elif whole:
            count = ", ".join(filter(None, (str(distinct.get(name, "")), gaps)))
            groups["categories"].append(f"{name} ({count})" if count else name)
        else:
            known = encoder.categories_[j]
            groups["categories"].append(_category(name, known, distinct.get(name, 0)))
    return [(label, _some(names)) for label, names in groups.items() if names]


def layout(lines: list[tuple[str, str]]) -> str:
    """Return labelled lines as text, the labels in one column."""
    width = max(_WIDTH, *(len(label) for label, _ in lines))
    rows = [f"{label.ljust(width)}  {text}" for label, text in lines]
    return "\n".join("".join(c if c.isprintable() else " " for c in row) for row in rows)


def kernel_text(kernel: Any) -> str:
    """Return a kernel's expression with numbers of four digits."""
    return _TOKEN.sub(_shown, repr(kernel))


def size_text(size: int) -> str:
    """Return bytes in a unit people read."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} bytes"


def _shown(found: re.Match[str]) -> str:
    if found["number"]:
        return f"{float(found[0]):.4g}"
    return found["name"] or (" " if found["gap"] else "")


def _category(name: str, known: tuple[str | None, ...], distinct: int) -> str:
    kept = len(known) - (None in known)
    count = f"{kept} of {distinct} kept" if distinct > kept else f"{kept}"
    return f"{name} ({count}{' + missing' if None in known else ''})"


def _some(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)}: {', '.join(names[:_SHOWN])}{more}"
