"""Draw the figures of the manual anew at each build, into ``docs/_build/figures``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import active
import fitting
import losses
import metrics
import process
import prototypes
import quantiles
import radial
import ridge_path
import samples
import svm
import svm_values
import why
from sphinx.application import Sphinx

__all__ = ["FIGURES", "setup"]

OUTPUT = Path(__file__).parents[1] / "_build" / "figures"
#: Name of the file → function that draws it.
FIGURES = {
    "active_queries": active.queries,
    "fitting_degrees": fitting.degrees,
    "fitting_errors": fitting.errors,
    "fitting_scales": fitting.scales,
    "intervals": ridge_path.intervals,
    "radial": radial.draw,
    "ridge_path": ridge_path.path,
    "losses_classification": losses.classification,
    "losses_regression": losses.regression,
    "metrics_diabetes": metrics.diabetes,
    "process_classes": process.classes,
    "process_evidence": process.evidence,
    "process_posterior": process.posterior,
    "process_series": process.series,
    "prototypes_path": prototypes.path,
    "prototypes_sparse": prototypes.sparse,
    "prototypes_xor": prototypes.xor,
    "quantiles_bands": quantiles.bands,
    "quantiles_crossing": quantiles.crossing,
    "samples_clusters": samples.clusters,
    "samples_density": samples.density,
    "samples_dependence": samples.dependence,
    "samples_rings": samples.rings,
    "samples_witness": samples.witness,
    "svm_margins": svm.margins,
    "svm_c": svm.effect_of_c,
    "svm_kernel": svm.effect_of_kernel,
    "svm_hard": svm.hard_margin,
    "svm_probabilities": svm.probabilities,
    "svm_path": svm.path,
    "svm_tube": svm_values.tube,
    "svm_one_class": svm_values.one_class,
    "why_effects": why.effects,
    "why_pairs": why.pairs,
    "why_shares": why.shares,
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Draw every figure before pages are read."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        draw(OUTPUT / f"{name}.png")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
