"""Which model: tuning by exact leave-one-out, or by folds along a path."""

from mercer.selection.result import TuneResult
from mercer.selection.tune import tune

__all__ = ["TuneResult", "tune"]
