"""Why is this patient expected to fare so? Shares of columns in a prediction, exactly.

Run it with ``python examples/why.py``; it takes a few seconds. With the path of a PNG file it draws
the picture: ``python examples/why.py why.png`` (needs matplotlib).
"""

from __future__ import annotations

import sys
from itertools import combinations
from math import factorial

import numpy as np
from sklearn.datasets import load_diabetes

from mercer import RBF, KernelRidge, TableRegressor
from mercer.rkhs import Explanation


def main(picture: str | None = None) -> None:
    """Explain a patient, check one share by hand, look at all patients, and at a table."""
    data = load_diabetes(as_frame=True, scaled=False)
    X, y = (data.data - data.data.mean()) / data.data.std(), data.target
    model = KernelRidge(RBF("median"), alpha="loo", fit_intercept=True).fit(X, y)
    told = model.explain(X, background=X, interactions=True)
    off = np.abs(told.totals - model.predict(X)).max()
    one_patient(told, 9)
    print(f"base and shares add up to the prediction, in all rows to {off:.0e}\n")
    by_definition(model, X, told)
    all_patients(told)
    as_a_table(data.data, y)
    if picture:
        told.plot(row=9).figure_.savefig(picture, dpi=150)
        print(f"\npicture: {picture}")


def one_patient(told: Explanation, row: int) -> None:
    """Print what raises and lowers one prediction."""
    print(f"patient {row}: progression {told.totals[row]:.0f}, on average {told.base:.0f}, because")
    for column, value, share in told.top(row, 4):
        print(f"   {column:4} is {value:+.1f} standard deviations from its mean: {share:+.1f}")


def by_definition(model: KernelRidge, X, told: Explanation) -> None:
    """Compute one share from the definition: 512 sets of columns, known and not."""
    k, p = model.kernel_, X.shape[1]
    x, points = X.to_numpy()[0], X.to_numpy()
    scale = 2.0 * k.length_scale**2
    known = np.exp(-((x - points) ** 2) / scale)
    unknown = np.stack(
        [np.exp(-((points[:, [j]] - points[:, j]) ** 2) / scale).mean(0) for j in range(p)], axis=1
    )
    coef, others = model.function_.coef, [j for j in range(p) if j != 2]

    def worth(columns: tuple[int, ...]) -> float:
        inside = np.isin(np.arange(p), columns)
        return float(coef @ np.where(inside, known, unknown).prod(axis=1))

    share = 0.0
    for size in range(p):
        weight = factorial(size) * factorial(p - 1 - size) / factorial(p)
        for some in combinations(others, size):
            share += weight * (worth((*some, 2)) - worth(some))
    print(f"share of bmi for patient 0: {told.values[0, 2]:.10f}, and by definition {share:.10f}\n")


def all_patients(told: Explanation) -> None:
    """Print which columns and pairs matter over all patients."""
    order = np.argsort(-told.importances)[:4]
    sizes = ", ".join(f"{told.columns[j]} {told.importances[j]:.1f}" for j in order)
    print(f"mean size of the shares: {sizes}")
    together = np.triu(np.abs(told.interactions).mean(axis=0), 1)
    j, k = np.unravel_index(together.argmax(), together.shape)
    print(
        f"the strongest pair is {told.columns[j]} and {told.columns[k]}: {2 * together[j, k]:.1f}\n"
    )


def as_a_table(table, y) -> None:
    """Explain any model of a table, which is asked at mixed rows."""
    model = TableRegressor(RBF(4.0), alpha=1.0).fit(table, y)
    told = model.explain(table[:1], background=table[::9])
    print("a model of the table as it is, asked at mixed rows, with standard errors:")
    for column, value, share in told.top(0, 3):
        error = told.std[0, told.columns.index(column)]
        print(f"   {column} = {value:g}: {share:+.1f} (± {error:.1f})")


if __name__ == "__main__":
    main(*sys.argv[1:2])
