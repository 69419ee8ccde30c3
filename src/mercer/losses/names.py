"""Short names of losses, and how an estimator turns its ``loss`` argument into a Loss."""

from __future__ import annotations

from typing import Any

from mercer.errors import InvalidInput
from mercer.losses.base import Loss
from mercer.losses.classification import Exponential, Hinge, Logistic, SquaredHinge
from mercer.losses.regression import Absolute, EpsilonInsensitive, Huber, Pinball, Squared

SHORT_NAMES: dict[str, type[Loss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
    "exponential": Exponential,
    "squared": Squared,
    "absolute": Absolute,
    "pinball": Pinball,
    "epsilon_insensitive": EpsilonInsensitive,
    "huber": Huber,
}


def as_loss(loss: Any, owner: str = "as_loss") -> Loss:
    """Return the loss that a word stands for, or the loss itself.

    The words are "hinge", "squared_hinge", "logistic", "exponential", "squared", "absolute",
    "pinball", "epsilon_insensitive" and "huber", each with its default parameters.

    Parameters
    ----------
    loss : Loss or str
        A loss or a word for one.
    owner : str, default="as_loss"
        Who asks; messages begin with it.

    Examples
    --------
    >>> from mercer.losses import Huber, as_loss
    >>> as_loss("pinball")
    Pinball(quantile=0.5)
    >>> as_loss(Huber(2.0))
    Huber(delta=2.0)
    """
    if isinstance(loss, Loss):
        return loss
    words = ", ".join(map(repr, SHORT_NAMES))
    if isinstance(loss, str):
        if loss in SHORT_NAMES:
            return SHORT_NAMES[loss]()
        raise InvalidInput(
            f"{owner}: loss={loss!r} is no word for a loss; give one of {words}, or a Loss such as "
            "mercer.losses.Huber(1.0)."
        )
    if isinstance(loss, type) and issubclass(loss, Loss):
        raise InvalidInput(
            f"{owner}: loss is the class {loss.__name__}; give an instance of it: "
            f"{loss.__name__}()."
        )
    raise InvalidInput(
        f"{owner}: loss is a {type(loss).__name__}; give a Loss, such as "
        f"mercer.losses.Huber(1.0), or one of {words}."
    )
