"""`make sweep`: mercer beside its peers over a wide grid, and over workloads drawn at random.

    python benchmarks/sweep.py                       the grid, 60 workloads drawn, first calls
    python benchmarks/sweep.py --only "SVC" --draw 0 some works, none drawn
    python benchmarks/sweep.py --seed 7 --draw 200   other workloads
    python benchmarks/sweep.py --auto 300            what "auto" takes beside the best way
    python benchmarks/sweep.py --page docs/speed     a page and its picture, of the CSV

Prints each cell, then for each group the geometric mean and the least of peer time / mercer time,
and every cell below 1; all is added to a CSV. Calls are warm unless their line says "first call":
a new process. Of the grid's large cells the memory is told by which each raises that of a new
process at its peak. Nothing else should compute meanwhile.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import auto
from cells import drawn, grid
from works import WORKS
from works.base import PEER, Cell

RESULTS = Path(__file__).parent / "results" / "sweep.csv"
FIELDS = (
    *("group", "cell", "name", "settings", "random"),
    *("mercer_s", "peer", "peer_s", "ratio", "mercer_mb", "peer_mb"),
)
PATIENCE = 2.0  # seconds for all rounds of one work of a cell
ROUNDS = 7
LARGE = 2000  # rows from which memory is told
SHORT = 5e-3  # seconds that a round takes at least, by repetition


def main(words: list[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="sweep.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--only", default="", help="works whose name holds this")
    add("--draw", type=int, default=60, help="how many workloads are drawn at random")
    add("--seed", type=int, default=0, help="of the workloads drawn")
    add("--no-grid", action="store_true", help="leave out the fixed grid")
    add("--no-first", action="store_true", help="leave out first calls in new processes")
    add("--no-memory", action="store_true", help="leave out the memory that large cells take")
    add("--auto", type=int, default=0, help="problems on which 'auto' is compared with all ways")
    add("--csv", type=Path, default=RESULTS, help="where the rows go")
    add("--page", type=Path, help="write PAGE.md and PAGE.svg of the CSV, time nothing")
    add("--first", nargs=2, metavar=("WHO", "CELL"), help=argparse.SUPPRESS)
    told = parser.parse_args(words)
    if told.first:
        print(json.dumps(_first_here(*told.first)))
    elif told.page:
        import page

        page.write(told.page, _read(told.csv))
    elif told.auto:
        auto.compare(told.auto, told.seed, told.only)
    else:
        rows = list(_timed(told))
        _write(told.csv, rows)
        _tell(rows)


def _timed(told: argparse.Namespace) -> Iterable[dict[str, Any]]:
    cells = [] if told.no_grid else list(grid())
    print(f"{len(cells)} cells of the grid, {told.draw} drawn with seed {told.seed}")
    cells += drawn(told.draw, told.seed)
    for cell in cells:
        if told.only.lower() in cell.name.lower():
            times = measure(cell)
            yield from _rows_of(cell, times, memory={} if told.no_memory else peaks(cell, times))
    if not told.no_first:
        for cell in first_cells():
            if told.only.lower() in cell.name.lower():
                yield from _rows_of(cell, first_calls(cell), "first call of ")


def measure(cell: Cell) -> dict[str, float]:
    """Return the least seconds of each, in turn round by round, after a first call."""
    works = cell.works()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        once = {name: _spent(work, 1) for name, work in works.items()}  # compiles, loads
        once = {n: min(t, _spent(works[n], 1)) if t < PATIENCE else t for n, t in once.items()}
        times = {name: max(1, math.ceil(SHORT / once[name])) for name in works}
        best = dict(once)
        spent = dict.fromkeys(works, 0.0)
        for _ in range(ROUNDS):
            for name, work in works.items():
                if spent[name] + once[name] * times[name] > PATIENCE and spent[name] > 0:
                    continue
                took = _spent(work, times[name])
                spent[name] += took * times[name]
                best[name] = min(best[name], took)
    return best


def _spent(work: Callable[[], Any], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times


# ---- first calls ----


def first_cells() -> list[Cell]:
    """Return the cells whose first call in a process is timed."""
    chosen = {
        "SVC fit": {"n": 300, "d": 10},
        "KernelRidge fit": {"n": 300, "d": 10},
        "GP fit": {"n": 300, "d": 10},
        "KernelPCA fit": {"n": 300, "d": 10},
        "KernelRidge predict": {"n": 300, "d": 10, "rows": 1},
    }
    return [Cell(n, "First call", s, WORKS[n].make) for n, s in chosen.items()]


def first_calls(cell: Cell, rounds: int = 3) -> dict[str, float]:
    """Return the seconds of the first call of each in a new process, imports of mercer included."""
    told = {who: [_alone(cell, who)["s"] for _ in range(rounds)] for who in ("mercer", PEER)}
    return {who: min(seconds) for who, seconds in told.items()}


def peaks(cell: Cell, names: Iterable[str]) -> dict[str, float]:
    """Return by how many MB each raises the memory of a new process, on the grid's large cells."""
    if cell.random or cell.settings["n"] < LARGE:
        return {}
    return {who: _alone(cell, who)["mb"] for who in names}


def _alone(cell: Cell, who: str) -> dict[str, float]:
    words = [sys.executable, __file__, "--first", who, json.dumps([cell.name, cell.settings])]
    return json.loads(subprocess.run(words, check=True, capture_output=True).stdout)


def _first_here(who: str, text: str) -> dict[str, float]:
    """Return seconds and MB of a first call; what was imported and made before does not count."""
    name, settings = json.loads(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work = WORKS[name].make(**settings)[who]
        before = _megabytes("VmRSS", anew=True)
        seconds = _spent(work, 1)
    return {"s": seconds, "mb": _megabytes("VmHWM") - before}


def _megabytes(what: str, anew: bool = False) -> float:
    """Return what Linux says of this process's memory; its peak may be counted anew from here."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1e3 for line in lines if line.startswith(what))


# ---- what is told ----


def _rows_of(
    cell: Cell, best: dict[str, float], before: str = "", memory: dict[str, float] | None = None
) -> Iterable[dict[str, Any]]:
    memory, ours = memory or {}, best["mercer"]
    for peer in [name for name in best if name != "mercer"]:
        seconds = best[peer]
        ratio = seconds / ours
        room = f"  {memory['mercer']:.0f} beside {memory[peer]:.0f} MB" if memory else ""
        print(f"{before}{cell.title:58} {_time(ours)} {_time(seconds)} {ratio:7.2f}  {peer}{room}")
        sys.stdout.flush()
        yield {
            "group": cell.group,
            "cell": before + cell.title,
            "name": cell.name,
            "settings": json.dumps(cell.settings),
            "random": int(cell.random),
            "mercer_s": ours,
            "peer": peer,
            "peer_s": seconds,
            "ratio": ratio,
            "mercer_mb": memory.get("mercer", ""),
            "peer_mb": memory.get(peer, ""),
        }


def _time(seconds: float) -> str:
    return f"{seconds:9.3f} s " if seconds >= 0.1 else f"{1000 * seconds:9.3f} ms"


def _tell(rows: list[dict[str, Any]]) -> None:
    """Print each group's geometric mean and least ratio, and every cell below 1."""
    print(f"\n{'group':24} {'against':40} {'mean':>6} {'least':>6}  below 1")
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        groups[row["group"], row["peer"]].append(row["ratio"])
        groups["all", row["peer"].partition(",")[0]].append(row["ratio"])
    for (group, peer), ratios in sorted(groups.items(), key=lambda item: item[0][0] == "all"):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        below = sum(ratio < 1 for ratio in ratios)
        print(f"{group:24} {peer:40} {mean:6.2f} {min(ratios):6.2f}  {below} of {len(ratios)}")
    slow = sorted((row for row in rows if row["ratio"] < 1), key=lambda row: row["ratio"])
    print(f"\n{len(slow)} cells below 1:" if slow else "\nno cell below 1")
    for row in slow:
        print(f"  {row['ratio']:5.2f}  {row['cell']}  against {row['peer']}")


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.DictWriter(file, FIELDS)
        lines.writeheader()
        lines.writerows(rows)


def _read(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
