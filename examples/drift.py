"""Has the data changed? A table of last month against this month's, column by column.

Run it with ``python examples/drift.py``; it takes a few seconds. The same is done on the command
line by ``mercer compare last.csv this.csv --fail-under 0.01``.
"""

from __future__ import annotations

import contextlib
import csv
import tempfile
from pathlib import Path

import numpy as np

from mercer.cli import main as command_line

N = 300


def month(seed: int, drift: float = 0.0) -> dict[str, list]:
    """Return orders of a month: amounts, ages and towns; with drift the old and the rich move."""
    rng = np.random.default_rng(seed)
    age = rng.normal(45, 12, N).round()
    # With drift amounts go up for the old and down for the young: their average stays.
    amount = np.exp(rng.normal(3, 0.4, N) + drift * 0.03 * (age - 45))
    town = rng.choice(["north", "south", "west"], N, p=[0.5, 0.3, 0.2])
    return {"age": age.tolist(), "amount": amount.round(2).tolist(), "town": town.tolist()}


def write(path: Path, columns: dict[str, list]) -> None:
    """Write a table as CSV."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(columns)
        out.writerows(zip(*columns.values(), strict=True))


def main() -> None:
    """Tell the story."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        last, same, other = (Path(f"{name}.csv") for name in ("last", "same", "other"))
        write(last, month(1))
        write(same, month(2))
        write(other, month(3, drift=1.0))
        for title, path in (("a month like the last", same), ("a month that drifted", other)):
            print(f"--- {title}", flush=True)
            code = command_line(
                ["compare", str(last), str(path), "--fail-under", "0.01", "--top", "3"]
            )
            print(f"exit code {code}\n")


if __name__ == "__main__":
    main()
