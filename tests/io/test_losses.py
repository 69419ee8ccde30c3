"""Losses go through a file and back, those of one's own when registered (SPEC L1)."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.errors import InvalidInput, ModelFileError
from mercer.io import register, registry
from mercer.losses import Absolute, EpsilonInsensitive, Huber, Pinball, ZeroOne
from mercer.losses.names import SHORT_NAMES

EXAMPLES = [
    ZeroOne(),
    *(make() for make in SHORT_NAMES.values()),
    Pinball(0.9),
    Huber(2.5),
    EpsilonInsensitive(0.0),
]


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_every_loss_comes_back(again, loss):
    back = again(loss)
    assert type(back) is type(loss) and back == loss


def test_a_loss_of_ones_own_is_refused_until_it_is_registered(again, monkeypatch):
    monkeypatch.setattr(registry, "_own", {})

    class Scaled(Absolute):
        def __init__(self, scale=1.0):
            self.scale = scale

        def _rho(self, error):
            return self.scale * np.abs(error)

    with pytest.raises(InvalidInput, match=r"register\(Scaled\)"):
        again(Scaled(3.0))
    register(Scaled)
    assert again(Scaled(3.0)).scale == 3.0


def test_a_base_class_is_no_loss():
    assert "loss:Loss" not in registry.closed_list()
    with pytest.raises(ModelFileError, match="not on the list"):
        registry.form_named("loss:Loss")
