"""What the results say: means relative to one method, wins, ranks, a test; a page and pictures.

A score of a table is the mean over its splits. Tables that not every method has been tried on, with
the same splits, are left out. A method that failed on a split has failed on the table: there it has
the last rank and no ratio, and the page counts it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

__all__ = ["MEASURES", "Comparison", "Standing", "compare", "write"]

MEASURES = {
    "rmse": ("regression", "RMSE"),
    "error": ("classes", "error rate"),
    "log_loss": ("classes", "log loss"),
}
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
    task = MEASURES[measure][0]
    cells: dict[str, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        if line["task"] == task:
            cells[line["table"]][line["method"]].append(line)
    has_it = {
        m for row in cells.values() for m, found in row.items() if any(measure in x for x in found)
    }
    methods = sorted(has_it)
    if against not in has_it:
        raise ValueError(
            f"against={against!r} has no {MEASURES[measure][1]} in the results; "
            f"give one of {methods}."
        )
    tables, unfinished = [], []
    for name, row in sorted(cells.items()):
        splits = {tuple(sorted(x["split"] for x in row.get(m, []))) for m in methods}
        (tables if len(splits) == 1 and splits != {()} else unfinished).append(name)
    scores = np.array([[_score(cells[t][m], measure) for m in methods] for t in tables])
    scores = scores.reshape(len(tables), len(methods))
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


def write(lines: list[dict], path: Path, against: str = "catboost") -> list[Path]:
    """Write PATH.md, and a picture for each measure; return the files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    page, files = ["# The arena", ""], []
    versions = sorted({line["version"] for line in lines if "version" in line})
    page += [f"Versions: {', '.join(versions)}.", ""]
    for measure, (task, words) in MEASURES.items():
        if not any(measure in line for line in lines):
            continue
        found = compare(lines, measure, against)
        page += [f"## {task.capitalize()}: {words}", "", _heading(found, against), ""]
        page += [*_table(found, lines, against), ""]
        if found.tables and len(found.standings) > 1:
            picture = path.with_name(f"{path.name}-{measure.replace('_', '-')}.svg")
            draw(found, picture)
            files.append(picture)
            page += [f"![Mean ranks by {words}]({picture.name})", ""]
    text = path.with_name(f"{path.name}.md")
    text.write_text("\n".join(page), encoding="utf-8")
    return [text, *files]


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
