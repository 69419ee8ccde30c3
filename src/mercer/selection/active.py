"""Active learning: which point to ask the label of next, and a loop that does.

`next_point` names the candidate whose label would teach a fitted model most, `scores` says how
much each would, and `learn` asks for one label after the other.
"""

from mercer.selection.active_loop import LearnResult, learn
from mercer.selection.active_scores import next_point, scores

__all__ = ["LearnResult", "learn", "next_point", "scores"]
