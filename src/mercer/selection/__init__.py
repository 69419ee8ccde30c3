"""Which model: tuning, grids, evidence and bounds; which decision; which label to ask for next."""

from mercer.selection import active
from mercer.selection.bayes import BayesRule, bayes_rule
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
from mercer.selection.tune_model import tune

__all__ = [
    "BayesRule",
    "Evidence",
    "InformationCriteria",
    "SRMResult",
    "SearchResult",
    "TuneResult",
    "active",
    "aic",
    "bayes_rule",
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
