"""Real tables that come with scikit-learn, with their columns named and in their own units."""

from __future__ import annotations

import numpy as np
from sklearn import datasets

from mercer.domains import Table

__all__ = ["load_diabetes_table", "load_wine_table"]

_DIABETES = {
    "age": "age",
    "sex": "sex",
    "bmi": "bmi",
    "bp": "blood_pressure",
    "s1": "total_cholesterol",
    "s2": "ldl",
    "s3": "hdl",
    "s4": "cholesterol_ratio",
    "s5": "log_triglycerides",
    "s6": "blood_sugar",
}


def load_diabetes_table() -> tuple[Table, np.ndarray]:
    """Return 442 patients with diabetes and the progress of the disease after one year.

    Nine columns of numbers in their own units and the categories of ``sex``, coded ``"1"`` and
    ``"2"`` by the authors (Efron, Hastie, Johnstone and Tibshirani, 2004).

    Returns
    -------
    table : Table
        The ten columns.
    progression : ndarray of shape (442,)
        A measure of disease progression, from 25 to 346.

    Examples
    --------
    >>> from mercer.datasets import load_diabetes_table
    >>> table, progression = load_diabetes_table()
    >>> table.shape, progression.mean().round(1)
    ((442, 10), np.float64(152.1))
    """
    data = datasets.load_diabetes(scaled=False)
    columns: dict[str, np.ndarray] = {}
    for name, values in zip(data.feature_names, data.data.T, strict=True):
        columns[_DIABETES[name]] = values
    columns["sex"] = columns["sex"].astype(int).astype(str)
    return Table(columns), data.target


def load_wine_table() -> tuple[Table, np.ndarray]:
    """Return 178 wines by 13 chemical measurements, and which of three growers made each.

    Returns
    -------
    table : Table
        The thirteen columns of numbers.
    grower : ndarray of shape (178,)
        ``"grower 1"``, ``"grower 2"`` or ``"grower 3"``.

    Examples
    --------
    >>> from mercer.datasets import load_wine_table
    >>> table, grower = load_wine_table()
    >>> table.names[:2], str(grower[0])
    (('alcohol', 'malic_acid'), 'grower 1')
    """
    data = datasets.load_wine()
    names = [n.replace("/", "_") for n in data.feature_names]
    table = Table(dict(zip(names, data.data.T, strict=True)))
    return table, np.array([f"grower {k + 1}" for k in data.target])
