"""Which model: tuning by exact leave-one-out, or by folds along a path."""

from mercer.selection.bounds import regression_bound, risk_bound
from mercer.selection.criteria import (
    InformationCriteria,
    aic,
    bic,
    degrees_of_freedom,
    information_criteria,
)
from mercer.selection.evidence_linear import Evidence, evidence
from mercer.selection.result import TuneResult
from mercer.selection.search_grid import SearchResult, search
from mercer.selection.srm_nested import SRMResult, srm
from mercer.selection.tune import tune

__all__ = [
    "Evidence",
    "InformationCriteria",
    "SRMResult",
    "SearchResult",
    "TuneResult",
    "aic",
    "bic",
    "degrees_of_freedom",
    "evidence",
    "information_criteria",
    "regression_bound",
    "risk_bound",
    "search",
    "srm",
    "tune",
]
