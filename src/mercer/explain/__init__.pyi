from mercer.explain.counterfactuals import (
    Change as Change,
    Counterfactual as Counterfactual,
    counterfactual as counterfactual,
)
from mercer.explain.curves import Effect as Effect, Effects as Effects, effects as effects
from mercer.explain.importances import Importance as Importance, importance as importance
from mercer.explain.representer import (
    Representers as Representers,
    representers as representers,
)

__all__ = [
    "Change",
    "Counterfactual",
    "Effect",
    "Effects",
    "Importance",
    "Representers",
    "counterfactual",
    "effects",
    "importance",
    "representers",
]
