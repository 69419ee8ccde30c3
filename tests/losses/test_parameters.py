"""Parameters of losses inside of estimators: nested names, copies, grids."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from mercer import RBF, KernelERM
from mercer.errors import InvalidInput
from mercer.losses import Absolute, Huber, Loss, Pinball

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 2))
y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(40)


@pytest.mark.parametrize("loss", [Huber(2.0), "huber"])
def test_nested_names_reach_the_loss(loss):
    model = KernelERM(RBF(1.0), loss)
    assert model.set_params(loss__delta=3.0) is model
    assert model.loss == Huber(3.0)
    both = KernelERM(RBF(1.0), "squared").set_params(loss="pinball", loss__quantile=0.9)
    assert both.loss == Pinball(0.9)
    assert KernelERM(RBF(1.0), Huber(2.0)).get_params()["loss__delta"] == 2.0
    np.testing.assert_array_equal(
        model.fit(X, y).predict(X), KernelERM(RBF(1.0), Huber(3.0)).fit(X, y).predict(X)
    )


def test_the_loss_of_the_caller_stays_as_it_is():
    loss = Huber(2.0)
    one, two = KernelERM(RBF(1.0), loss), KernelERM(RBF(1.0), loss)
    one.set_params(loss__delta=5.0)
    assert loss == two.loss == Huber(2.0) and one.loss == Huber(5.0)


def test_bad_names_and_values_are_refused():
    with pytest.raises(InvalidInput, match="Huber: delta=-1"):
        KernelERM(RBF(1.0), "huber").set_params(loss__delta=-1)
    with pytest.raises(InvalidInput, match="Huber: no parameter 'quantile'"):
        KernelERM(RBF(1.0), "huber").set_params(loss__quantile=0.5)
    with pytest.raises(InvalidInput, match="KernelERM: loss='hubber' is no word"):
        KernelERM(RBF(1.0), "hubber").set_params(loss__delta=1.0)


@pytest.mark.parametrize("loss", [Pinball(0.3), "pinball"])
def test_grids_go_over_the_parameters_of_a_loss(loss):
    model = KernelERM(RBF(1.0), loss)
    search = GridSearchCV(model, {"loss__quantile": [0.1, 0.5, 0.9]}, cv=3).fit(X, y)
    assert search.best_params_ == {"loss__quantile": 0.5}
    assert search.best_estimator_.loss_ == Pinball(0.5)
    assert model.loss == loss


def test_clones_have_equal_losses_also_of_ones_own():
    class Own(Absolute):
        def __init__(self, length):
            self.own = length  # not under the name of the argument

    for loss in (Huber(2), Absolute(), Own(3)):
        again = clone(KernelERM(RBF(1.0), loss)).loss
        assert again == loss and again is not loss and isinstance(again, Loss)
    assert clone(KernelERM(RBF(1.0), "huber")).loss == "huber"
