"""Tables of what a model learns: letters that stand for sizes, values, and words of refusals."""

import numpy as np
import pytest

from mercer import RBF, state
from mercer.errors import ModelFileError


class Model:
    _rules = ((state.PARTS_MISFIT, lambda model: model.a is not model.b),)

    def __init__(self, table, **held):
        self._state = table
        self._learned = tuple(table)
        vars(self).update(held)


def refusal(table, fitted=True, **held):
    """What is said of a state; nothing where it is fine."""
    try:
        state.check_state(Model(table, **{"a": 1, "b": 2, **held}), fitted=fitted)
    except ModelFileError as error:
        return str(error)
    return ""


def legal(parts, *values):
    names = [f"x{i}_" for i in range(len(parts))]
    table = dict(zip(names, parts, strict=True))
    return not refusal(table, **dict(zip(names, values, strict=True)))


def test_a_letter_is_one_number():
    parts = (state.Array("m", "k"), state.Array("k"))
    assert legal(parts, np.ones((4, 3)), np.ones(3))
    assert not legal(parts, np.ones((4, 3)), np.ones(4))
    assert legal((state.Array("m", ...),), np.ones((4, 3, 2)))
    assert legal((state.Array(2, lambda model: model.b + 1),), np.ones((2, 3)))
    assert not legal((state.Array("n"),), np.ones(0)) and legal((state.Array("m"),), np.ones(0))
    assert not legal((state.Array("m"),), [1.0]) and legal((state.Array(),), 1.0)


@pytest.mark.parametrize("outputs", [(), (1,), (3,)])
def test_an_axis_that_may_be_left_out(outputs):
    parts = (state.Array("n", "t?"), state.Array("t?"), state.Array("t"))
    t = np.ones(outputs or 1)
    assert legal(parts, np.ones((5, *outputs)), np.ones(outputs), t)
    for wrong in ({(), (1,), (2,), (3,), (3, 3)}) - {outputs}:
        assert not legal(parts, np.ones((5, *outputs)), np.ones(wrong), t)
    assert not legal(parts, np.ones((5, *outputs)), np.ones(outputs), np.ones(4))


def test_values():
    bad, good = np.array([0.0, np.nan]), np.array([0.0, 1.0])
    assert legal((state.Array("m"),), bad) and not legal((state.Floats("m"),), bad)
    assert legal((state.Doubles("m"),), good)
    assert not legal((state.Doubles("m"),), good.astype("f4"))
    assert legal((state.Array("m", least=0),), good)
    assert not legal((state.Array("m", above=0),), good)
    codes = (state.Labels("c"), state.Whole("n", least=0, below="c"))
    assert legal(codes, ["a", "b"], np.array([0, 1])) and not legal(codes, ["a"], np.array([0, 1]))
    assert not legal(codes, ["a", "a"], np.array([0, 1]))
    assert legal((state.Triangle("m"),), np.eye(2)) and not legal(
        (state.Triangle("m"),), -np.eye(2)
    )
    assert legal((state.Weights("m"),), good) and not legal((state.Weights("m"),), 0 * good)
    assert legal((state.Tuple("m", str.isupper),), ("A", "B"))
    assert not legal((state.Tuple("m", str.isupper),), ("A", 2))
    assert legal((state.Words("a", "b"),), "b") and not legal((state.Words("a", "b"),), 1)
    assert legal((state.Such(float), state.Such(bool)), 1.0, True)
    assert not legal((state.Such(lambda value: value > 1),), "text")


def test_classes_and_the_axis_of_many():
    parts = (state.Array("n", "t?"), state.Labels("t?"), state.Array("c"))
    assert legal(parts, np.ones(5), [0, 1], np.ones(2))
    assert legal(parts, np.ones((5, 3)), [0, 1, 2], np.ones(3))
    assert not legal(parts, np.ones((5, 2)), [0, 1], np.ones(2))
    assert not legal(parts, np.ones((5, 1)), [0], np.ones(1))


def test_points():
    table = {"kernel_": state.Anything(), "X_": state.Points("m"), "v_": state.Array("m")}
    X, v = np.ones((3, 2)), np.ones(3)
    assert not refusal(table, kernel_=RBF(), X_=X, v_=v, n_features_in_=2)
    assert refusal(table, kernel_=RBF(), X_=X, v_=v, n_features_in_=3)
    assert refusal(table, kernel_=RBF(), X_=X, v_=v[:2])
    assert refusal(table, kernel_=RBF(), X_=None, v_=v)
    table["X_"] = state.Points("m", "centres")
    assert "the centres of a Model are not points" in refusal(table, kernel_=RBF(), X_="x", v_=v)


def test_what_may_be_missing_or_none():
    table = {"u_": state.Maybe(state.Floats("m")), "v_": state.Spare(state.Floats("m"))}
    assert not refusal(table, u_=None) and not refusal(table, u_=None, v_=None)
    assert refusal(table) == "a Model without u_"
    assert refusal(table, u_=np.ones(2), v_=np.ones(3)) == state.MISFIT.format("Model")
    table = state.worded(table, "odd {}", lacks="no u in a {}")
    assert refusal(table) == "no u in a Model" and refusal(table, u_="x") == "odd Model"
    table = {"u_": state.Anything(needed=lambda model: model.b == 2)}
    assert refusal(table) == "a Model without u_" and not refusal(table, b=3)
    assert refusal({"e_": state.Floats(least=0, says="{} has {}")}, e_=-1) == "Model has -1"
    assert refusal({}, a=7, b=7) == state.PARTS_MISFIT.format("Model")


def test_nothing_learned_is_fine():
    table = state.others("u_", "v_", needed=True)
    assert not refusal(table, fitted=False)
    assert refusal(table, fitted=False, u_=1) == "a Model without v_"


def public_estimators():
    import mercer
    from mercer.estimator import TakesKernel

    named = (getattr(mercer, name) for name in mercer.__all__)
    return [c for c in named if isinstance(c, type) and issubclass(c, TakesKernel)]


@pytest.mark.parametrize("estimator", public_estimators(), ids=lambda c: c.__name__)
def test_every_estimator_of_ours_tells_its_state(estimator):
    told = next(c for c in estimator.__mro__ if {"_state", "_learned"} & set(vars(c)))
    assert "_state" in vars(told), f"{told.__name__} has _learned alone; tell _state, a table."
