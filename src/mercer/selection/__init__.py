"""Which model: tuning, grids, evidence and bounds; which decision; which label to ask for next."""

from mercer.selection.bayes import BayesRule, bayes_rule
from mercer.selection.criteria import (
    InformationCriteria,
    aic,
    bic,
    degrees_of_freedom,
    information_criteria,
    regression_bound,
    risk_bound,
)
from mercer.selection.grid.search import SearchResult, search
from mercer.selection.linear_evidence import Evidence, evidence
from mercer.selection.structural_risk import SRMResult, srm
from mercer.selection.tuning.tune import tune
from mercer.selection.tuning.what import TuneResult

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
