"""The columns of rows that come in blocks, noted as scikit-learn's checks do for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.domains.blocks.rows import RowBlocks

__all__ = ["note_columns"]


def note_columns(model: Any, rows: RowBlocks) -> None:
    """Store number and names of the columns, as scikit-learn's checks do for arrays.

    Parameters
    ----------
    model : estimator
        That is being fitted.
    rows : RowBlocks
        The rows.
    """
    vars(model).pop("feature_names_in_", None)
    if rows.n_columns is not None:
        model.n_features_in_ = rows.n_columns
        if rows.columns is not None:
            model.feature_names_in_ = np.array(rows.columns, dtype=object)
