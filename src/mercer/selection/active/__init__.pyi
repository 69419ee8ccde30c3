from mercer.selection.active.acquisition import next_point as next_point, scores as scores
from mercer.selection.active.loop import LearnResult as LearnResult, learn as learn

__all__ = ["LearnResult", "learn", "next_point", "scores"]
