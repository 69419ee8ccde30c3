"""Which model: tuning by exact leave-one-out."""

from mercer.selection.tune import TuneResult, tune

__all__ = ["TuneResult", "tune"]
