"""What ``mercer fit`` and ``mercer info`` print."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from mercer.errors import MercerError, figure, shortened
from mercer.features import TableColumns
from mercer.memory import human
from mercer.models import KernelRidge, KernelRidgeClassifier
from mercer.models.margin import stratified_folds
from mercer.models.metric import fitted_rows
from mercer.models.tables import MACHINES

if TYPE_CHECKING:
    from mercer.cli.preparation import Prepared

# ---- How well a model predicts, beside the simplest prediction there is and a linear model ----


FOLDS = 5
FEW = 5  # rows below which a score is chance
HELD_OUT = 20  # rows from which some are held out
HELD_SHARE = 0.2  # of the rows, where nothing is said and they are not left out one by one
COVERAGE = 0.9  # of the interval that is told
TWINS = 0.05  # share of rows that occur twice from which it is told
_ORDERED = 0.6  # AUC from which a model that is wrong as often as the simplest is of some use
_MATRIX = 8  # classes up to which the confusion is shown whole


@dataclass(frozen=True)
class Score:
    """R² and error of a regression, or accuracy of a classification, on some rows."""

    rows: int
    measure: str  # "R2" or "accuracy"
    value: float
    error: float  # root mean squared error, or share of wrong classes
    baseline: float  # error of the mean of the target, or of its most frequent class
    classes: dict[str, Any] | None = None  # of a classification, what `_counted` returns
    linear: float | None = None  # error of a linear model on the same rows
    reach: float | None = None  # of a regression, the error that `COVERAGE` of the rows keep below

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def remark(self) -> str:
        """Return a remark on a score of few rows, or on a model no better than the simplest."""
        if self.rows < FEW:
            return (
                f"{self.rows} rows are too few to learn from: the model can do little more than "
                f"repeat them; from {FEW} rows on there is a score, from {HELD_OUT} on one of rows "
                "set apart"
            )
        if self.error < self.baseline or self.baseline == 0:
            return ""
        simple = "always the most frequent class"
        if self.measure != "accuracy":
            simple = "the mean of the target"
        much = "worse than" if self.error > self.baseline else "no better than"
        doubt = "the columns may say nothing about the target"
        area = (self.classes or {}).get("auc", 0.0)
        if area > _ORDERED:
            doubt = (
                f"yet it puts rows in the right order more often than chance (AUC {figure(area)})"
            )
        return f"the model is {much} {simple} on {self.rows} rows that it did not see; {doubt}"

    def __str__(self) -> str:
        if self.rows < FEW:
            return "too few for a score"
        line = self.linear
        if self.measure == "accuracy":
            simple = f"always the most frequent class: {figure(100 * (1 - self.baseline))} %"
            simple += "" if line is None else f", linear model: {figure(100 * (1 - line))} %"
            return f"{figure(100 * self.value)} % right ({simple})"
        simple = f"mean of the target: {figure(self.baseline)}"
        simple += "" if line is None else f", linear model: {figure(line)}"
        return f"R² {figure(self.value)}, RMSE {figure(self.error)} ({simple})"

    def interval(self) -> list[tuple[str, str]]:
        """Return a line on how far numbers are from their predictions, if that is known."""
        if self.reach is None or self.rows < FEW:
            return []
        share = f"{figure(100 * COVERAGE)} %"
        reach = figure(self.reach)
        return [("interval", f"{share} of new rows lie within ± {reach} of the prediction")]

    def lines(self) -> list[tuple[str, str]]:
        """Return what a report says of each class; in brackets that of the simplest prediction."""
        told = self.classes
        if told is None or self.rows < FEW:
            return []
        lines = []
        if "certainty" in told:
            sure, right = figure(100 * told["certainty"]), figure(100 * self.value)
            lines.append(("certainty", f"on average {sure} % sure of its class, {right} % right"))
        if "auc" in told:
            mean = ", mean over the classes" if len(told["labels"]) > 2 else ""
            lines.append(("AUC", f"{figure(told['auc'])} (by chance: 0.5){mean}"))
        if "log_loss" in told:
            usual = figure(told["usual_log_loss"])
            lines.append(("log loss", f"{figure(told['log_loss'])} (shares of classes: {usual})"))
        table = _class_table(told)
        return [*lines, *zip(["by class", *[""] * (len(table) - 1)], table, strict=True)]


def _class_table(told: dict[str, Any]) -> list[str]:
    """Recall, precision and confusion of the most frequent classes, as lines of a table."""
    counts = np.array(told["confusion"])
    labels = [_cut(label, 20) for label in told["labels"]]
    true, taken, usual = counts.sum(1), counts.sum(0), told["usual"]
    first = [i for i in np.argsort(-true, kind="stable")[:_SHOWN] if true[i] or taken[i]]
    whole = len(first) == len(labels) <= _MATRIX
    first = sorted(first) if whole else first
    heads = [f"as {labels[j]}" for j in first] if whole else ["most often taken for"]
    always = f"(always {labels[usual]})"
    rows = [["class", "rows", f"recall {always}", f"precision {always}", *heads]]
    for i in first:
        row = [labels[i], str(true[i])]
        row.append(f"{_share(counts[i, i], true[i])} ({int(i == usual)})")
        simplest = _share(true[i], true.sum()) if i == usual else "none"
        row.append(f"{_share(counts[i, i], taken[i])} ({simplest})")
        if whole:
            row += [str(counts[i, j]) for j in first]
        else:
            wrong = [
                j for j in np.argsort(-counts[i], kind="stable")[:3] if j != i and counts[i, j]
            ]
            row.append(", ".join(f"{labels[j]} {counts[i, j]}" for j in wrong))
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    text = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    more = len(labels) - len(first)
    return [*text, f"and {more} more"] if more else text


def _cut(name: str, length: int = 60) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def _share(part: Any, whole: Any) -> str:
    return figure(part / whole) if whole else "none"


def evaluate(data: Prepared, model: Any, train: np.ndarray, test: np.ndarray) -> Score:
    """Return the score of a model on rows that it has not seen."""
    seen, counts = data.target[train], None
    if data.task == "classification":
        counts = np.unique(seen, return_counts=True)
    mean = 0.0 if counts else float(seen.mean())
    score = judge(model, data.table.take(test), data.target[test], mean, counts)
    return replace(score, linear=_linear_error(data, model, train, test))


def _linear_error(data: Prepared, model: Any, train: np.ndarray, test: np.ndarray) -> float | None:
    """Return the error of a linear model of the encoded columns; None where they are not encoded.

    Rows among those it is fitted to are left out one by one.
    """
    if isinstance(model.encoder_, TableColumns):
        return None
    true = data.target
    how: dict[str, Any] = {"alpha": "loo", "fit_intercept": True}
    Z = model.encode(data.table)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what went badly for it shows in its error
            if data.task == "classification":
                line = KernelRidgeClassifier("linear", **how).fit(Z[train], true[train])
            else:
                unit = float(np.abs(true[train]).max()) or 1.0
                line = KernelRidge("linear", **how).fit(Z[train], true[train] / unit)
            apart = len(np.intersect1d(train, test)) == 0
            found = line.predict(Z[test]) if apart else line.loo()[np.searchsorted(train, test)]
    except MercerError:
        return None
    if data.task == "classification":
        return float(np.mean(found != true[test]))
    return unit * float(np.sqrt(np.mean((found - true[test] / unit) ** 2)))


def judge(
    model: Any,
    rows: Any,
    true: np.ndarray,
    mean: float,
    counts: tuple[np.ndarray, np.ndarray] | None,
) -> Score:
    """Return the score of a model beside that of what was seen in training.

    That is the mean of the target, or its classes and how often each was there.
    """
    predicted = model.predict(rows)
    if counts is None:
        return _regression_score(true, predicted, mean)
    chances = model.predict_proba(rows) if hasattr(model, "predict_proba") else None
    classes = _counted(true, predicted, counts, model.decision_function(rows), chances)
    return replace(_class_score(true, predicted, counts), classes=classes)


def inside_score(data: Prepared, model: Any, seed: int) -> Score:
    """Return the score of a fitted model on the rows it was fitted on, each predicted without it.

    Ridge models: exact leave-one-out. Feature machines: their left-out predictions, of all rows or
    of those that were set apart. Support vector classifiers: five folds with the kernel and C of
    the model. The encoder is kept in all.
    """
    everything = np.arange(len(data))
    if isinstance(model.model_, MACHINES):
        return _left_out_score(data, model)
    linear = _linear_error(data, model, everything, everything)
    if hasattr(model, "loo"):
        true, predicted = data.target, model.loo()
        if data.task == "regression":
            score = _regression_score(true, predicted, float(true.mean()))
            return replace(score, linear=linear, reach=_reach(true - predicted))
        counted = np.unique(true, return_counts=True)
        values = model.loo_decision_function()
        classes = _counted(true, predicted, counted, values)
        return replace(_class_score(true, predicted, counted), classes=classes, linear=linear)
    fold = stratified_folds(data.target, FOLDS, (seed + 1) % 2**32)
    pairs = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)]
    inside = clone(model.model_).set_params(kernel=model.kernel_, probability=False)
    path = inside.path(model.encode(data.table), data.target, [inside.C], cv=pairs)
    right = float(np.average(path.scores[0], weights=[len(test) for _, test in pairs]))
    counts = np.unique(data.target, return_counts=True)[1]
    usual = 1.0 - float(counts.max() / len(data))
    return Score(len(data), "accuracy", right, 1.0 - right, usual, linear=linear)


def _left_out_score(data: Prepared, model: Any) -> Score:
    """Return the score of a feature machine at rows that it left out, in metrics of others."""
    machine, everything = model.model_, np.arange(len(data))
    left_out = machine.left_out_
    known = np.flatnonzero(~np.isnan(left_out if left_out.ndim == 1 else left_out[:, 0]))
    linear = _linear_error(data, model, everything, known)
    true, left_out = data.target[known], left_out[known]
    if data.task == "regression":
        score = _regression_score(true, left_out, float(data.target.mean()))
        return replace(score, linear=linear, reach=_reach(true - left_out))
    counted = np.unique(data.target, return_counts=True)
    predicted = model.classes_[left_out.argmax(axis=1)]
    values = model.loo_decision_function()[known]
    classes = _counted(true, predicted, counted, values, left_out)
    return replace(_class_score(true, predicted, counted), classes=classes, linear=linear)


def _reach(errors: np.ndarray) -> float | None:
    """Return how far errors at rows left out reach with the coverage told; None of too few."""
    rank = int(np.ceil(COVERAGE * (len(errors) + 1)))
    return float(np.sort(np.abs(errors))[rank - 1]) if rank <= len(errors) else None


def reach_told(model: Any) -> float | None:
    """Return how far intervals of a feature machine reach; None of classes and of other models."""
    residuals = vars(model.model_).get("residuals_")
    machine = isinstance(model.model_, MACHINES) and residuals is not None
    return _reach(residuals[:, 0]) if machine else None


#: Kinds of scores on the rows of a fit, by their keys in notes, and what reports call them.
INSIDE = {
    "leave_one_out": "leave-one-out",
    "set_apart": "set apart",
    "cross_validation": "folds",
}


def inside_kind(model: Any, score: Score) -> str:
    """Return which of `INSIDE` the score of a fitted model is."""
    if not hasattr(model, "loo"):
        return "cross_validation"
    if isinstance(model.model_, MACHINES) and score.rows < len(model.model_.left_out_):
        return "set_apart"
    return "leave_one_out"


def _class_score(
    true: np.ndarray, predicted: np.ndarray, seen: tuple[np.ndarray, np.ndarray]
) -> Score:
    wrong = float(np.mean(predicted != true))
    classes, counts = seen
    usual = float(np.mean(true != classes[counts.argmax()]))
    return Score(len(true), "accuracy", 1.0 - wrong, wrong, usual)


def _regression_score(true: np.ndarray, predicted: np.ndarray, mean: float) -> Score:
    error = float(np.mean((true - predicted) ** 2))
    spread = float(np.mean((true - true.mean()) ** 2))
    usual = float(np.mean((true - mean) ** 2))
    r2 = 1.0 - error / spread if spread > 0 else float(error == 0)
    return Score(len(true), "R2", r2, error**0.5, usual**0.5)


def _counted(
    true: np.ndarray,
    predicted: np.ndarray,
    seen: tuple[np.ndarray, np.ndarray],
    values: Any,
    chances: Any = None,
) -> dict[str, Any]:
    """Return how predictions of classes fall out: the confusion, and AUC and log loss if any.

    The simplest prediction is the class most frequent among those seen in training; its
    probabilities are the shares there.
    """
    known, counts = seen
    labels = np.union1d(known, true)
    confusion = np.zeros((len(labels), len(labels)), dtype=int)
    np.add.at(confusion, (np.searchsorted(labels, true), np.searchsorted(labels, predicted)), 1)
    told: dict[str, Any] = {
        "labels": [str(label) for label in labels],
        "confusion": confusion.tolist(),
        "usual": int(np.searchsorted(labels, known[counts.argmax()])),
    }
    columns = np.column_stack([-values, values]) if values.ndim == 1 else values
    areas = [
        _area(column[true == c], column[true != c])
        for c, column in zip(known, columns.T, strict=True)
        if 0 < (true == c).sum() < len(true)
    ]
    if areas:
        told["auc"] = float(np.mean(areas))
    if chances is not None and np.isin(true, known).all():
        column = np.searchsorted(known, true)
        told["certainty"] = float(chances.max(axis=1).mean())
        told["log_loss"] = _log_loss(chances[np.arange(len(true)), column])
        told["usual_log_loss"] = _log_loss((counts / counts.sum())[column])
    return told


def _area(higher: np.ndarray, lower: np.ndarray) -> float:
    """Return how often a value of the first is above one of the second, ties counting half."""
    lower = np.sort(lower)
    below = np.searchsorted(lower, higher, "left") + np.searchsorted(lower, higher, "right")
    return float(below.mean() / (2 * len(lower)))


def _log_loss(chances: np.ndarray) -> float:
    return float(-np.mean(np.log(np.maximum(chances, np.finfo(float).tiny))))


# ---- report ----


_WIDTH = 12
_SHOWN = 12
_IMPORTANT = 5  # columns
_TOLD = 50  # rows whose shares are looked at
_BEHIND = 100  # rows that stand for what is not known


def fit_report(
    data: Prepared,
    model: Any,
    held_out: Score | None,
    inside: Score | None,
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
        *kernel_lines(model, how),
        *compared_lines(compared),
        *model_lines(model, len(data)),
    ]
    trained = "tuned and fitted" if how.startswith("tuned") else "fitted"
    if held_out is not None:
        by = "a model" if inside else "the model,"
        other = f"by {by} {trained} on the other {len(data) - held_out.rows} rows"
        lines.append(("held out", f"{held_out.rows} rows: {held_out}, {other}"))
        lines += [] if inside else held_out.interval()
        lines += held_out.lines()
    judged, fitted = held_out, f"all {len(data)} rows"
    if inside is None:  # of a model that was fitted once, on blocks
        fitted = f"{len(data) - (held_out.rows if held_out else 0)} rows"
    else:
        judged = inside if held_out is None or held_out.rows < FEW else held_out
        inner = INSIDE[inside_kind(model, inside)]
        lines.append((inner, f"{inside.rows} rows: {inside}"))
        lines += inside.interval()
        if judged is inside:
            lines += inside.lines()
    remarks = [*data.remarks.values(), judged.remark() if judged else ""]
    if inside is not None and len(data) >= FEW:
        remarks.append(_of_twins(data))
    lines += [
        ("wrote", f"{output} ({human(size)}), {trained} on {fitted}"),
        *(("remark", text) for text in remarks if text),
    ]
    return layout(lines)


def _of_twins(data: Prepared) -> str:
    """Return a remark on rows that occur twice, of which one tells what the other is."""
    twins = data.twins()
    if twins <= TWINS * len(data):
        return ""
    return (
        f"{twins} of {len(data)} rows have the same inputs as another row, which tells their "
        "answer where one of them is left out or held out; if they are copies, drop them before "
        "you trust the scores"
    )


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
    if isinstance(model.model_, MACHINES):
        name = "feature machine"
    return ("ridge" if name.startswith("KernelRidge") else name) + (f", {why}" if why else "")


def kernel_lines(model: Any, how: str = "") -> list[tuple[str, str]]:
    """Return a line on the kernel of a model, or on the time that a search of metrics took."""
    if isinstance(model.model_, MACHINES):
        return [("time", how)] if how else []
    return [("kernel", f"{model.kernel_}, {how}" if how else str(model.kernel_))]


def shares_of_columns(data: Prepared, model: Any) -> dict[str, float]:
    """Return what the columns have of the predictions of a model of one kernel: they sum to 1.

    That is the mean |share| of each in some rows of the table, before a background of others. There
    is none where a kernel is no sum of products over columns.
    """
    inside, encoder, n = model.model_, model.encoder_, len(data.target)
    some, others = (np.linspace(0, n - 1, min(n, k)).astype(int) for k in (_TOLD, _BEHIND))
    names, options = list(encoder.columns_), {}
    try:
        X, behind = (model.encode(data.table.take(rows)) for rows in (some, others))
        if not isinstance(encoder, TableColumns):
            ends = np.cumsum(encoder.widths)
            groups = [list(range(e - w, e)) for e, w in zip(ends, encoder.widths, strict=True)]
            names = [name for name, group in zip(names, groups, strict=True) if group]
            options = {"groups": [group for group in groups if group]}
        told = inside.explain(X, background=behind, **options)
    except MercerError:
        return {}
    sizes = np.abs(told.values).mean(axis=0).reshape(len(told.columns), -1).sum(axis=1)
    names = names if options else list(told.columns)
    if len(names) != len(sizes) or not sizes.sum() > 0:
        return {}
    return {str(n): float(s) for n, s in zip(names, sizes / sizes.sum(), strict=True)}


def _share_lines(shares: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return a line on the columns that have most of the predictions."""
    first = sorted(shares, key=lambda name: -shares[name])[:_IMPORTANT]
    told = ", ".join(f"{_cut(name)} {100 * shares[name]:.0f} %" for name in first)
    rest = 1.0 - sum(shares[name] for name in first)
    more = len(shares) - len(first)
    told += f", {more} more {100 * rest:.0f} %" if more else ""
    return [("importance", told)] if told else []


def _machine_lines(machine: Any) -> list[tuple[str, str]]:
    """Return lines on the members of a feature machine and on the columns that matter most."""
    order = np.argsort(-machine.weights_, kind="stable")
    members = [f"{100 * machine.weights_[k]:.0f} % {machine.ways_[k]}" for k in order]
    shares, spread = 100 * machine.importances_, 100 * machine.importances_std_
    first = np.argsort(-shares, kind="stable")[:_IMPORTANT]
    names = machine.encoder_.columns_
    columns = [f"{_cut(str(names[j]))} {shares[j]:.0f} % (± {spread[j]:.0f})" for j in first]
    more = len(shares) - len(first)
    told = ", ".join(columns) + (f", {more} more {100 - shares[first].sum():.0f} %" if more else "")
    if all("one scale" in way for way in machine.ways_):
        told = "not learned: all members have one scale for all columns"
    lines = [("members", "; ".join(members)), ("importance", told)]
    fitted, centres = fitted_rows(machine)
    return [*lines, ("centres", f"{centres} of {fitted} rows")] if centres else lines


def model_lines(model: Any, rows: int | None) -> list[tuple[str, str]]:
    """Return lines on the penalty of a fitted model and its support vectors, or on its members."""
    inside = model.model_
    if isinstance(inside, MACHINES):
        return _machine_lines(inside)
    lines = _penalty_lines(inside, rows)
    return [*lines, *_share_lines(model.notes_.get("importance", {}))]


def _penalty_lines(inside: Any, rows: int | None) -> list[tuple[str, str]]:
    if not hasattr(inside, "support_kind_"):
        kept = inside.kernel_.domain.size(inside.X_fit_)
        fitted = vars(inside).get("n_rows_", kept)
        some = []
        if kept < fitted:
            solution = inside.solution_
            word = "solved" if solution.converged else "not solved"
            some = [("centres", f"{kept} of {fitted} rows"), (word, certificate(solution))]
        return [("alpha", figure(inside.alpha_)), *some]
    of = "" if rows is None else f" of {rows} rows"
    return [("C", figure(inside.C)), ("support", f"{len(inside.support_)} support vectors{of}")]


def certificate(solution: Any) -> str:
    """Return in words what proves that a fit on centres is the best one, or how far it may be."""
    if not solution.gap or not solution.primal:
        return f"relative residual {figure(solution.residual)}"
    gap = figure(solution.gap / solution.primal)
    return f"duality gap {gap} of the penalised error, the least on these centres is no further off"


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
        left = "missing" if whole or name in free else "filled"
        gaps = f"{missing[name]} {left}" if missing.get(name) else ""
        shown = _cut(name)
        if name in free:
            label = "text" if free[name] == "text" else "sequences"
            groups[label].append(f"{shown} ({gaps})" if gaps else shown)
        elif kind == "number" and name not in distinct:
            groups["numbers"].append(f"{shown} ({gaps})" if gaps else shown)
        elif whole:
            count = ", ".join(filter(None, (str(distinct.get(name, "")), gaps)))
            groups["categories"].append(f"{shown} ({count})" if count else shown)
        else:
            known = encoder.categories_[j]
            groups["categories"].append(_category(shown, known, distinct.get(name, 0)))
    return [(label, _some(names)) for label, names in groups.items() if names]


def layout(lines: list[tuple[str, str]]) -> str:
    """Return labelled lines as text, the labels in one column; very long ones lose their middle."""
    width = max(_WIDTH, *(len(label) for label, _ in lines))
    rows = [f"{label.ljust(width)}  {shortened(text)}" for label, text in lines]
    return "\n".join("".join(c if c.isprintable() else " " for c in row) for row in rows)


def _category(name: str, known: tuple[str | None, ...], distinct: int) -> str:
    kept = len(known) - (None in known)
    count = f"{kept} of {distinct} kept" if distinct > kept else f"{kept}"
    return f"{name} ({count}{' + missing' if None in known else ''})"


def _some(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)}: {', '.join(names[:_SHOWN])}{more}"
