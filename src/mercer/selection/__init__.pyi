from mercer.selection import active as active
from mercer.selection.bayes import BayesRule as BayesRule, bayes_rule as bayes_rule
from mercer.selection.criteria import (
    Evidence as Evidence,
    InformationCriteria as InformationCriteria,
    aic as aic,
    bic as bic,
    degrees_of_freedom as degrees_of_freedom,
    evidence as evidence,
    information_criteria as information_criteria,
    regression_bound as regression_bound,
    risk_bound as risk_bound,
)
from mercer.selection.grid import SearchResult as SearchResult, search as search
from mercer.selection.structural_risk import (
    FeatureLeastSquares as FeatureLeastSquares,
    SRMResult as SRMResult,
    srm as srm,
)
from mercer.selection.tuning import TuneResult as TuneResult, tune as tune

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
