from mercer.selection.active.learn import LearnResult as LearnResult, learn as learn
from mercer.selection.active.scores import next_point as next_point, scores as scores

__all__ = ["LearnResult", "learn", "next_point", "scores"]
