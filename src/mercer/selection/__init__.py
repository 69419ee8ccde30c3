"""Which model: tuning by exact leave-one-out, or by folds along a path."""

from mercer.selection.bounds import regression_bound, risk_bound
from mercer.selection.criteria import (
    InformationCriteria,
    aic,
    bic,
    degrees_of_freedom,
    information_criteria,
)
from mercer.selection.evidence import Evidence, evidence
from mercer.selection.result import TuneResult
from mercer.selection.srm import SRMResult, srm
from mercer.selection.tune import tune

__all__ = [
    "Evidence",
    "InformationCriteria",
    "SRMResult",
    "TuneResult",
    "aic",
    "bic",
    "degrees_of_freedom",
    "evidence",
    "information_criteria",
    "regression_bound",
    "risk_bound",
    "srm",
    "tune",
]
