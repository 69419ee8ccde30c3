"""Two stations, one of them silent half of the time: what one says of the other.

Run it with ``python examples/gp_outputs.py``; it takes a second.
"""

from __future__ import annotations

import numpy as np

from mercer import RBF, Coregion, GaussianProcessRegressor, for_output, stack_outputs


def stations(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return hours, the level at two gauges of a lock, and the true levels.

    When one basin fills, the other empties. The second gauge fails from hour 10 to 20.
    """
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 24, 90))[:, None]
    wave = np.sin(0.8 * t[:, 0]) + 0.5 * np.sin(1.9 * t[:, 0] + 1)
    truth = np.column_stack([wave, -0.8 * wave])
    seen = truth + 0.1 * rng.standard_normal(truth.shape)
    seen[(t[:, 0] > 10) & (t[:, 0] < 20), 1] = np.nan
    return t, seen, truth


def main() -> None:
    """Tell the story."""
    t, seen, truth = stations()
    lost = np.isnan(seen[:, 1])
    print(f"1. {len(t)} hours; the second gauge is silent in {lost.sum()} of them")

    alone = GaussianProcessRegressor(1.0 * RBF(1.0)).fit(t[~lost], seen[~lost, 1])
    rows, y = stack_outputs(t, seen)
    kernel = RBF(1.0).on([0]) * Coregion(2).on([1])
    joint = GaussianProcessRegressor(kernel).fit(rows, y)
    between = joint.kernel_.k2.kernel.output_correlation()[0, 1]
    print(f"   correlation of the two, as found: {between:+.2f}\n")

    print(
        "2. What the second gauge would have said: error, and how wide and true the 90% bands are"
    )
    answers = {
        "from its own hours": alone.predict(t[lost], return_std=True, with_noise=False),
        "from both gauges": joint.predict(
            for_output(t[lost], 1), return_std=True, with_noise=False
        ),
    }
    for name, (mean, std) in answers.items():
        off = np.abs(mean - truth[lost, 1])
        held = (off < 1.645 * std).mean()
        error = np.sqrt((off**2).mean())
        print(f"   {name:19} error {error:.3f}   band ±{1.645 * std.mean():.3f} holds {held:4.0%}")


if __name__ == "__main__":
    main()
