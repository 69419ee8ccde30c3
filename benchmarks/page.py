"""The page "How fast" of the manual: ratios by group, and how cost grows beside the peer's."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

__all__ = ["write"]

#: Works whose cost is drawn over the number of rows.
DRAWN = ("KernelRidge fit", "SVC fit", "GP fit", "KernelPCA fit", "ridge on centres")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write PATH.md and PATH.svg of the rows of a sweep."""
    for row in rows:
        row |= {key: float(row[key]) for key in ("mercer_s", "peer_s", "ratio")}
    _draw(path.with_suffix(".svg"), rows)
    lines = [
        "# How fast",
        "",
        "Times of mercer beside scikit-learn's on the same work: warm calls in one process, and "
        "nothing else computing. A ratio of 2 means that the other takes twice as long. "
        "`make sweep` prints all cells; those drawn at random are in the means too. A first "
        "call is in a process that has imported scikit-learn: it counts what mercer imports and "
        "loads beside it.",
        "",
        f"![Seconds over the number of rows, mercer and its peer]({path.with_suffix('.svg').name})",
        "",
        "| group | against | geometric mean | least | below 1 |",
        "|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        groups[row["group"], row["peer"]].append(row["ratio"])
    for (group, peer), ratios in groups.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        below = sum(ratio < 1 for ratio in ratios)
        lines.append(
            f"| {group} | {peer} | {mean:.2f} | {min(ratios):.2f} | {below} of {len(ratios)} |"
        )
    slow = sorted((row for row in rows if row["ratio"] < 1), key=lambda row: row["ratio"])
    lines += ["", "## Where the other is faster", ""]
    lines += ["| work | against | ratio |", "|---|---|---|"] if slow else ["Nowhere in this sweep."]
    lines += [f"| {row['cell']} | {row['peer']} | {row['ratio']:.2f} |" for row in slow]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _draw(path: Path, rows: list[dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "sweep"
    figure, axes = plt.subplots(1, len(DRAWN), figsize=(3 * len(DRAWN), 3), sharey=True)
    for ax, name in zip(axes, DRAWN, strict=True):
        cells = [r for r in rows if r["name"] == name and r["peer"].startswith("scikit-learn")]
        cells = [r for r in cells if "intelex" not in r["peer"] and "first" not in r["cell"]]
        sizes = [json.loads(r["settings"])["n"] for r in cells]
        ax.loglog(sizes, [r["peer_s"] for r in cells], "o", mfc="none", label="scikit-learn")
        ax.loglog(sizes, [r["mercer_s"] for r in cells], ".", label="mercer")
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("rows")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("seconds")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
