"""All campaigns of tools/torture, one after another, and one table of how they ended.

``python -m tools.torture --minutes 60 --seed 1`` gives each campaign its share of the time, in a
process of its own: one that dies counts as a fault. Exit code 1 says that there was a fault.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOREVER = 10**9  # cases: the time is what ends a campaign
PATIENCE = 300.0  # seconds that the last case of a campaign may take beyond its time


def _calls(seed: int) -> Iterator[tuple[str, str]]:
    from tools.torture import fuzz

    for verdict in fuzz.run(FOREVER, seed):
        yield verdict.kind, f"{verdict.words}: {verdict.why}"


def _interrupts(seed: int) -> Iterator[tuple[str, str]]:
    from tools.torture.interrupts import interrupts

    for turn in count():
        for row in interrupts(seed + turn, FOREVER):
            told = f"{row['kind']}, {row['way']}, {row['seconds']:.2f} s: {row['fault']}"
            yield "fault" if row["fault"] else "heard", f"{told}\n{row.get('where', '')}"


def _files(seed: int) -> Iterator[tuple[str, str]]:
    from tools.torture import files

    for _, kind, why in files.run(FOREVER, seed):
        yield kind, why


def _kills(seed: int) -> Iterator[tuple[str, str]]:
    from tools.torture import kills

    for _, kind, why in kills.run(FOREVER, seed):
        yield kind, why


def _certificates(seed: int) -> Iterator[tuple[str, str]]:
    from tools.torture import certificates

    for _, end, why in certificates.run(FOREVER, seed):
        yield end, why


class Part(NamedTuple):
    """A campaign: its share of the time, and its cases as pairs of an end and a reason."""

    share: float
    cases: Callable[[int], Iterator[tuple[str, str]]]


PARTS = {
    "hostile calls": Part(0.3, _calls),
    "interrupts": Part(0.3, _interrupts),
    "damaged files": Part(0.1, _files),
    "killed writers": Part(0.05, _kills),
    "certificates": Part(0.25, _certificates),
}


def _alone(name: str, seconds: float, seed: int) -> None:
    """Run one campaign in this process; the last line printed counts how its cases ended."""
    faulthandler.enable(sys.__stderr__)
    # a shell ignores Ctrl-C for what it starts in the background, and children inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ends: Counter[str] = Counter()
    until = time.monotonic() + seconds
    for end, why in PARTS[name].cases(seed):
        ends[end] += 1
        if end == "fault":
            print(why, flush=True)
        if time.monotonic() > until:
            break
    print(json.dumps(ends), flush=True)


def campaign(name: str, seconds: float, seed: int) -> tuple[dict[str, int], list[str]]:
    """Run one campaign in a process of its own; return how its cases ended, and what it printed.

    Parameters
    ----------
    name : str
        One of `PARTS`.
    seconds : float
        After how long it begins no other case.
    seed : int
        What the cases are drawn with.
    """
    words = ["-m", "tools.torture", "--part", name, "--minutes", repr(seconds / 60)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = subprocess.Popen(
        [sys.executable, *words, "--seed", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        lines = process.communicate(timeout=seconds + PATIENCE)[0].splitlines()
        ended = f"the campaign ended with exit code {process.returncode}"
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler then tells where it was
        lines = process.communicate()[0].splitlines()
        ended = f"a case took more than {PATIENCE:.0f} s"
    if process.returncode == 0 and lines:
        return json.loads(lines[-1]), lines[:-1]
    return {"fault": 1}, [*lines, ended]


def main(argv: list[str] | None = None) -> int:
    """Print the table of all campaigns; 1 when there was a fault."""
    parser = argparse.ArgumentParser(prog="tools.torture", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.part:
        _alone(options.part, 60 * options.minutes, options.seed)
        return 0
    rows, faults = [], 0
    for name, part in PARTS.items():
        print(f"{name}, {part.share * options.minutes:.1f} minutes", flush=True)
        ends, told = campaign(name, 60 * part.share * options.minutes, options.seed)
        print("".join(f"    {line}\n" for line in told), end="", flush=True)
        bad = ends.pop("fault", 0)
        faults += bad
        others = ", ".join(f"{number} {end}" for end, number in sorted(ends.items()))
        rows.append(f"{name:16}{sum(ends.values()) + bad:>10}{bad:>10}   {others}")
    print(f"\n{f'seed {options.seed}':16}{'cases':>10}{'faults':>10}   the others")
    print("\n".join(rows))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
