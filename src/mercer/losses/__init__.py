"""How wrong a prediction is: a value for each point, its slopes and its conjugate."""

from mercer.losses.base import Loss
from mercer.losses.classification import Exponential, Hinge, Logistic, SquaredHinge, ZeroOne
from mercer.losses.names import as_loss
from mercer.losses.regression import Absolute, EpsilonInsensitive, Huber, Pinball, Squared

__all__ = [
    "Absolute",
    "EpsilonInsensitive",
    "Exponential",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Pinball",
    "Squared",
    "SquaredHinge",
    "ZeroOne",
    "as_loss",
]
