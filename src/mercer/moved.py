"""Where the modules of 0.1.0, and some after it, are now, so that pickles of theirs load.

A pickle names the module of each class. Model files do not, and need nothing of this.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec

#: Folder -> the modules of 0.1.0 that it has, each with its new name there.
MOVED = {
    "domains": "columns=tables.columns gram_rows=gram graph_collection=graphs.collection "
    "graph_input=graphs.read graph_value=graphs.value nodes=graphs.nodes numbers=vectors "
    "objects=points row_blocks=blocks.rows",
    "features": "columns=tables sparse_counts=counts streamed=..estimator.blocks",
    "kernels": "coregion=numbers global_alignment=time_series matern=radial "
    "precomputed=constant report=user series=algebra",
    "kernels.graphs": "attributed_path=paths diffusion=nodes neighborhood_hash=histograms "
    "random_walk=walks regularized_laplacian=nodes shortest_path=paths "
    "vertex_histogram=histograms weisfeiler_lehman=histograms",
    "kernels.strings": "common_substring=paired edit_distance=paired gapped=mismatch "
    "local_alignment=alignment spectrum=counted subsequence=paired weighted_degree=counted",
    "models": "barycentre=neighbors.barycentre base=..estimator.base erm=risk.erm huber=risk.named "
    "kernel_machine=sparse.kernel_machine l1vm=sparse.l1vm l1vm_named=sparse.l1vm "
    "logistic=risk.logistic nusvc=margin.nusvc one_class=margin.one_class "
    "plan_value=..estimator.plan quantile=risk.named ridge_classifier=ridge.classifier "
    "structured=ridge.structured svc=margin.svc svr=margin.svr table=tables.regressor "
    "table_classifier=tables.classifier",
    "models.cluster": "dpmeans_solver=dpmeans_fit",
    "models.density": "nadaraya_classifier=nadaraya",
    "models.gp": "classifier=classes.classifier regressor=regression.regressor",
    "models.metric": "feature_machines=..models.metric",
    "operators": "algebra=base",
    "plot": "clusters=points density=points dependence=samples evidence=process null=points "
    "posterior=process projection=points witness=samples",
    "selection": "result=tuning.what srm_least_squares=structural_risk",
    "solvers": "eigen=linear.eigen problems=base",
    "statistics": "k_sample=two_sample.k_sample",
}


def spec_of(name: str) -> ModuleSpec | None:
    """Return how to load a module that has moved, or None for any other."""
    folder, _, stem = name.removeprefix("mercer.").rpartition(".")
    new = dict(item.split("=") for item in MOVED.get(folder, "").split()).get(stem)
    if new is None:
        return None
    address = f"mercer.{new[2:]}" if new.startswith("..") else f"mercer.{folder}.{new}"
    return ModuleSpec(name, Forwarded(address))  # type: ignore[arg-type]


class Forwarded:
    """Loads a module by giving out the one that took its place."""

    def __init__(self, new: str):
        self.new = new

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to make one, which `exec_module` replaces."""

    def exec_module(self, module: object) -> None:
        """Put the module that took the place of this one under its name."""
        sys.modules[module.__name__] = importlib.import_module(self.new)  # type: ignore[attr-defined]
