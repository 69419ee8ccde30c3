"""Processes killed while they write: the file is then the old one or the new one, whole.

``python tools/torture/kills.py --cases 500 --seed 1`` writes models, checkpoints, predictions and
tables over and over in a process of its own, which SIGKILL ends at a random moment. Afterwards the
file must be one of the two that were written in turn, byte for byte, and the next writer must
leave nothing beside it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import mercer
from mercer.cli.files import write_answers
from mercer.engines.checkpoint import Checkpoint

LONGEST = 0.06  # seconds before the end


@cache
def _models() -> list[Any]:
    X = np.random.default_rng(0).standard_normal((400, 50))
    return [mercer.KernelRidge(mercer.RBF(s), 0.1).fit(X, X[:, 0]) for s in (5.0, 9.0)]


def _model(path: str, turn: int) -> None:
    mercer.save(_models()[turn], path)


def _checkpoint(path: str, turn: int) -> None:
    Checkpoint(path, "a problem").save({"step": turn, "x": np.full(50_000, float(turn))})


def _predictions(path: str, turn: int) -> None:
    X = np.random.default_rng(turn).standard_normal((2000, 50))
    blocks = mercer.RowBlocks.from_arrays(X, block_rows=200)
    mercer.write_predictions(_models()[turn], blocks, path)


def _table(path: str, turn: int) -> None:
    columns = {"row": list(range(5000)), "answer": [f"answer {turn}"] * 5000}
    write_answers(columns, path, force=True, raw=False, say=print)


#: What is written, and the ending of its file.
WRITERS: dict[str, tuple[Callable[[str, int], None], str]] = {
    "model": (_model, ".mercer"),
    "checkpoint": (_checkpoint, ".checkpoint"),
    "predictions": (_predictions, ".npy"),
    "table": (_table, ".csv"),
}


@cache
def _contents(name: str) -> list[bytes]:
    """Return the two files that are written in turn, each by itself."""
    write, ending = WRITERS[name]
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"{turn}{ending}") for turn in (0, 1)]
        for turn, path in enumerate(paths):
            write(path, turn)
        return [Path(path).read_bytes() for path in paths]


def _for_ever(write: Callable[[int], None]) -> None:
    turn = 0
    while True:
        turn = 1 - turn
        write(turn)


def judge(name: str, number: int, seed: int) -> tuple[str, str]:
    """Kill one writer; return "old", "new" or "fault", and why."""
    write, ending = WRITERS[name]
    contents = _contents(name)
    rng = np.random.default_rng([seed, number])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file{ending}")
        write(path, 0)
        child = os.fork()
        if child == 0:  # the writer: it ends by the signal alone
            try:
                _for_ever(partial(write, path))
            finally:
                os._exit(1)
        time.sleep(LONGEST * float(rng.random()))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        found = Path(path).read_bytes()
        if not os.WIFSIGNALED(status):
            return "fault", f"[{number}] {name}: the writer ended by itself, {status}"
        if found not in contents:
            return "fault", f"[{number}] {name}: {len(found)} bytes that nobody wrote"
        write(path, 1)
        left = sorted(set(os.listdir(folder)) - {f"file{ending}"})
        if left or Path(path).read_bytes() != contents[1]:
            return "fault", f"[{number}] {name}: the next writer left {left}"
    return ("new" if found == contents[1] else "old"), ""


def run(cases: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """Kill writers and yield what was written, how it ended, and why."""
    names = list(WRITERS)
    for number in range(cases):
        name = names[number % len(names)]
        yield name, *judge(name, number, seed)


def main(argv: list[str] | None = None) -> int:
    """Print the table of a campaign; 1 when there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    counts: Counter[tuple[str, str]] = Counter()
    for name, kind, why in run(options.cases, options.seed):
        counts[name, kind] += 1
        if kind == "fault":
            print(why, flush=True)
    print(f"{'':>12}{'old':>8}{'new':>8}{'fault':>8}   seed {options.seed}")
    for name in WRITERS:
        told = "".join(f"{counts[name, kind]:>8}" for kind in ("old", "new", "fault"))
        print(f"{name:>12}{told}")
    return 1 if any(counts[name, "fault"] for name in WRITERS) else 0


if __name__ == "__main__":
    sys.exit(main())
