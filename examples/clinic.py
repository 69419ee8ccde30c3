"""Recovery of patients from columns of every kind, with gaps: one kernel for the whole table.

Numbers, categories, ordered levels, DNA and notes stand in one table, and a tenth of the cells is
missing. Run it with ``python examples/clinic.py``; it takes some seconds.
"""

from __future__ import annotations

import numpy as np

import mercer
from mercer import BagOfWords, Categorical, Ordinal, Spectrum
from mercer.datasets import make_clinic
from mercer.kernels import column_kinds


def main() -> None:
    """Fit the numbers alone, the proposed kernel, and one written by hand."""
    table, y = make_clinic(300, random_state=0)
    print(table)
    for name, (kind, why) in column_kinds(table).items():
        print(f"   {name:10}{kind:10}{why}")

    numbers = mercer.RBF([15.0, 15.0]).with_missing().on(["age", "dose"])
    marker = Spectrum(5).normalized().with_missing().on("sequence")
    byhand = (
        numbers
        + Categorical(0.5).on("site")
        + Ordinal(["low", "middle", "high"]).on("severity")
        + BagOfWords().with_missing().on("notes")
        + numbers * marker  # the dose may act on those with the marker only
    )
    kernels = {
        "age and dose alone": numbers,
        "auto_kernel": mercer.auto_kernel(table),
        "by hand": byhand,
    }
    print("\nridge regression, leave-one-out")
    for name, kernel in kernels.items():
        model = mercer.KernelRidge(kernel, alpha="loo", fit_intercept=True).fit(table, y)
        r2 = 1 - np.mean((y - model.loo()) ** 2) / np.var(y)
        print(f"   {name:20} R² {r2:.2f}, alpha {model.alpha_:.2g}")

    patient = mercer.domains.Table(
        {
            "age": [44.0],
            "dose": [np.nan],
            "site": ["Oslo"],
            "severity": ["low"],
            "sequence": ["ACGTGATTACAGGT"],
            "notes": [None],
        }
    )
    print(
        f"\na new patient from a new town, dose and notes missing: {model.predict(patient)[0]:.2f}"
    )


if __name__ == "__main__":
    main()
