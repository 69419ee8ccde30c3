"""Which columns drift, when every column looks as before? Shares of a test say it.

Run it with ``python examples/drift_columns.py``; it takes a few seconds. A machine has eight
sensors. After a repair two wires are swapped in a way that no sensor shows alone: temperature and
pressure used to rise together, and now one falls as the other rises.
"""

from __future__ import annotations

import numpy as np

from mercer.statistics import mmd_test

SENSORS = ["temperature", "pressure", "flow", "speed", "current", "voltage", "noise", "humidity"]
ROWS = 400


def week(rng: np.random.Generator, tie: float) -> np.ndarray:
    """Return readings of a week, each sensor of mean 0 and variance 1."""
    Z = rng.standard_normal((ROWS, len(SENSORS)))
    Z[:, 1] = tie * Z[:, 0] + (1 - tie**2) ** 0.5 * Z[:, 1]
    Z[:, 4] = 0.7 * Z[:, 3] + 0.51**0.5 * Z[:, 4]  # speed and current are tied in all weeks
    return Z


def main() -> None:
    """Tell the story."""
    rng = np.random.default_rng(1)
    before, calm, repaired = week(rng, 0.7), week(rng, 0.7), week(rng, -0.7)
    for title, after in (("a calm week", calm), ("the week after the repair", repaired)):
        alone = [
            mmd_test(before[:, j], after[:, j], n_permutations=199, rng=0).pvalue
            for j in range(len(SENSORS))
        ]
        result = mmd_test(before, after, rng=0)
        told = result.explain(columns=SENSORS)
        print(f"--- {title}")
        print(f"Tested one by one, the smallest p-value of {len(SENSORS)} sensors is {min(alone)}.")
        print(f"All sensors together have the p-value {result.pvalue}.")
        found = told.significant()
        if not found:
            print("No sensor and no pair has more of the statistic than chance gives.\n")
            continue
        for share in found:
            print(
                f"{share.name.capitalize()}: {share.value:.4f} of {result.statistic:.4f}; chance "
                f"gives any sensor or pair as much in {share.adjusted:.1%} of cases."
            )
        first = found[0].columns
        positions, shares = told.rows(3, first)["Y"]
        for position, row in zip(positions, shares.data, strict=True):
            held = " and ".join(f"{name} is {row[SENSORS.index(name)]:+.1f}" for name in first)
            print(f"Row {position} shows it: {held}.")
        print()


if __name__ == "__main__":
    main()
