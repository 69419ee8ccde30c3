"""Words for losses (SPEC L1)."""

from __future__ import annotations

import pytest

from mercer import losses
from mercer.errors import InvalidInput
from mercer.losses import Hinge, Huber, Loss, ZeroOne, as_loss
from mercer.losses.names import SHORT_NAMES


def test_every_loss_that_can_be_minimised_has_a_word():
    classes = {getattr(losses, name) for name in losses.__all__ if name[0].isupper()}
    assert set(SHORT_NAMES.values()) == classes - {Loss, ZeroOne}
    for word, cls in SHORT_NAMES.items():
        assert type(as_loss(word)) is cls
        assert word.replace("_", "") == cls.__name__.lower()


def test_a_loss_is_itself():
    loss = Huber(3.0)
    assert as_loss(loss) is loss


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("hubber", "loss='hubber' is no word.*'huber'"),
        ("", "is no word"),
        ("Hinge", "'hinge'"),
        (Hinge, r"the class Hinge.*Hinge\(\)"),
        (None, "NoneType; give a Loss"),
        (3, "int; give a Loss"),
        (lambda y, f: 0.0, "function; give a Loss"),
    ],
)
def test_what_is_no_loss_is_refused(given, says):
    with pytest.raises(InvalidInput, match=f"KernelERM: .*{says}"):
        as_loss(given, "KernelERM")
