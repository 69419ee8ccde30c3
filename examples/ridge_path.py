"""Ridge regression as its penalty falls from 100 to 1e-7: from nothing, through right, to noise.

Run it with ``python examples/ridge_path.py``; it takes a second.
"""

from __future__ import annotations

import numpy as np

from mercer import RBF, KernelRidge


def curve(x: np.ndarray) -> np.ndarray:
    """Return the truth."""
    return np.sin(x) + 0.25 * x


def main() -> None:
    """Tell the story."""
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0, 10, 40))
    y = curve(x) + 0.5 * rng.standard_normal(40)
    inside = np.linspace(x[1], x[-2], 400)
    kernel = RBF(0.8)

    print("Forty rows around a curve, RBF(0.8); the penalty is alpha = λ·n")
    print("        λ   degrees of freedom   fitted rows   left out   the curve itself")
    errors = {}
    for power in range(2, -8, -1):
        model = KernelRidge(kernel, alpha=10.0**power * len(x)).fit(x[:, None], y)
        errors[power] = np.mean((model.loo() - y) ** 2)
        fitted = np.mean((model.predict(x[:, None]) - y) ** 2)
        truth = np.mean((model.predict(inside[:, None]) - curve(inside)) ** 2)
        print(
            f"   {10.0**power:6g} {model.degrees_of_freedom():20.2f} {fitted:13.3f} "
            f"{errors[power]:10.3f} {truth:18.3f}"
        )
    best = min(errors, key=errors.get)
    print(f"\nLeast error on rows left out: λ = {10.0**best:g}.")
    print("The error on fitted rows falls for ever; it knows nothing of the curve.")

    model = KernelRidge(kernel, alpha="loo").fit(x[:, None], y)
    print(
        f"alpha='loo' tries {len(model.alphas_)} penalties from one eigendecomposition and takes "
        f"λ = {model.alpha_ / len(x):.2g}."
    )


if __name__ == "__main__":
    main()
