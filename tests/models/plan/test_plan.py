"""The choice of a method: exact first, centres last, and refusals that name what would fit."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import mercer
from mercer import RBF, KernelRidge, Laplacian, Linear, Matern
from mercer.engines.rates import KernelRate, Rates
from mercer.errors import InvalidInput, MemoryBudgetExceeded, speaking_for
from mercer.estimator import choice as module
from mercer.estimator.facts import Sketch, Study, facts_of
from mercer.estimator.plan import Plan
from mercer.models.ridge import base as ridge_family
from mercer.models.risk import smooth as smooth_family
from mercer.solvers.cost import Facts
from mercer.solvers.linear.cg import cg_steps

GB = 10**9
FAST = Rates(gemm=1e11, gemm_single=2e11, potrf=8e10, read=2e10, touch=2e9)


class Known:
    """A sketch whose numbers are given."""

    def __init__(self, entry=1e-9, left=1e-3, eigenvalue=0.0, smallest=0.0):
        self.rate, self.features = KernelRate(entry), 1e-6
        self._left, self._eigenvalue, self._smallest = left, eigenvalue, smallest

    def left(self, m, n):
        return 0.0 if m >= n else self._left

    def eigenvalue(self, rank, n):
        return self._eigenvalue

    def smallest(self, n):
        return self._smallest


def plan_ridge(kernel, X, outputs=1, *, rates=None, sketch=None, **options):
    with speaking_for("KernelRidge"):
        study = Study(kernel, X, outputs, rates=rates, sketch=sketch)
        return ridge_family.plan_ridge(study, **options)


def plan_smooth(kernel, facts, outputs=1, *, rates=None, sketch=None, **options):
    facts = replace(facts, outputs=outputs)
    with speaking_for("KernelLogisticRegression"):
        study = Study(kernel, facts, rates=rates, sketch=sketch)
        return smooth_family.plan_smooth(study, **options)


def ridge(n, budget=100 * GB, kernel=None, sketch=None, **options):
    facts = Facts(n, columns=10, budget=budget)
    facts = replace(facts, **options.pop("facts", {}))
    with mercer.config(memory=budget):
        return plan_ridge(kernel or RBF(), facts, rates=FAST, sketch=sketch or Known(), **options)


# -- the rule of auto ----------------------------------------------------------------------------
def test_small_data_are_factorised():
    plan = ridge(module.SMALL)
    assert plan.method == "cholesky" and plan.error == 0.0
    assert {p.method for p in plan.alternatives} == {"cg", "falkon"}


def test_many_points_take_conjugate_gradients_where_these_are_faster():
    plan = ridge(40_000)
    others = {p.method: p for p in plan.alternatives}
    assert plan.method == "cg"
    assert plan.seconds < others["cholesky"].seconds
    assert "exact" in plan.why and "cholesky" in plan.why


def test_a_hard_spectrum_is_factorised():
    plan = ridge(20_000, sketch=Known(eigenvalue=1e9), alpha=1e-3)
    assert plan.method == "cholesky"


def test_exact_methods_are_preferred_though_centres_are_faster():
    plan = ridge(40_000)
    centred = next(p for p in plan.alternatives if p.method == "falkon")
    assert centred.seconds < plan.seconds < module.LIMIT


def test_centres_where_nothing_exact_is_done_in_time():
    plan = ridge(1_000_000)
    assert plan.method == "falkon" and plan.n_centers == 10_000 and plan.error == 1e-3
    assert "10.0 min" in plan.why
    assert all(p.seconds > module.LIMIT for p in plan.alternatives)


def test_centres_where_nothing_exact_fits():
    plan = ridge(2_000_000, budget=10**8)
    assert plan.method == "falkon" and plan.fits
    assert "No exact method fits 100.0 MB" in plan.why
    assert not any(p.fits for p in plan.alternatives)


def test_an_exact_method_that_is_late_is_kept_where_centres_are_later():
    slow = ridge(1_000_000, n_centers=1_000_000)
    assert slow.method != "falkon"


def test_few_features_are_the_primal_problem():
    plan = ridge(50_000, facts={"features": 20})
    assert plan.method == "primal"
    assert ridge(50_000, facts={"features": 60_000}).method != "primal"
    assert ridge(100, facts={"features": 99}).method == "primal"
    assert ridge(100, facts={"features": 100}).method == "cholesky"


def test_a_search_for_penalties_has_one_method():
    for alpha in ("loo", np.array([1.0, 2.0])):
        plan = ridge(2000, alpha=alpha, outputs=2)
        assert plan.method == "eigen" and plan.alternatives == ()
        with pytest.raises(InvalidInput, match="solver='cholesky'"):
            ridge(2000, alpha=alpha, outputs=2, solver="cg")
    assert ridge(2000, alpha=np.array([2.0, 2.0]), outputs=2).method == "cholesky"


def test_blocks_take_centres():
    plan = ridge(10_000, facts={"stream": True})
    assert plan.method == "falkon" and "blocks" in plan.why
    for solver in ("cholesky", "cg"):
        with pytest.raises(InvalidInput, match="blocks"):
            ridge(10_000, facts={"stream": True}, solver=solver)
    with pytest.raises(InvalidInput, match=r"alpha='loo'.*give one alpha"):
        ridge(10_000, facts={"stream": True}, alpha="loo")


def test_a_gram_matrix_has_no_points_for_centres():
    plan = ridge(3000, facts={"given": True})
    assert "falkon" not in {p.method for p in plan.alternatives}
    with pytest.raises(InvalidInput, match="Gram"):
        ridge(3000, facts={"given": True}, solver="falkon")


@pytest.mark.parametrize("solver", ["cholesky", "cg", "falkon"])
def test_the_user_may_choose(solver):
    plan = ridge(3000, solver=solver, quick=True)
    assert plan.method == solver and solver in plan.why
    assert plan.seconds is None
    assert ridge(3000, solver=solver).seconds > 0


def test_unknown_solvers_are_named():
    with pytest.raises(InvalidInput, match=r"'lu'.*'falkon'"):
        ridge(100, solver="lu")


@pytest.mark.parametrize("asked", [1, 77, 3000, 10**9])
def test_centres_are_no_more_than_points(asked):
    assert ridge(3000, solver="falkon", n_centers=asked).n_centers == min(asked, 3000)


def test_as_many_centres_as_points_leave_nothing():
    assert ridge(3000, solver="falkon", n_centers=3000).error == 0.0


# -- refusals ------------------------------------------------------------------------------------
def test_what_does_not_fit_is_refused_with_what_does():
    plan = ridge(50_000, budget=GB, solver="cholesky", quick=True)
    assert not plan.fits
    with pytest.raises(MemoryBudgetExceeded, match=r"50000 × 50000.*'cg' would take") as caught:
        plan.require()
    assert caught.value.needed == plan.memory > caught.value.allowed == GB
    assert ridge(50_000, budget=GB).require().fits


def test_where_nothing_fits_it_is_said():
    plan = ridge(50_000, budget=10**5)
    assert not plan.fits
    with pytest.raises(MemoryBudgetExceeded, match="fewer rows"):
        plan.require()
    stream = {"stream": True}
    plan = ridge(50_000, 2 * 10**7, solver="falkon", n_centers=40_000, facts=stream)
    with pytest.raises(MemoryBudgetExceeded, match="fewer centres than 40000"):
        plan.require()
    most = plan.most_centers
    assert 1000 < most < 40_000 and f"at most {most} fit" in str(plan)
    lines = str(plan).splitlines()
    assert "<- taken" not in str(plan) and "<- does not fit" in lines[3]
    assert lines[-1].endswith("or mercer.config(memory='13GB').")
    for m, fits in ((most, True), (most + 1, False)):
        assert ridge(50_000, 2 * 10**7, solver="falkon", n_centers=m, facts=stream).fits is fits
    long = {"stream": True, "block": 10**6}
    with pytest.raises(MemoryBudgetExceeded, match="block_rows"):
        ridge(10**7, 2 * 10**7, solver="falkon", n_centers=10, facts=long).require()


def test_the_cure_is_a_word_that_a_solver_has():
    plan = ridge(10_000, budget=2 * 10**7, solver="falkon", n_centers=3000, facts={"features": 4})
    with pytest.raises(MemoryBudgetExceeded, match="'cholesky' would take"):
        plan.require()


def test_as_many_centres_as_points_are_not_told_to_leave_something():
    plan = ridge(500, n_centers=500)
    assert "not the exact one" not in str(plan) and "exact" in str(plan)


@pytest.mark.parametrize("n", [50, 500, 2000])
def test_what_has_room_for_the_matrix_has_room_for_the_plan(n):
    """Tiles are made smaller, so the budget of one matrix and its targets is enough."""
    budget = 8 * n * n + 32 * n
    plan = ridge(n, budget=budget)
    assert plan.method == "cholesky" and plan.memory <= budget
    assert ridge(n, budget=budget - 1, solver="cholesky").fits is False


def test_more_budget_never_means_a_worse_method():
    orders = [ridge(30_000, budget=b).error for b in (10**7, 10**8, 10**9, 10**10, 10**11)]
    assert orders == sorted(orders, reverse=True)


# -- small data are not measured -----------------------------------------------------------------
def test_nothing_is_measured_for_small_data(monkeypatch):
    def refuse(*arguments):
        raise RuntimeError("measured")

    monkeypatch.setattr("mercer.estimator.facts.machine_rates", refuse)
    monkeypatch.setattr("mercer.estimator.facts.Sketch", refuse)
    X = np.zeros((module.SMALL, 2))
    assert plan_ridge(RBF(), X, quick=True).method == "cholesky"
    for solver in ("cholesky", "cg", "falkon"):
        plan = plan_ridge(RBF(), np.zeros((module.SMALL + 1, 2)), solver=solver, quick=True)
        assert plan.method == solver
    with pytest.raises(RuntimeError, match="measured"):
        plan_ridge(RBF(), np.zeros((module.SMALL + 1, 2)), quick=True)


@pytest.mark.parametrize("solver", ["auto", "cholesky"])
@pytest.mark.parametrize("kernel", [RBF(), Linear()])
def test_few_rows_are_planned_before_anything_is_priced(monkeypatch, solver, kernel):
    X = np.ones((300, 4))
    with mercer.config(threads=1):
        whole = plan_ridge(kernel, X, solver=solver, rates=FAST, sketch=Known())
        with monkeypatch.context() as patch:
            patch.setattr(module, "_decide", lambda *parts: pytest.fail("was priced"))
            plan = plan_ridge(kernel, X, solver=solver, quick=True)
            assert plan.fits and (plan.method, plan.why) == (whole.method, whole.why)
    # asked for later, in other settings, it is the plan of the fit, and a pickle holds all of it
    with mercer.config(threads=2):
        again = pickle.loads(pickle.dumps(plan))
    assert again == plan and repr(again) == repr(plan) and plan.memory == whole.memory
    told, priced = ([(p.method, p.memory) for p in some.alternatives] for some in (plan, whole))
    assert told == priced


def test_small_data_in_a_small_budget():
    plan = ridge(1000, budget=2 * 10**6, quick=True)
    assert plan.method in ("cg", "falkon") and plan.fits


# -- smooth risks --------------------------------------------------------------------------------
def test_smooth_risks():
    def smooth(n, budget=100 * GB, **options):
        with mercer.config(memory=budget):
            facts = Facts(n, columns=10, budget=budget)
            return plan_smooth(RBF(), facts, rates=FAST, sketch=Known(), **options)

    assert smooth(smooth_family.SMALL).method == "cholesky"
    assert smooth(3000).method == "cg"  # of a kernel that has next to no rank
    assert smooth(3000, solver="newton").method == "cholesky"
    assert smooth(1_000_000).method == "falkon"
    assert smooth(30_000, budget=GB).method == "cg"
    assert smooth(30_000, budget=GB, outputs=3).method == "falkon"
    assert smooth(3000, solver="cg").method == "cg"
    with pytest.raises(InvalidInput):
        smooth(3000, solver="sgd")


# -- costs ---------------------------------------------------------------------------------------
def test_time_grows_with_everything():
    base = ridge(20_000, solver="cholesky").seconds
    assert ridge(40_000, solver="cholesky").seconds > 4 * base
    assert ridge(20_000, solver="cholesky", sketch=Known(entry=1e-6)).seconds > 5 * base
    few, many = (ridge(10**6, solver="falkon", n_centers=m).seconds for m in (100, 1000))
    assert 5 * few < many
    assert (
        ridge(20_000, solver="cg", alpha=1e-6, sketch=Known(eigenvalue=1.0)).seconds
        > ridge(20_000, solver="cg", alpha=1.0, sketch=Known(eigenvalue=1.0)).seconds
    )


@pytest.mark.parametrize("alpha", [1e-2, 1e-4])
@pytest.mark.parametrize("kernel", [Matern(1.0, nu=0.5), Laplacian(), RBF(2.0)], ids=str)
def test_steps_expected_are_near_those_made(kernel, alpha):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 6))
    model = KernelRidge(kernel, alpha=alpha, solver="cg", random_state=0).fit(X, X[:, 0])
    sketch = Sketch(kernel, X)
    sketch.__dict__["rate"] = KernelRate(1e-9)
    steps = cg_steps(facts_of(kernel, X), sketch, alpha, 1e-6)
    assert model.n_iter_ / 4 < steps < 4 * model.n_iter_


def test_centres_that_leave_much_are_told():
    assert "centres leave 0.6 of" in ridge(10**6, sketch=Known(left=0.6)).why
    assert "leave" not in ridge(10**6, sketch=Known(left=0.01)).why


def test_a_penalty_of_zero_is_no_reason_to_fail():
    plan = ridge(20_000, alpha=0.0, sketch=Known(eigenvalue=1e-9))
    assert plan.method == "cholesky"
    assert np.isfinite(ridge(20_000, alpha=0.0, solver="cg", sketch=Known(eigenvalue=0.0)).seconds)


# -- the value -----------------------------------------------------------------------------------
def test_printed_it_is_a_short_table():
    text = str(ridge(1_000_000))
    lines = text.splitlines()
    assert lines[0].startswith("KernelRidge: falkon. The fastest exact method")
    assert "budget 100.0 GB" in lines[1]
    assert [line.split()[0] for line in lines[3:6]] == ["falkon", "cg", "cholesky"]
    assert "<- taken" in lines[3] and "10000" in lines[3] and "0.001" in lines[3]
    assert "(too much)" in lines[5] and "memory='8" in lines[-1]
    assert len(lines) <= 10 and max(map(len, lines)) <= 120


def test_its_repr_is_one_line():
    assert repr(ridge(module.SMALL)).startswith("Plan('cholesky', memory='")
    text = repr(ridge(1_000_000, budget=10**6))
    assert "\n" not in text and "fits=False" in text
    assert "n_centers=10000, error='0.001'" in repr(ridge(1_000_000))


def test_it_shows_itself_in_a_notebook():
    class Printer:
        text_ = ""

        def text(self, text):
            self.text_ += text

    printer, plan = Printer(), ridge(3000)
    plan._repr_pretty_(printer, False)
    assert printer.text_ == str(plan)


def test_it_is_a_value():
    plan = ridge(3000)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan.require() is plan
    with pytest.raises(AttributeError):
        plan.method = "cg"
    assert Plan("x", "", 5, budget=4).fits is False


def test_linear_kernels_are_planned_from_data():
    plan = plan_ridge(Linear(), np.ones((300, 4)), quick=True)
    assert plan.method == "primal"
