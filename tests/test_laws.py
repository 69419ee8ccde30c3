"""Every public kernel, operator, solver and estimator, found by reflection, obeys its laws."""

from __future__ import annotations

import inspect
import pickle
import warnings
from functools import lru_cache

import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import kernels, operators, solvers
from mercer.kernels import Kernel
from mercer.operators import Operator
from mercer.testing import (
    CERTIFICATES,
    ORACLES,
    estimator_examples,
    estimator_laws,
    expected_failed_checks,
    kernel_examples,
    kernel_laws,
    operator_examples,
    operator_laws,
    problem_examples,
    solver_examples,
    solver_laws,
)
from mercer.testing.laws import solve
from mercer.testing.oracles.formulas import HOOKS

KERNELS = kernel_examples()
OPERATORS = operator_examples()
SOLVERS = solver_examples()
ESTIMATORS = estimator_examples()


# ------------------------------------------------------------------------------ the laws hold
@pytest.mark.parametrize("example", KERNELS, ids=lambda e: e.name)
@pytest.mark.parametrize("law", [pytest.param(f, id=name) for name, f in kernel_laws()])
def test_kernel(law, example, request):
    if law.__name__ == "law_engines":
        request.getfixturevalue("torch")
    if law.__name__ == "law_psd" and not example.kernel.psd:
        pytest.skip(f"{example.kernel!r} does not claim to be positive semidefinite")
    law(example)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("example", KERNELS, ids=lambda e: e.name)
def test_kernel_psd_and_definition_for_other_points(example, seed):
    laws = dict(kernel_laws())
    laws["psd"](example, rng=seed)
    laws["double_loop"](example, rng=seed)


@pytest.mark.parametrize("law", [pytest.param(f, id=name) for name, f in operator_laws()])
@pytest.mark.parametrize("index", range(len(OPERATORS)), ids=[n for n, _ in OPERATORS])
def test_operator(law, index):
    law(operator_examples()[index][1])


@lru_cache(1)
def _solutions(name):
    """Return what all laws of one solver look at, solved once."""
    solver, kind = next((s, k) for n, s, k in SOLVERS if n == name)
    return [(title, p, solve(solver, p)) for title, p in problem_examples(kind)]


@pytest.mark.parametrize("law", [pytest.param(f, id=name) for name, f in solver_laws()])
@pytest.mark.parametrize(("name", "solver", "kind"), SOLVERS, ids=[s[0] for s in SOLVERS])
def test_solver(law, name, solver, kind):
    for title, problem, solution in _solutions(name):
        try:
            law(solver, problem, solution)
        except AssertionError as error:
            raise AssertionError(f"on {title!r}: {error}") from error


@pytest.mark.parametrize("law", [pytest.param(f, id=name) for name, f in estimator_laws()])
@pytest.mark.parametrize("example", ESTIMATORS, ids=lambda e: e.name)
def test_estimator(law, example):
    law(example)


# ------------------------------------------------------------------------- nobody is missing
def _classes(module, base):
    found = {n: getattr(module, n) for n in module.__all__}
    return {n: c for n, c in found.items() if inspect.isclass(c) and issubclass(c, base)}


def _parts(kernel):
    return {type(kernel)}.union(*map(_parts, kernel._kernels()))


def test_every_public_kernel_class_has_an_example():
    seen = set().union(*(_parts(e.kernel) for e in KERNELS))
    for name, cls in _classes(kernels, Kernel).items():
        if cls is Kernel:
            continue
        author = {
            c for c in seen if issubclass(c, cls) and not c.__module__.startswith("mercer.kern")
        }
        assert cls in seen or (cls in HOOKS and author), f"no example of {name}"


def test_every_public_kernel_class_has_a_formula():
    for name, cls in _classes(kernels, Kernel).items():
        known = cls in ORACLES or any(issubclass(cls, base) for base in HOOKS)
        assert known or cls is Kernel, f"no oracle for {name}"


def test_every_public_operator_class_has_an_example():
    seen = {type(operator) for _, operator in OPERATORS}
    missing = set(_classes(operators, Operator).values()) - seen - {Operator}
    assert not missing


def test_every_public_solver_class_has_an_example():
    problems = (solvers.Linear, solvers.Eigen, solvers.BoxQP, solvers.FeatureERM)
    problems = (*problems, solvers.SparseERM, solvers.SmoothERM, solvers.SoftmaxERM)
    problems = (*problems, solvers.Centred)
    public = {
        c
        for c in _classes(solvers, object).values()
        if hasattr(c, "solve") and "problem" in inspect.signature(c.solve).parameters
    }
    assert public == {type(solver) for _, solver, _ in SOLVERS}
    assert {kind for *_, kind in SOLVERS} == set(problems)


def _public_estimators():
    found = {name: getattr(mercer, name) for name in mercer.__all__}
    return {c for c in found.values() if inspect.isclass(c) and issubclass(c, BaseEstimator)}


def test_every_public_estimator_has_an_example():
    assert _public_estimators() == {type(e.estimator) for e in ESTIMATORS}


def test_every_estimator_that_solves_has_a_certificate_to_recompute():
    learned = {c: getattr(c, "_learned", ()) for c in _public_estimators()}
    assert {c for c in learned if "solution_" in learned[c]} == set(CERTIFICATES)


# ------------------------------------------------------- scikit-learn's own common checks
SMOOTHERS = (mercer.NadarayaWatson, mercer.NadarayaWatsonClassifier)


def _for_scikit_learn():
    for cls in sorted(_public_estimators(), key=lambda c: c.__name__):
        # what table models propose by themselves is chosen by a search, see test_proposal
        yield cls("rbf") if hasattr(cls, "encode") else cls()
        if cls in SMOOTHERS:
            yield cls("scott")
        # Labels at random over few columns: no ν has a margin there, see test_nusvc.
        if issubclass(cls, mercer.models.KernelEstimator) and cls is not mercer.NuSVC:
            yield cls(kernel="precomputed")


@parametrize_with_checks(list(_for_scikit_learn()), expected_failed_checks=expected_failed_checks)
def test_scikit_learn(estimator, check):
    # A perceptron never ends on classes that overlap, as labels at random do; all others must.
    endless = isinstance(estimator, mercer.KernelPerceptron)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if endless else "error", mercer.errors.NotConverged)
        check(estimator)


def test_examples_are_fresh_and_comparable():
    for a, b in zip(KERNELS, kernel_examples(), strict=True):
        assert a.kernel == b.kernel and a.kernel is not b.kernel
    names = [e.name for e in KERNELS]
    assert len(set(names)) == len(names)
    assert all(clone(e.estimator) is not e.estimator for e in ESTIMATORS)
    assert pickle.loads(pickle.dumps(KERNELS[0].kernel)) == KERNELS[0].kernel
