"""Newton over passes: gradients by hand, other solvers, classes, lengths of steps, files."""

import gc
import weakref

import numpy as np
import pytest

import mercer
from mercer import RBF
from mercer.engines.passes.base import row_pass
from mercer.errors import InvalidInput, NotConverged
from mercer.losses import Exponential, Hinge, Huber, Logistic, Squared, SquaredHinge
from mercer.solvers import IRLS, Centred, Falkon, FalkonNewton, NewtonCG, SmoothERM, SoftmaxERM
from mercer.solvers.falkon import newton as falkon_descent

LOSSES = [Squared(), Logistic(), SquaredHinge(), Exponential(), Huber(0.1), Huber(1.0)]


def data(n=500, m=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    f = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 - 1
    classes = np.where(f + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    numbers = f + 0.3 * rng.standard_t(2, n) + 3.0
    return X, X[:m], classes, numbers, rng.uniform(0, 2, n)


def problem(k, X, Z, y, w, alpha, offset=True, outputs=1):
    return Centred(row_pass(k, X, Z, y, w), k(Z), alpha, offset, outputs)


def gradient(loss, K, KZ, y, w, alpha, offset, a, b):
    """Return the norm of the gradient relative to that at 0."""

    def norm(a, b):
        slope = w * loss.gradient(y, K @ a + b)
        return np.hypot(np.linalg.norm(K.T @ slope + alpha * KZ @ a), offset * slope.sum())

    return norm(a, b) / norm(0 * a, 0.0)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("alpha", [10.0, 0.1, 1e-4])
def test_gradients_vanish(loss, offset, alpha):
    X, Z, classes, numbers, w = data()
    y = classes if loss.kind == "classification" else numbers
    k = RBF(1.0)
    solution = FalkonNewton(loss).solve(problem(k, X, Z, y, w, alpha, offset))
    a, b = solution.unwrap()
    K, KZ = k(X, Z), k(Z)
    own = gradient(loss, K, KZ, y, w, alpha, offset, a[:, 0], b[0])
    assert own < 1.01e-6 and solution.residual == pytest.approx(own, rel=0.05, abs=1e-11)
    assert offset or b[0] == 0
    f = (K @ a + b)[:, 0]
    primal = w @ loss.value(y, f) + 0.5 * alpha * a[:, 0] @ KZ @ a[:, 0]
    assert solution.primal == pytest.approx(primal, rel=1e-6)


@pytest.mark.parametrize("offset", [False, True])
def test_squared_loss_is_falkon(offset):
    X, Z, _, y, w = data()
    k = RBF(1.0)
    least = Falkon(tol=1e-10).solve(problem(k, X, Z, y[:, None], w, 1.0, offset))
    newton = FalkonNewton("squared", tol=1e-10).solve(problem(k, X, Z, y, w, 1.0, offset))
    K = k(X, Z)
    one, two = (K @ s.value[0] + s.value[1] for s in (least, newton))
    np.testing.assert_allclose(one, two, atol=1e-6)
    assert newton.primal == pytest.approx(least.primal, rel=1e-8)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=repr)
def test_all_points_as_centres_is_the_exact_minimum(loss):
    X, _, classes, numbers, w = data(n=70)
    y = classes if loss.kind == "classification" else numbers
    k, w = RBF(0.7), w + 0.1
    exact = IRLS().solve(SmoothERM(k(X), y, loss, 0.5, w, True))
    ours = FalkonNewton(loss, tol=1e-9).solve(problem(k, X, X, y, w, 0.5, True))
    assert ours.primal == pytest.approx(exact.primal, rel=1e-7)


@pytest.mark.parametrize("offset", [False, True])
def test_classes_are_the_exact_minimum_too(offset):
    X, _, _, numbers, w = data(n=80)
    y = np.digitize(numbers, [2.2, 3.2])
    k, w = RBF(0.7), w + 0.1
    exact = NewtonCG().solve(SoftmaxERM(k(X), y, 3, 0.5, w, offset))
    ours = FalkonNewton("softmax", tol=1e-9).solve(problem(k, X, X, y, w, 0.5, offset, 3))
    assert ours.primal == pytest.approx(exact.primal, rel=1e-7)
    a, b = ours.unwrap()
    assert a.shape == (80, 3) and abs(b.sum()) < 1e-10
    np.testing.assert_allclose(k(X) @ a.sum(1), 0, atol=1e-6)


def test_two_classes_are_logistic():
    """With softmax the two functions are ±f/2, whose penalty is half that of f."""
    X, Z, y, _, w = data()
    k = RBF(1.0)
    two = FalkonNewton("softmax", tol=1e-9).solve(
        problem(k, X, Z, (y > 0).astype(int), w, 1.0, True, 2)
    )
    one = FalkonNewton("logistic", tol=1e-9).solve(problem(k, X, Z, y, w, 0.5))
    a, b = two.value
    f = k(X, Z) @ (a[:, 1] - a[:, 0]) + b[1] - b[0]
    np.testing.assert_allclose(f, (k(X, Z) @ one.value[0] + one.value[1])[:, 0], atol=1e-5)


def test_many_outputs_are_one_at_a_time():
    X, Z, y, _, w = data()
    k = RBF(1.0)
    Y = np.column_stack([y, -y, np.sign(X[:, 0])])
    all_ = FalkonNewton("logistic", tol=1e-9).solve(problem(k, X, Z, Y, w, 0.3, True, 3))
    for i in range(3):
        one = FalkonNewton("logistic", tol=1e-9).solve(problem(k, X, Z, Y[:, i], w, 0.3))
        gap = k(X, Z) @ (all_.value[0][:, i : i + 1] - one.value[0]) + all_.value[1][i]
        np.testing.assert_allclose(gap, np.full((500, 1), one.value[1]), atol=1e-5)


def test_weight_two_is_the_row_twice():
    X, Z, y, _, _ = data(n=200)
    w = np.random.default_rng(0).integers(0, 4, 200)
    r = np.repeat(np.arange(200), w)
    k = RBF(1.0)
    one = FalkonNewton("logistic", tol=1e-10).solve(problem(k, X, Z, y, w.astype(float), 0.3))
    two = FalkonNewton("logistic", tol=1e-10).solve(problem(k, X[r], Z, y[r], None, 0.3))
    assert one.primal == pytest.approx(two.primal, rel=1e-9)


def test_duplicated_centres():
    X, Z, y, _, w = data()
    k = RBF(1.0)
    once = FalkonNewton("logistic", tol=1e-8).solve(problem(k, X, Z, y, w, 0.3))
    twice = FalkonNewton("logistic", tol=1e-8).solve(problem(k, X, np.repeat(Z, 2, 0), y, w, 0.3))
    assert twice.converged and twice.primal == pytest.approx(once.primal, rel=1e-7)


def test_separable_classes_and_tiny_penalties():
    X, Z, _, _, w = data()
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    k = RBF(1.0)
    solution = FalkonNewton("logistic", max_iter=100).solve(problem(k, X, Z, y, w, 1e-9))
    a, b = solution.unwrap()
    assert ((k(X, Z) @ a + b)[:, 0] * y > 0).mean() > 0.99


def test_flat_losses_far_away():
    """Huber at targets far off has no curvature anywhere at 0: curvature is added."""
    X, Z, _, y, w = data()
    k = RBF(1.0)
    for shift in (1e2, 1e5):
        solution = FalkonNewton(Huber(0.1)).solve(problem(k, X, Z, y + shift, w, 0.1))
        _a, b = solution.unwrap()
        assert abs(b[0] - shift) < 10


def test_steps_that_overflow_are_shortened():
    X, Z, y, _, w = data()
    y[0] = -y[0]
    solution = FalkonNewton(Exponential()).solve(problem(1e4 * RBF(1.0), X, Z, y, w, 1e-3, False))
    assert np.isfinite(solution.primal) and np.isfinite(solution.value[0]).all()
    assert solution.primal < w.sum()


def test_blocks_equal_memory():
    X, Z, y, _, w = data()
    k = RBF(1.0)
    blocks = mercer.RowBlocks.from_arrays(X, y, w, block_rows=64)
    streamed = FalkonNewton("logistic", tol=1e-12).solve(
        Centred(row_pass(k, blocks, Z), k(Z), 1.0, True)
    )
    stored = FalkonNewton("logistic", tol=1e-12).solve(problem(k, X, Z, y, w, 1.0))
    assert streamed.primal == pytest.approx(stored.primal, rel=1e-12)
    gap = k(X, Z) @ (streamed.value[0] - stored.value[0]) + streamed.value[1] - stored.value[1]
    assert np.abs(gap).max() < 1e-8


@pytest.mark.parametrize("way", ["single", "normal", "whitened"])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=repr)
def test_hessians_of_a_pass_steer_to_the_same_minimum(loss, offset, way, monkeypatch):
    X, Z, classes, numbers, w = data(n=900, m=40)
    y, k = classes if loss.kind == "classification" else numbers, RBF(0.3)
    w[:50] = 0.0

    def solved(ways):
        monkeypatch.setattr(falkon_descent, "ways_of_squares", lambda *given: ways)
        return FalkonNewton(loss, tol=1e-9).solve(problem(k, X, Z, y, w, 0.3, offset))

    one, two = solved([way]), solved([])
    assert one.converged and one.extra["preconditioner"] == way
    assert one.extra["cg_iterations"] == 0 < two.extra["cg_iterations"]
    K = k(X, Z)
    np.testing.assert_allclose(
        K @ one.value[0] + one.value[1], K @ two.value[0] + two.value[1], atol=1e-5
    )
    assert one.primal == pytest.approx(two.primal, rel=1e-10)


def test_a_hessian_that_rounding_spoils_gives_way(monkeypatch):
    X, Z, y, _, w = data(n=400, m=60)
    k = RBF(3.0)  # nearly singular
    monkeypatch.setattr(falkon_descent, "ways_of_squares", lambda *given: ["single", "whitened"])
    solution = FalkonNewton("logistic").solve(problem(k, X, Z, y, w, 1e-3))
    assert solution.converged and solution.extra["preconditioner"] != "single"


def test_threads_change_no_bit_of_hessians():
    X, Z, y, _, w = data(n=3000, m=130)
    found = []
    for threads in (1, 2):
        with mercer.config(threads=threads):
            found.append(FalkonNewton("logistic").solve(problem(RBF(0.5), X, Z, y, w, 0.1)))
    assert found[0].extra["preconditioner"] in ("single", "normal", "whitened")
    assert np.array_equal(found[0].value[0], found[1].value[0])


@pytest.mark.parametrize("solver", [Falkon(), FalkonNewton("logistic")], ids=type)
def test_values_are_let_go_when_a_solve_ends(solver):
    X, Z, y, _, w = data()
    given = problem(RBF(1.0), X, Z, y[:, None], w, 0.1)
    rows = weakref.ref(given.rows)
    gc.collect()
    gc.disable()
    try:
        solver.solve(given)
        del given
        assert rows() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_hessian_in_use_is_made_again(tmp_path, stop):
    X, Z, y, _, w = data(n=2000, m=120)
    k = RBF(0.7)

    def interrupt(step, residual):
        if step == stop:
            raise KeyboardInterrupt

    whole = FalkonNewton("logistic").solve(problem(k, X, Z, y, w, 0.1))
    path = tmp_path / "fit"
    with pytest.raises(KeyboardInterrupt):
        FalkonNewton("logistic", checkpoint=path, callback=interrupt).solve(
            problem(k, X, Z, y, w, 0.1)
        )
    resumed = FalkonNewton("logistic", checkpoint=path).solve(problem(k, X, Z, y, w, 0.1))
    assert np.array_equal(whole.value[0], resumed.value[0])
    assert whole.extra["passes"] == resumed.extra["passes"] < 20


def test_the_sketch_serves_newton_too(monkeypatch):
    monkeypatch.setattr(falkon_descent, "INNER", 8)
    monkeypatch.setattr(falkon_descent, "takes_squares", lambda rows: False)
    X, Z, y, _, w = data(m=60)
    k = RBF(1.0)
    solution = FalkonNewton("logistic", max_iter=200).solve(problem(k, X, Z, y, w, 1e-5))
    assert solution.converged and solution.extra["preconditioner"] == "krill"


def test_limits_are_told():
    X, Z, y, _, w = data()
    k = RBF(1.0)
    short = FalkonNewton("logistic", max_iter=1, tol=1e-9).solve(problem(k, X, Z, y, w, 0.1))
    assert short.n_iter == 1
    with pytest.warns(NotConverged, match="max_iter"):
        short.unwrap()
    quick = FalkonNewton("logistic", max_time=1e-9, tol=1e-9).solve(problem(k, X, Z, y, w, 0.1))
    assert "1e-09 s" in quick.message and quick.primal < w.sum() * np.log(2)


def test_stopped_and_resumed_has_the_same_bits(tmp_path):
    X, Z, y, _, w = data()
    k = RBF(1.0)

    def interrupt(step, residual):
        if step == 2:
            raise KeyboardInterrupt

    path = tmp_path / "fit"
    whole = FalkonNewton("logistic").solve(problem(k, X, Z, y, w, 0.1))
    with pytest.raises(KeyboardInterrupt) as caught:
        FalkonNewton("logistic", checkpoint=path, callback=interrupt).solve(
            problem(k, X, Z, y, w, 0.1)
        )
    assert caught.value.__notes__[0].endswith("goes on from step 2")
    steps = []
    resumed = FalkonNewton("logistic", checkpoint=path, callback=lambda i, r: steps.append(i))
    resumed = resumed.solve(problem(k, X, Z, y, w, 0.1))
    assert steps[0] == 3
    for one, two in zip(whole.value, resumed.value, strict=True):
        assert np.array_equal(one, two)
    assert whole.extra["passes"] == resumed.extra["passes"]
    with pytest.raises(InvalidInput, match="another problem"):
        FalkonNewton(Huber(), checkpoint=path).solve(problem(k, X, Z, y, w, 0.1))


def test_bad_input_is_named():
    X, Z, y, _, w = data(n=60)
    k = RBF(1.0)
    for loss in (Hinge(), "absolute"):
        with pytest.raises(InvalidInput, match="smooth"):
            FalkonNewton(loss)
    with pytest.raises(InvalidInput, match="no word"):
        FalkonNewton("nonsense")
    with pytest.raises(InvalidInput, match="alpha"):
        FalkonNewton("logistic").solve(problem(k, X, Z, y, w, 0.0))
    with pytest.raises(InvalidInput, match="−1 and 1"):
        FalkonNewton("logistic").solve(problem(k, X, Z, y + 1, w, 1.0))
    w[3] = np.nan
    with pytest.raises(InvalidInput, match="NaN"):
        FalkonNewton("logistic").solve(problem(k, X, Z, y, w, 1.0))
    for options in ({"tol": 0}, {"max_iter": 0}, {"max_time": -1.0}, {"callback": 1}):
        with pytest.raises(InvalidInput, match=next(iter(options))):
            FalkonNewton("logistic", **options)
