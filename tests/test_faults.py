"""A test of the tests: a deliberate fault in each folder is caught by a law or a test of it."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import check_cv

import mercer
from mercer import domains, engines, estimator, io, jit, losses, operators, solvers, testing
from mercer.kernels import RBF, Laplacian
from tests.cli import test_notation
from tests.explain import test_representer
from tests.losses import test_losses
from tests.models.ridge import test_left_out
from tests.rkhs import test_function
from tests.selection import test_search
from tests.statistics import test_permutation


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is done to a folder, and who must notice."""

    folder: str
    inject: Callable[[pytest.MonkeyPatch], None]
    judge: Callable[[], Any]


FAULTS: list[Fault] = []


def caught_by(folder: str, judge: Callable[..., Any], *arguments: Any) -> Callable:
    """Enter a fault into the list, with the law or test that must fail with it."""

    def enter(inject: Callable[[pytest.MonkeyPatch], None]) -> Callable:
        FAULTS.append(Fault(folder, inject, lambda: judge(*arguments)))
        return inject

    return enter


def kernel_law(name: str, kernel: Any) -> None:
    dict(testing.kernel_laws())[name](kernel)


def estimator_law(name: str, model: Any) -> None:
    dict(testing.estimator_laws())[name](model)


def solver_law(name: str, solver: Any, kind: type) -> None:
    for _, problem in testing.problem_examples(kind):
        dict(testing.solver_laws())[name](solver, problem)


def operator_law(name: str, operator: Any) -> None:
    dict(testing.operator_laws())[name](operator)


def put(patch: pytest.MonkeyPatch, old: Any, new: Any, among: str = "mercer.") -> None:
    """Put a function in the place of another, wherever a module has it by some name."""
    modules = [m for n, m in list(sys.modules.items()) if n.startswith((among, "tests."))]
    held = [(m, name) for m in modules for name, value in list(vars(m).items()) if value is old]
    assert held
    for module, name in held:
        patch.setattr(module, name, new)


# ---- the faults, from the cellar to the roof ----


@caught_by("domains", kernel_law, "permutation", RBF())
def rows_are_taken_in_the_order_of_the_data(patch):
    take = domains.Vectors.take
    patch.setattr(domains.Vectors, "take", lambda self, X, index: take(self, X, np.sort(index)))


@caught_by("engines", kernel_law, "theta_vjp", RBF())
def a_derivative_counts_a_symmetric_matrix_by_half(patch):
    true = engines.pull_theta
    put(patch, true, lambda *given, **named: 0.5 * true(*given, **named))


@caught_by("jit", kernel_law, "double_loop", Laplacian())
def a_loop_forgets_the_last_column(patch):
    true = jit.manhattan
    put(patch, true, lambda x, y, u, out: true(x[:, :-1].copy(), y[:-1].copy(), u[:-1], out))


@caught_by("kernels", kernel_law, "gradient", RBF())
def a_slope_has_the_wrong_sign(patch):
    true = RBF._slope
    patch.setattr(RBF, "_slope", lambda self, s, xp: -true(self, s, xp))


@caught_by("operators", operator_law, "matmul", operators.Centered(operators.Dense(np.eye(4))))
def a_centred_product_is_centred_on_one_side(patch):
    patch.setattr(operators.Centered, "_matmul", lambda self, V: V - V.mean(axis=0) + 0.01)


@caught_by(
    "losses",
    test_losses.test_a_gradient_supports_the_loss_from_below_and_is_its_difference,
    *(losses.Huber(), test_losses.TARGETS),
)
def a_gradient_is_that_of_another_bend(patch):
    true = losses.Huber.gradient
    patch.setattr(losses.Huber, "gradient", lambda self, y, f: 0.99 * true(self, y, f))


@caught_by("solvers", solver_law, "answer", solvers.SMO(tol=1e-3), solvers.BoxQP)
def a_certificate_reports_half_the_gap(patch):
    true = solvers.SMO.solve

    def solve(self, problem):
        said = true(self, problem)
        return dataclasses.replace(said, gap=said.gap / 2, primal=said.dual + said.gap / 2)

    patch.setattr(solvers.SMO, "solve", solve)


@caught_by("rkhs", test_function.test_inner_product_and_norm_are_double_sums)
def a_norm_is_not_rooted(patch):
    true = mercer.Function.norm
    patch.setattr(mercer.Function, "norm", lambda self: true(self) ** 2)


@caught_by(
    "explain",
    test_representer.test_values_are_the_terms_of_f,
    np.random.default_rng(0).normal(size=(20, 3)),
    np.random.default_rng(1).normal(size=20),
    np.random.default_rng(2),
)
def rows_are_told_without_their_sign(patch):
    true = mercer.representers

    def tell(model, X, count=5):
        told = true(model, X, count)
        return dataclasses.replace(told, values=np.abs(told.values))

    put(patch, true, tell)


@caught_by("estimator", estimator_law, "weights", mercer.KernelRidge(RBF(), 0.1))
def weights_are_checked_and_ignored(patch):
    put(patch, estimator.check_weights, lambda weights, n: None)


@caught_by(
    "features",
    *(estimator_law, "repeatable", mercer.RandomFourierFeatures(RBF(), 8, random_state=0)),
)
def a_seed_is_ignored(patch):
    true = mercer.RandomFourierFeatures.fit

    def fit(self, X, y=None):
        seed, self.random_state = self.random_state, None
        try:
            return true(self, X, y)
        finally:
            self.random_state = seed

    patch.setattr(mercer.RandomFourierFeatures, "fit", fit)


@caught_by("models", test_left_out.test_groups_left_out_equal_refits, "rbf", "none", 0.3, False)
def a_row_left_out_takes_part(patch):
    true = mercer.KernelRidge.loo

    def loo(self, X=None, *, groups=None):
        return true(self, X, groups=None if groups is None else np.arange(len(groups)))

    patch.setattr(mercer.KernelRidge, "loo", loo)


@caught_by("statistics", test_permutation.test_pvalue_counts_the_data_among_the_arrangements, None)
def a_pvalue_leaves_the_data_out(patch):
    true = test_permutation.resample

    def resample(*given, **named):
        null = true(*given, **named)
        return dataclasses.replace(null, pvalue=null.exceedances / null.n_drawn)

    put(patch, true, resample)


@caught_by("selection", test_search.test_ridge, RBF(1.0), False)
def a_fold_leaks(patch):
    true = check_cv

    class Leaking:
        def __init__(self, *given, **named):
            self.folds = true(*given, **named)

        def split(self, X, y=None, groups=None):
            for train, test in self.folds.split(X, y, groups):
                yield np.append(train, test[:1]), test

    put(patch, true, Leaking, among="mercer.selection")


@caught_by("io", estimator_law, "file", mercer.KernelRidge(RBF(), 0.1))
def a_file_keeps_half_of_the_digits(patch):
    true = io.save

    def save(model, *given, **named):
        short = copy.copy(model)
        short.dual_coef_ = short.dual_coef_.astype(np.float32).astype(float)
        return true(short, *given, **named)

    put(patch, true, save)


@caught_by("cli", test_notation.test_hints, "3,5", ".", "decimal comma?")
def a_message_has_no_cure(patch):
    put(patch, test_notation.hint, lambda cell, decimal=".": "")


# ---- they are caught ----


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.folder}-{f.inject.__name__}")
def test_a_fault_is_caught(fault, monkeypatch):
    fault.judge()
    with monkeypatch.context() as patch:
        fault.inject(patch)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            fault.judge()
    fault.judge()


def test_there_is_a_fault_in_each_folder():
    folders = {door.parent.name for door in Path(mercer.__file__).parent.glob("*/__init__.py")}
    assert {fault.folder for fault in FAULTS} == folders - {"datasets", "plot", "testing"}
