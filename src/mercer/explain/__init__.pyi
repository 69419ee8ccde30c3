from mercer.explain.curves import Effect as Effect, Effects as Effects, effects as effects
from mercer.explain.importances import Importance as Importance, importance as importance

__all__ = ["Effect", "Effects", "Importance", "effects", "importance"]
