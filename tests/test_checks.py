"""What parameters may be: constraints as values, and the table of every public estimator."""

from __future__ import annotations

import inspect
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import mercer
from mercer import checks
from mercer.errors import InvalidInput

#: Parameters that no table tells, and why.
CODE = {
    "kernel": "a kernel, a name or a function: as_kernel reads it",
    "output_kernel": "as kernel",
    "loss": "a loss or its name: as_loss reads it",
    "class_weight": "names classes, which y tells",
    "alpha": "of ridge: one for each output, which y tells",
    "n_neighbors": "at most as many as there are points",
    "landmarks": "words of choose_landmarks, or points",
    "init": "labels or points, as many as rows or clusters",
    "bandwidth": "as many numbers as columns",
    "priors": "of classes, or of parameters of the kernel",
    "noise": "as many numbers as rows or outputs",
    "mean": "functions of the rows",
    "fixed": "names parameters of the kernel",
    "bounds": "names parameters of the kernel",
    "categorical": "names columns",
    "kernels": "names columns, and a kernel for each",
    "kinds": "names columns, and what each holds",
    "metric": "a word or the order of a norm, as norm_of reads it",
    "estimator": "a model of scikit-learn",
}
#: Parameters that a model hands on to the one inside, which has a table.
INSIDE = {"alpha", "max_categories", "C", "probability"}
#: Nothing is fitted: what is known of the densities is asked when they are.
UNFITTED = {"BayesRule"}

POOL = [
    *(None, True, False, np.True_, 0, 1, -1, -2, 2, 10**6, 0.0, 0.5, 1.0, 1.5, -0.5, 1j, b"a", ""),
    *(float("nan"), float("inf"), -float("inf"), np.float32(-1), np.int8(-3), Fraction(-1, 2)),
    *("no such word", "auto", "1", [], [1.0], [[1.0], [2.0, 3.0]], {}, (1, 2), object(), len),
    *(np.array(2.0), np.array([1, 2]), np.array(["a"])),
]


def _estimators():
    modules = (mercer, mercer.models, mercer.features, mercer.selection)
    found = {name: getattr(module, name) for module in modules for name in module.__all__}
    return [
        pytest.param(c, id=name)
        for name, c in sorted(found.items())
        if inspect.isclass(c) and issubclass(c, BaseEstimator) and name not in UNFITTED
        if c is not mercer.models.KernelEstimator
    ]


def _refused(part, value):
    """Whether a constraint does not allow a value."""
    if value is None and part.none:
        return False
    try:
        return not part.fits(value)
    except InvalidInput:
        return True


def _bounds(part):
    """Return numbers just outside the bounds of a constraint."""
    if not isinstance(part, checks.Number):
        return []
    step = 1 if part.words.startswith("a whole") else 1e-9
    ends = [(part.least, -step), (part.most, step), (part.above, 0), (part.below, 0)]
    return [type(step)(end + by) for end, by in ends if end is not None and np.isfinite(end)]


def _refusal(model):
    """Return the words in which a fit is refused; the net of messages need not hold all of them."""
    X = np.linspace(0.0, 1.0, 24).reshape(12, 2) ** 2
    try:
        model.fit(X, np.arange(12) % 2)
    except InvalidInput as error:
        return str(error)
    return "it was fitted"


@pytest.mark.parametrize("cls", _estimators())
def test_every_parameter_has_a_constraint_or_a_reason(cls):
    table = getattr(cls, "_parameters", {})
    names = set(inspect.signature(cls).parameters)
    known = set(CODE) | (INSIDE if cls.__name__.startswith("Table") else set())
    assert set(table) <= names
    assert names - set(table) <= known, names - set(table) - known


@pytest.mark.parametrize("cls", _estimators())
def test_every_default_is_legal(cls):
    for name, part in getattr(cls, "_parameters", {}).items():
        assert not _refused(part, inspect.signature(cls).parameters[name].default), name


@pytest.mark.parametrize("cls", _estimators())
def test_what_is_outside_is_refused_by_fit(cls):
    for name, part in getattr(cls, "_parameters", {}).items():
        bad = [value for value in POOL + _bounds(part) if _refused(part, value)]
        assert bad, f"{name}: anything is legal"
        for value in bad:
            model = cls()
            setattr(model, name, value)
            assert _refusal(model).startswith(f"{cls.__name__}: {name}"), value
            assert set(vars(model)) == set(vars(cls())), value


WORDS = {
    "a number > 0": checks.Number(above=0),
    "a number ≥ 0": checks.Number(0),
    "a number > 0 and < 1": checks.Number(above=0, below=1),
    "a number ≥ -1 and ≤ 2.5": checks.Number(-1, 2.5),
    "a whole number ≥ 1": checks.Whole(1),
    "a whole number ≥ 0 and ≤ 1": checks.Whole(0, 1),
    "'a'": checks.Word("a"),
    "'a' or 'b'": checks.Word("a", "b"),
    "'a', 'b' or 'c'": checks.Word("a", "b", "c"),
    "True or False": checks.Flag(),
    "a whole number ≥ 1, or 'auto'": checks.Whole(1) | checks.Word("auto"),
}


@pytest.mark.parametrize("words", WORDS)
def test_words(words):
    assert WORDS[words].words == words
    assert WORDS[words].says == f"give {words}"


def test_words_stand_for_braces():
    assert checks.Word("a", "b", says="one of {}.").says == "one of 'a', 'b'."


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        (checks.Number(above=0), [1e-300, 1, np.float32(2), Fraction(1, 3)], [0, -1.0]),
        (checks.Number(0), [0, -0.0, np.int8(3)], [-1e-300, np.inf, np.nan]),
        (checks.Number(above=0, most=np.inf), [np.inf, 1], [0, np.nan, -np.inf]),
        (checks.Number(above=0, most=1), [1, 0.5, 1.0], [0, 1 + 1e-15]),
        (checks.Number(), [-5, 5.0], [np.inf, -np.inf, "1", None, True, np.True_, 1j, [1.0]]),
        (checks.Whole(1), [1, np.uint8(1), 10**30], [0, 1.0, True, np.float64(2), "1", None]),
        (checks.Whole(0, 1), [0, 1], [2, -1, False]),
        (checks.Word("a", "b"), ["a", np.str_("b")], ["", "A", b"a", ["a"], np.array(["a"]), None]),
        (checks.Word("a", points=True), ["a", [1.0], None, np.ones(2)], ["b", ""]),
        (checks.Flag(), [True, False, np.True_, 0, 1, np.int8(1)], [2, 1.0, "no", None]),
        (checks.Flag(numbers=False), [True, np.False_], [0, 1, None]),
        (checks.Legal(callable, "a function"), [len], [1]),
        (checks.Each(checks.Number(above=0), "s"), [1, [1, 2.0], np.ones((2, 2))], [[], [0, 1]]),
        (checks.Each(checks.Number(above=0), "s"), [(1e-3,)], ["1", [[1], [1, 2]], {1.0}, [True]]),
        (checks.Whole(1) | checks.Word("auto"), [1, "auto"], [0, "automatic", None]),
        (checks.LIMITS["max_iter"], [1, -1, np.int64(-1)], [0, -2, 1.0, "1"]),
    ],
)
def test_what_fits(part, good, bad):
    assert [value for value in good if not part.fits(value)] == []
    assert [value for value in bad if part.fits(value)] == []


def test_maybe_leaves_the_constraint_as_it_was():
    whole = checks.Whole(1)
    assert checks.Maybe(whole).none and not whole.none
    assert checks.Maybe(whole).says == whole.says


class Asked(BaseEstimator):
    """Parameters with a table, and without anything to fit."""

    _parameters = {
        "n": checks.Maybe(checks.Whole(1)),
        "seed": checks.Read(checks.random_source),
        "word": checks.Word("a", says="legal: {}"),
    }

    def __init__(self, n=3, seed=None, word="a"):
        self.n = n
        self.seed = seed
        self.word = word


def test_check_names_the_class_the_parameter_the_value_and_a_cure():
    checks.check_parameters(Asked(None, 7))
    with pytest.raises(InvalidInput, match=r"^Asked: n=0; give a whole number ≥ 1\.$"):
        checks.check_parameters(Asked(0))
    with pytest.raises(InvalidInput, match=r"^Asked: word='b'; legal: 'a'\.$"):
        checks.check_parameters(Asked(word="b"))
    with pytest.raises(InvalidInput, match=r"random_state='x'; give None, a whole number"):
        checks.check_parameters(Asked(seed="x"))


def test_check_looks_at_some_parameters_only_where_they_are_named():
    checks.check_parameters(Asked(0, word="b"), "seed")
    with pytest.raises(InvalidInput, match="word"):
        checks.check_parameters(Asked(0, word="b"), "seed", "word")


def test_the_first_parameter_of_the_table_is_refused_first():
    with pytest.raises(InvalidInput, match="n=0"):
        checks.check_parameters(Asked(0, "x", "b"))
