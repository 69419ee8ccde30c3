"""How wrong a prediction is: a value for each point, its slopes and its conjugate."""

from mercer.losses.base import Loss
from mercer.losses.classification import Hinge
from mercer.losses.regression import EpsilonInsensitive

__all__ = ["EpsilonInsensitive", "Hinge", "Loss"]
