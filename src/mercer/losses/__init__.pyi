from mercer.losses.base import Loss as Loss
from mercer.losses.classification import (
    Exponential as Exponential,
    Hinge as Hinge,
    Logistic as Logistic,
    SquaredHinge as SquaredHinge,
    ZeroOne as ZeroOne,
)
from mercer.losses.names import as_loss as as_loss
from mercer.losses.regression import (
    Absolute as Absolute,
    EpsilonInsensitive as EpsilonInsensitive,
    Huber as Huber,
    Pinball as Pinball,
    Squared as Squared,
)

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
