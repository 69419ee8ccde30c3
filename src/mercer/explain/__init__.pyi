from mercer.explain.curves import Effect as Effect, Effects as Effects, effects as effects

__all__ = ["Effect", "Effects", "effects"]
