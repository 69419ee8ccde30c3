"""Products at new points use what a model prepared of its own points, and are the definition's."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest

import mercer
from mercer import RBF, Constant, KernelRidge, Linear, Matern, Periodic, Polynomial
from mercer.errors import InvalidInput
from mercer.models import KernelDensity, KernelNeighborsRegressor
from mercer.operators import product_at
from mercer.operators.gram import _ready
from mercer.testing import kernel_examples

EXAMPLES = [
    example
    for example in kernel_examples()
    if isinstance(example.kernel.domain, type(RBF().domain)) and example.sampler is None
]
TURN = [[1.0, -1.0, 0.5], [0.0, 2.0, 1.0]]
COMBINED = [
    RBF(1.5).in_metric(TURN),
    2.0 * Matern(nu=1.5).in_metric(TURN) + 0.5,
    RBF([1.0, 2.0]).on([0, 2]) * Linear() + Constant(3.0),
    (Polynomial(2) * RBF()).normalized(),
    Periodic().on([1]) * RBF().on([0]) + mercer.White(0.1),
    RBF().exp(),
    RBF().scale_by(lambda X: 1.0 + X[:, 0] ** 2),
    Linear().warp(lambda X: np.tanh(X)),
]


class Model:
    """Somebody who keeps points."""


def check(kernel, Z, news, rtol=1e-11):
    rng = np.random.default_rng(0)
    for V in (rng.standard_normal(len(Z)), rng.standard_normal((len(Z), 2))):
        model = Model()
        for New in news:
            K = np.array([[kernel([a], [b])[0, 0] for b in Z] for a in New])
            got = product_at(model, kernel, New, Z, V)
            scale = np.abs(K) @ np.abs(V)
            assert got.dtype == Z.dtype and got.shape == (len(New), *V.shape[1:])
            tolerance = rtol if Z.dtype == np.float64 else 1e-4
            assert (np.abs(got - K @ V) <= tolerance * scale + 1e-300).all()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: repr(e.kernel)[:60])
def test_of_every_kernel_of_numbers(example):
    rng = np.random.default_rng(1)
    for width in (3, 2, 1):  # the first that the kernel takes
        points = np.asarray(example.kernel.domain.sample(rng, 13))[:, :width]
        Z, one, some = points[:7].copy(), points[7:8].copy(), points[8:].copy()
        try:
            kernel = example.kernel.fit_params(Z)
            kernel(Z)
        except InvalidInput:
            continue
        break
    check(kernel, Z, [one, some, Z[:2].copy()])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", COMBINED, ids=repr)
def test_of_combinations(kernel, dtype):
    rng = np.random.default_rng(2)
    Z, New = rng.standard_normal((8, 3)).astype(dtype), rng.standard_normal((4, 3)).astype(dtype)
    check(kernel, Z, [New, New[:1]])


@pytest.mark.parametrize("kernel", [RBF(), Matern(nu=0.5), RBF().in_metric(TURN), RBF() + Linear()])
def test_far_from_zero_and_far_from_the_points(kernel):
    rng = np.random.default_rng(3)
    Z = 1e6 + rng.standard_normal((6, 3))
    check(kernel, Z, [Z[:2] + 0.1, rng.standard_normal((2, 3)), np.full((1, 3), 1e9)], rtol=1e-7)


def test_a_new_point_has_the_same_answer_in_any_company():
    """What points are moved by is the centre of the model's points, not of those that came."""
    rng = np.random.default_rng(4)
    model = KernelRidge(RBF()).fit(rng.standard_normal((50, 3)), rng.standard_normal(50))
    New = rng.standard_normal((20, 3))
    together = model.predict(New)
    with_far = model.predict(np.vstack([New, np.full((1, 3), 100.0)]))[:-1]
    np.testing.assert_allclose(with_far, together, rtol=1e-12)
    np.testing.assert_allclose([model.predict(x[None])[0] for x in New], together, rtol=1e-12)


def test_what_is_kept_follows_the_model():
    rng = np.random.default_rng(5)
    # so many points that something is kept of them
    X, y, New = (
        rng.standard_normal((600, 2)),
        rng.standard_normal(600),
        rng.standard_normal((300, 2)),
    )
    model = KernelRidge(RBF()).fit(X, y)
    model.predict(New)
    again = model.fit(X + 1.0, y).predict(New)
    np.testing.assert_allclose(
        again, KernelRidge(RBF()).fit(X + 1.0, y).predict(New), rtol=1e-12, atol=1e-13
    )
    model.kernel_ = RBF(0.3)
    expected = RBF(0.3)(New, model.X_fit_) @ model.dual_coef_
    np.testing.assert_allclose(model.predict(New), expected, rtol=1e-12, atol=1e-13)
    model.kernel_ = RBF(np.array([1.0, 2.0]))
    model.predict(New)
    model.kernel_.length_scale[0] = 5.0  # in place
    expected = RBF([5.0, 2.0])(New, model.X_fit_) @ model.dual_coef_
    np.testing.assert_allclose(model.predict(New), expected, rtol=1e-12, atol=1e-13)
    model.X_fit_[:5] = model.X_fit_[5:10] + 1.0  # in place too
    expected = RBF([5.0, 2.0])(New, model.X_fit_) @ model.dual_coef_
    np.testing.assert_allclose(model.predict(New), expected, rtol=1e-12, atol=1e-13)
    model.X_fit_[[0, 1]] = model.X_fit_[[1, 0]]
    expected = RBF([5.0, 2.0])(New, model.X_fit_) @ model.dual_coef_
    np.testing.assert_allclose(model.predict(New), expected, rtol=1e-12, atol=1e-13)
    assert model in _ready
    gone, points = weakref.ref(model), model.X_fit_
    del model
    gc.collect()
    assert gone() is None and all(Z is not points for _, Z, _ in _ready.values())


def test_little_memory_keeps_nothing():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((400, 5)), rng.standard_normal(400)
    model = KernelRidge(RBF()).fit(X, y)
    with mercer.config(memory=10 * X.nbytes):
        values = model.predict(X[:9])
    assert model not in _ready
    np.testing.assert_allclose(model.predict(X[:9]), values, rtol=1e-12)


def test_what_is_kept_of_neighbours_and_densities_follows_changes_in_place():
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((500, 3)), rng.standard_normal(500)
    near = KernelNeighborsRegressor(RBF(), n_neighbors=5).fit(X, y)
    dense = KernelDensity(bandwidth=0.5).fit(X, sample_weight=np.abs(y))
    for model, ask in ((near, near.predict), (dense, dense.score_samples)):
        ask(X[:3])
        model.X_fit_[:] += np.linspace(0.0, 1.0, 500)[:, None]
        fresh = pickle.loads(pickle.dumps(model))
        other = fresh.predict if model is near else fresh.score_samples
        np.testing.assert_allclose(ask(X[:3]), other(X[:3]), rtol=1e-12)
        np.testing.assert_allclose(ask(X)[:3], ask(X[:3]), rtol=1e-9)
