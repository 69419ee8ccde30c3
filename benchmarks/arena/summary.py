"""What the results say: means relative to one method, wins, ranks, a test; a page and pictures.

A score of a table is the mean over its splits. Tables that not every method has been tried on, with
the same splits, are left out. A method that failed on a split has failed on the table: there it has
the last rank and no ratio, and the page counts it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["MEASURES", "Comparison", "Standing", "compare", "compare_both", "write"]

MEASURES = {
    "rmse": ("regression", "RMSE"),
    "error": ("classes", "error rate"),
    "log_loss": ("classes", "log loss"),
}
INTRODUCTION = """\
Real tables, defaults against defaults: `TableRegressor()` and `TableClassifier()` (mercer) beside
boosting (CatBoost, LightGBM, XGBoost, scikit-learn's histgb), random forests, kernel ridge and
support vector machines with a grid search over the Gaussian kernel (rbf), xRFM and a linear model.
Seventy per cent of a table are learned from and thirty judged by; a score is the mean over several
such splits, whose number is in the last table. `python -m benchmarks.arena --all` fits everything
again, and `python -m benchmarks.arena --all --rows 10000 --note TEXT --summary PATH` writes this
page."""
WITHIN = (0.88, 0.92)  # where a coverage of 90 % is called right
#: The worst ratio of a method is that against the best of the method compared with and of this one.
PEER = "rbf"
LEVEL = 0.05  # of the critical difference


@dataclass(frozen=True)
class Standing:
    """How a method stands among the others, by one measure."""

    method: str
    ratio: (
        float  # geometric mean, over the tables, of its score to that of the method compared with
    )
    wins: int  # tables where it is better than that method, of `pairs`
    pairs: int
    rank: float  # mean over the tables
    p: float  # signed-rank test of the logarithms of the ratios
    worst: float
    worst_table: str
    failed: int  # tables


@dataclass(frozen=True)
class Comparison:
    """Standings by one measure, best mean rank first, and how many tables they are of."""

    measure: str
    tables: list[str]
    unfinished: list[str]
    standings: list[Standing]

    @property
    def critical_difference(self) -> float:
        """How far mean ranks must be apart to differ, all pairs at once (Nemenyi's test)."""
        k, n = len(self.standings), len(self.tables)
        q = stats.studentized_range.ppf(1 - LEVEL, k, np.inf) / np.sqrt(2)
        return float(q * np.sqrt(k * (k + 1) / (6 * n)))


def compare(lines: Iterable[dict], measure: str, against: str = "catboost") -> Comparison:
    """Compare the methods that have a measure."""
    return _compared(measure, *_scores(lines, measure), against)


def compare_both(lines: Iterable[dict], against: str = "catboost") -> Comparison:
    """Compare methods on tables of both kinds, by RMSE and by error rate."""
    lines = list(lines)
    numbers, classes = _scores(lines, "rmse"), _scores(lines, "error")
    methods = [m for m in numbers[0] if m in classes[0]]
    both = np.vstack(
        [scores[:, [known.index(m) for m in methods]] for known, _, _, scores in (numbers, classes)]
    )
    return _compared(
        "both", methods, numbers[1] + classes[1], numbers[2] + classes[2], both, against
    )


def _scores(
    lines: Iterable[dict], measure: str
) -> tuple[list[str], list[str], list[str], np.ndarray]:
    """Return methods, tables, tables that are unfinished, and the scores (tables, methods)."""
    task = MEASURES[measure][0]
    cells: dict[str, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if line["task"] == task:
            cells[line["table"]][line["method"]].append(line)
    has_it = {
        m for row in cells.values() for m, found in row.items() if any(measure in x for x in found)
    }
    methods = sorted(has_it)
    tables, unfinished = [], []
    for name, row in sorted(cells.items()):
        splits = {tuple(sorted(x["split"] for x in row.get(m, []))) for m in methods}
        (tables if len(splits) == 1 and splits != {()} else unfinished).append(name)
    scores = np.array([[_score(cells[t][m], measure) for m in methods] for t in tables])
    return methods, tables, unfinished, scores.reshape(len(tables), len(methods))


def _compared(
    measure: str,
    methods: list[str],
    tables: list[str],
    unfinished: list[str],
    scores: np.ndarray,
    against: str,
) -> Comparison:
    words = MEASURES[measure][1] if measure in MEASURES else "score"
    if against not in methods:
        raise ValueError(
            f"against={against!r} has no {words} in the results; give one of {methods}."
        )
    ranks = stats.rankdata(scores, axis=1)
    reference = scores[:, methods.index(against)]
    best = np.minimum(reference, scores[:, methods.index(PEER)] if PEER in methods else np.inf)
    standings = []
    for j, method in enumerate(methods):
        both = np.isfinite(scores[:, j]) & np.isfinite(reference)
        logs = np.log(scores[both, j] / reference[both])
        there = np.flatnonzero(np.isfinite(scores[:, j]) & np.isfinite(best))
        at = there[np.argmax(scores[there, j] / best[there])] if len(there) else None
        standings.append(
            Standing(
                method=method,
                ratio=float(np.exp(logs.mean())) if len(logs) else np.nan,
                wins=int((logs < 0).sum()),
                pairs=len(logs),
                rank=float(ranks[:, j].mean()) if len(tables) else np.nan,
                p=float(stats.wilcoxon(logs).pvalue) if np.any(logs) else 1.0,
                worst=np.nan if at is None else float(scores[at, j] / best[at]),
                worst_table="" if at is None else tables[at],
                failed=int((~np.isfinite(scores[:, j])).sum()),
            )
        )
    standings.sort(key=lambda s: (s.rank, s.method))
    return Comparison(measure, tables, unfinished, standings)


def _score(lines: list[dict], measure: str) -> float:
    """Return the mean over the splits, infinite where one failed.

    To an error rate half a row of all test rows is added, or no ratio to 0 could be taken.
    """
    if any(measure not in line for line in lines):
        return np.inf
    mean = float(np.mean([line[measure] for line in lines]))
    if measure == "error":
        return mean + 0.5 / sum(line["test_rows"] for line in lines)
    return max(mean, 1e-12)


# ---- the page ----


def _version(line: dict) -> str:
    """Return the version of a line, with the commit that a line of mercer has since it is kept."""
    return f"{line['version']} ({line['commit']})" if "commit" in line else str(line["version"])


def write(
    lines: list[dict],
    path: Path,
    against: str = "catboost",
    held_back: Collection[str] = (),
    note: str = "",
) -> list[Path]:
    """Write PATH.md, and a picture for each measure and for both kinds; return the files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    page, files = ["# The arena", "", INTRODUCTION, ""], []
    versions = sorted({_version(line) for line in lines if "version" in line})
    page += [f"Versions: {', '.join(versions)}.", "", *([note, ""] if note else [])]

    def picture_of(found: Comparison, words: str) -> list[str]:
        if not found.tables or len(found.standings) < 2:
            return []
        picture = path.with_name(f"{path.name}-{found.measure.replace('_', '-')}.svg")
        draw(found, picture)
        files.append(picture)
        return [f"![Mean ranks by {words}]({picture.name})", ""]

    present = [m for m in MEASURES if any(m in line for line in lines)]
    if {"rmse", "error"} <= set(present):
        found = compare_both(lines, against)
        page += ["## Both kinds: RMSE and error rate", "", _heading(found, against), ""]
        page += [*_table(found, lines, against), "", *picture_of(found, "RMSE and error rate")]
    for measure in present:
        task, words = MEASURES[measure]
        found = compare(lines, measure, against)
        page += [f"## {task.capitalize()}: {words}", "", _heading(found, against), ""]
        page += [*_table(found, lines, against), "", *picture_of(found, words)]
        if measure == "rmse":
            page += [*_coverage(lines, found.tables), ""]
        held = [line for line in lines if line["table"] in held_back]
        if any(measure in line for line in held):
            only = compare(held, measure, against)
            page += [f"Tables held back, {len(only.tables)} of these:", ""]
            page += [*_table(only, held, against), ""]
    page += ["## Table by table", "", *_tables(lines, against, held_back), ""]
    text = path.with_name(f"{path.name}.md")
    text.write_text("\n".join(page), encoding="utf-8")
    return [text, *files]


def _coverage(lines: list[dict], tables: list[str]) -> list[str]:
    """Say on how many tables the intervals of a method cover what they say."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if "coverage" in line and line["table"] in tables:
            found[line["method"]][line["table"]].append(line["coverage"])
    low, high = WITHIN
    told = []
    for method, row in found.items():
        right = sum(low <= np.mean(values) <= high for values in row.values())
        told.append(
            f"90 % intervals of {method} hold {low:.0%} to {high:.0%} of the test rows, in the "
            f"mean over the splits, on {right} of {len(row)} tables."
        )
    return told


def _tables(lines: list[dict], against: str, held_back: Collection[str]) -> list[str]:
    """Return a row for each table: the scores of all methods, the least of them in bold."""
    methods = sorted({line["method"] for line in lines}, key=lambda m: (m != "mercer", m))
    head = ["table", "rows", "splits", "score", *methods]
    rows = [head, ["---"] * len(head)]
    for measure in ("rmse", "error"):
        known, tables, _, scores = _scores(lines, measure)
        size = {line["table"]: line.get("rows", "") for line in lines}
        for name, row in zip(tables, scores, strict=True):
            value = dict(zip(known, row, strict=True))
            splits = len({line["split"] for line in lines if line["table"] == name})
            cells = [f"{name} *" if name in held_back else name, str(size[name]), str(splits)]
            cells.append(MEASURES[measure][1])
            for method in methods:
                text = f"{value[method]:.4g}" if np.isfinite(value.get(method, np.inf)) else "–"
                cells.append(f"**{text}**" if value.get(method) == row.min() else text)
            rows.append(cells)
    note = "A star marks tables that were held back; half a row of all is added to an error rate."
    return [*(f"| {' | '.join(row)} |" for row in rows), "", note]


def _heading(found: Comparison, against: str) -> str:
    text = f"{len(found.tables)} tables"
    if found.unfinished:
        text += f" ({len(found.unfinished)} more are unfinished: {', '.join(found.unfinished)})"
    return (
        f"{text}. Ratios are to {against}, below 1 is better; wins are tables where a method is "
        f"better than {against}; p is that of a signed-rank test; worst is the largest ratio to "
        f"the best of {against} and {PEER}, and its table."
    )


def _table(found: Comparison, lines: list[dict], against: str) -> list[str]:
    others = {
        "rmse": {"coverage": ".3f", "width": ".2f"},
        "error": {},
        "log_loss": {"calibration": ".3f"},
        "both": {},
    }[found.measure]
    head = ["method", "ratio", "wins", "mean rank", "p", "worst", "failed", *others]
    head += ["fit, s", "predict, s"]
    rows = [head, ["---"] * len(head)]
    for s in found.standings:
        mine = [x for x in lines if x["method"] == s.method and x["table"] in found.tables]
        cells = [s.method, f"{s.ratio:.3f}", f"{s.wins} of {s.pairs}", f"{s.rank:.2f}"]
        cells += ["" if s.method == against else f"{s.p:.2g}", f"{s.worst:.2f} {s.worst_table}"]
        cells += [str(s.failed or "")]
        cells += [_mean(mine, name, form) for name, form in others.items()]
        cells += [_seconds(mine, name) for name in ("fit_s", "predict_s")]
        rows.append(cells)
    return [f"| {' | '.join(row)} |" for row in rows]


def _mean(lines: list[dict], name: str, form: str) -> str:
    """Return the mean over the lines that have a score, empty where none has."""
    values = [line[name] for line in lines if name in line]
    return format(float(np.mean(values)), form) if values else ""


def _seconds(lines: list[dict], name: str) -> str:
    """Return the geometric mean, over the tables, of the median over the splits."""
    times = defaultdict(list)
    for line in lines:
        if name in line:
            times[line["table"]].append(line[name])
    medians = [np.median(values) for values in times.values()]
    return f"{np.exp(np.mean(np.log(medians))):.3g}" if medians else ""


def draw(found: Comparison, path: Path) -> None:
    """Draw mean ranks on a line, and bars over methods that the critical difference joins."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    standings, width = found.standings, found.critical_difference
    k = len(standings)
    figure = Figure(figsize=(7, 1.4 + 0.15 * k))
    axes: Any = figure.add_axes((0.2, 0.02, 0.6, 0.96))
    bars = _joined([s.rank for s in standings], width)
    for level, (first, last) in enumerate(bars):
        y = -0.35 - 0.3 * level
        axes.plot([standings[first].rank, standings[last].rank], [y, y], "k-", lw=4)
    below = -0.5 - 0.3 * len(bars)
    half = (k + 1) // 2
    for i, s in enumerate(standings):
        left = i < half
        y = below - 0.6 * (i if left else k - 1 - i)
        end = 0.9 if left else k + 0.1
        axes.plot([s.rank, s.rank, end], [0, y, y], "k-", lw=0.8)
        text = f"{s.method} {s.rank:.2f} " if left else f" {s.rank:.2f} {s.method}"
        axes.text(end, y, text, ha="right" if left else "left", va="center")
    axes.plot([1, k], [0, 0], "k-", lw=1)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [0, 0.15], "k-", lw=1)
        axes.text(rank, 0.25, str(rank), ha="center", va="bottom")
    axes.plot([1, 1 + min(width, k - 1)], [1.2, 1.2], "k|-", lw=1)
    axes.text(1, 1.35, f"critical difference {width:.2f}", ha="left", va="bottom")
    axes.set_xlim(0.9, k + 0.1)
    axes.set_ylim(below - 0.6 * half, 2.2)
    axes.set_axis_off()
    with mpl.rc_context({"svg.hashsalt": found.measure, "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def _joined(ranks: list[float], width: float) -> list[tuple[int, int]]:
    """Return first and last of the longest runs of sorted ranks no farther apart than the width."""
    runs: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = max(j for j, other in enumerate(ranks) if other - rank <= width)
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs
