"""Tests on a device: what torch answers is what NumPy answers, given the same draws."""

import numpy as np
import pytest

import mercer
from mercer import RBF, Laplacian, Linear, Matern, Polynomial
from mercer.errors import InvalidInput, speaking_for
from mercer.operators import Place, device as sums, place_of
from mercer.statistics import (
    hsic_test,
    k_sample_test,
    ksd_test,
    mmd,
    mmd_agg_test,
    mmd_test,
    permutation,
)
from mercer.statistics.permutation import (
    DeviceDraws,
    Relabel,
    Shuffle,
    Signs,
    drawn_there,
    resample,
)

torch = pytest.importorskip("torch")

KERNELS = [RBF(1.3), RBF(0.4), Laplacian(2.0), Matern(1.0, nu=1.5), RBF(1.0) + Linear()]


@pytest.fixture
def samples(rng):
    return rng.normal(size=(43, 3)), rng.normal(0.3, size=(38, 3))


@pytest.fixture(autouse=True)
def small_bands(monkeypatch):
    monkeypatch.setattr(sums, "ROWS", 17)


def both(test, *args, **options):
    """Return the results of NumPy and of torch."""
    tensors = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    return test(*args, **options), test(*tensors, **options)


def same(a, b, tol=1e-10):
    scale = np.abs(a.null).max()
    assert a.statistic == pytest.approx(b.statistic, abs=tol * scale)
    np.testing.assert_allclose(b.null, a.null, rtol=0, atol=tol * scale)
    assert a.pvalue == b.pvalue and a.method == b.method


@pytest.mark.parametrize("kernel", [None, *KERNELS])
@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_mmd(samples, kernel, estimator):
    options = {"kernel": kernel, "rng": 3, "n_permutations": 99, "estimator": estimator}
    same(*both(mmd_test, *samples, **options))
    a, b = both(mmd, *samples, kernel, estimator)
    assert a == pytest.approx(b, rel=1e-10)


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
@pytest.mark.parametrize("kernel", [RBF(1.0), Polynomial(2)])
def test_mmd_by_signs(samples, estimator, kernel):
    X, Y = samples[0][:38], samples[1]
    options = {"kernel": kernel, "rng": 3, "null": "wild", "estimator": estimator}
    same(*both(mmd_test, X, Y, **options))
    same(*both(mmd_test, X, Y, blocks=3, **options))


def test_designs(samples, rng):
    X, Y = samples
    strata = rng.integers(0, 2, len(X) + len(Y))
    weights = [rng.integers(1, 4, len(X)), rng.integers(0, 3, len(Y))]
    shares = [rng.uniform(0.5, 2, len(X)), rng.uniform(0.5, 2, len(Y))]
    for options in (
        {"strata": strata},
        {"blocks": 2},
        {"sample_weight": weights},
        {"sample_weight": shares},
        {"early_stop": 5},
        {"rank": 6},
        {"null": "gamma"},
        {"null": "normal"},
    ):
        a, b = both(mmd_test, X, Y, RBF(1.0), 59, 1, **options)
        if a.null is None:
            assert tuple(a) == pytest.approx(tuple(b), rel=1e-10)
        else:
            same(a, b)


def test_k_samples(samples, rng):
    three = (*samples, rng.normal(size=(20, 3)))
    for given in (three, three[:2]):
        a, b = both(k_sample_test, *given, rng=2, n_permutations=59, pairwise=True)
        same(a, b)
        np.testing.assert_array_equal(a.extra["adjusted"], b.extra["adjusted"])
    same(*both(k_sample_test, *three, kernel=RBF(1.0), rng=2, rank=5))


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
@pytest.mark.parametrize("null", ["permutation", "wild"])
@pytest.mark.parametrize("kernels", [None, KERNELS])
def test_aggregated(samples, estimator, null, kernels):
    X, Y = samples[0][:38], samples[1]
    options = {"kernels": kernels, "rng": 1, "null": null, "estimator": estimator}
    a, b = both(mmd_agg_test, X, Y, n_permutations=49, **options)
    np.testing.assert_allclose(a.null, b.null, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(a.extra["statistics"], b.extra["statistics"], rtol=0, atol=1e-12)
    assert a.pvalue == b.pvalue and a.extra["kernel"] == b.extra["kernel"]


def test_aggregated_designs(samples, rng):
    X, Y = samples
    weights = [rng.integers(1, 4, len(X)), rng.integers(0, 3, len(Y))]
    shares = [rng.uniform(0.5, 2, len(X)), rng.uniform(0.5, 2, len(Y))]
    for options in (
        {"strata": rng.integers(0, 2, len(X) + len(Y))},
        {"sample_weight": weights},
        {"sample_weight": shares},
        {"rank": 7},
        {"rank": 7, "null": "wild"},
    ):
        n = 38 if "null" in options else 43
        a, b = both(mmd_agg_test, X[:n], Y, KERNELS, 49, 1, **options)
        np.testing.assert_allclose(a.null, b.null, rtol=1e-8, atol=1e-10)
        assert a.pvalue == b.pvalue


def test_config_without_tensors(samples):
    wanted = mmd_agg_test(*samples, rng=0, n_permutations=49)
    with mercer.config(engine="torch", device="cpu"):
        found = mmd_agg_test(*samples, rng=0, n_permutations=49)
        words = mmd_test(["abc", "abd", "xx"], ["abc", "yy", "zz"], mercer.Spectrum(2), 19, 0)
    np.testing.assert_allclose(found.null, wanted.null, rtol=1e-8, atol=1e-10)
    assert (
        words.pvalue
        == mmd_test(["abc", "abd", "xx"], ["abc", "yy", "zz"], mercer.Spectrum(2), 19, 0).pvalue
    )


def test_single_precision(samples):
    X, Y = (Z.astype(np.float32) for Z in samples)
    for test in (mmd_test, mmd_agg_test):
        a, b = both(test, X, Y, rng=1, n_permutations=99)
        np.testing.assert_allclose(a.null, b.null, rtol=0, atol=2e-5 * np.abs(a.null).max())
        assert abs(a.pvalue - b.pvalue) <= 0.02


def test_place():
    x, y = torch.zeros((2, 1)), torch.zeros((2, 1), dtype=torch.float64)
    assert place_of(np.zeros((2, 1))) is None
    assert place_of(x, x) == Place("cpu", True)
    assert place_of(x, y) == Place("cpu", False)
    with mercer.config(engine="numpy"):
        assert place_of(x) is None
    with mercer.config(engine="torch", device="cpu"):
        assert place_of([[1.0]]) == Place("cpu", False)
    with pytest.raises(InvalidInput, match="one device"), speaking_for("t"):
        place_of(x, torch.zeros((2, 1), device="meta"))


def test_products_are_not_rounded_to_tf32(samples, monkeypatch):
    matmul, seen, made = torch.backends.cuda.matmul, [], sums._combined
    new = hasattr(matmul, "fp32_precision")
    name, allowed = ("fp32_precision", "tf32") if new else ("allow_tf32", True)
    before = getattr(matmul, name)

    def watched(tiles, places):
        seen.append(getattr(matmul, name))
        return made(tiles, places)

    monkeypatch.setattr(sums, "_combined", watched)
    X, Y = (torch.tensor(Z[:38]).float() for Z in samples)
    try:
        setattr(matmul, name, allowed)
        for test in (mmd_test, mmd_agg_test):
            for null in ("permutation", "wild"):
                test(X, Y, rng=0, n_permutations=9, null=null)
        assert len(seen) > 4 and set(seen) <= {"ieee", False}
        assert getattr(matmul, name) == allowed
    finally:
        setattr(matmul, name, before)


def test_odd_tensors(samples):
    X, Y = (torch.tensor(Z).bfloat16() for Z in samples)
    a, b = (
        mmd_test(*given, rng=0, n_permutations=19) for given in ((X, Y), (X.float(), Y.float()))
    )
    assert a.pvalue == b.pvalue and a.statistic == b.statistic
    for odd, message in ((X.to_sparse(), "layout"), (X.to("meta"), "meta")):
        for test in (mmd_test, hsic_test, ksd_test):
            with pytest.raises(InvalidInput, match=rf"^{test.__name__}: the tensor .*{message}"):
                test(odd, odd)


def test_degenerate(rng):
    one = np.ones((6, 2))
    same(*both(mmd_test, one, one, RBF(1.0), 19, 0))
    a, b = both(mmd_test, one[:1], 2 * one, RBF(1.0), 19, 0, estimator="biased")
    same(a, b)
    with pytest.raises(InvalidInput, match=r"NaN|finite"):
        mmd_test(torch.full((5, 2), float("nan")), torch.ones((5, 2)))
    with pytest.raises(InvalidInput, match="columns"):
        mmd_test(torch.ones((5, 2)), torch.ones((5, 3)))


# ------------------------------------------------------------------------------ draws made there
def test_draws_on_a_device(monkeypatch):
    place = Place("cpu", False)
    labels = np.repeat([0, 1], [3, 2]).astype(np.uint8)
    draws = DeviceDraws(Relabel(labels), place).draw(np.random.default_rng(0), 6000)
    assert draws.dtype == torch.uint8 and (draws.sum(1) == 2).all()
    # All ten ways to choose two of five are equally likely: χ² of 9 degrees of freedom.
    code = (draws.numpy() * 2 ** np.arange(5)).sum(1)
    counts = np.unique(code, return_counts=True)[1]
    assert len(counts) == 10 and ((counts - 600) ** 2 / 600).sum() < 35
    orders = DeviceDraws(Shuffle(4), place).draw(np.random.default_rng(0), 2400)
    assert (orders.sort(1).values == torch.arange(4)).all()
    counts = np.unique((orders.numpy() * 5 ** np.arange(4)).sum(1), return_counts=True)[1]
    assert len(counts) == 24 and ((counts - 100) ** 2 / 100).sum() < 60
    signs = DeviceDraws(Signs(7), place).draw(np.random.default_rng(0), 500)
    assert set(np.unique(signs.numpy())) == {-1, 1} and abs(signs.double().mean()) < 0.1
    again = DeviceDraws(Signs(7), place).draw(np.random.default_rng(0), 500)
    assert (again == signs).all()


def test_draws_do_not_depend_on_batches():
    design = DeviceDraws(Signs(5), Place("cpu", False))
    one = design.draw(np.random.default_rng(1), 2 * permutation.CHUNK)
    rng = np.random.default_rng(1)
    two = torch.cat([design.draw(rng, permutation.CHUNK) for _ in range(2)])
    assert (one == two).all()


def test_who_draws(monkeypatch):
    monkeypatch.setattr(permutation, "MANY", 100)
    there, here = Place("cuda:0", True), Place("cpu", True)
    labels = np.repeat([0, 1], 50)
    assert isinstance(drawn_there(Relabel(labels), there, 99), DeviceDraws)
    assert isinstance(drawn_there(Shuffle(100), there, 99), DeviceDraws)
    assert isinstance(drawn_there(Signs(100), there, 99), DeviceDraws)
    for design in (
        Relabel(labels, blocks=2),
        Relabel(labels, strata=np.arange(100) % 2),
        Shuffle(100, blocks=2),
        Signs(100, blocks=2),
    ):
        assert drawn_there(design, there, 99) is design
    design = Signs(100)
    assert drawn_there(design, here, 99) is design and drawn_there(design, None, 99) is design
    monkeypatch.setattr(permutation, "MANY", 10**9)
    assert drawn_there(design, there, 99) is design


@pytest.fixture
def drawn_by_the_device(monkeypatch):
    def everywhere(design, place, draws):
        if place is None or not permutation.plain(design):
            return design
        return DeviceDraws(design, place)

    places = ("two_sample.test", "two_sample.aggregated", "two_sample.k_sample", "dependence.test")
    for module in places:
        monkeypatch.setattr(f"mercer.statistics.{module}.drawn_there", everywhere)


class SameDraws(DeviceDraws):
    """The draws of NumPy, as tensors."""

    def draw(self, rng, size):
        return self.place.tensor(np.asarray(self.design.draw(rng, size)))


@pytest.mark.parametrize("test", [mmd_test, mmd_agg_test, k_sample_test])
def test_weights_with_draws_made_there(samples, rng, monkeypatch, drawn_by_the_device, test):
    monkeypatch.setitem(globals(), "DeviceDraws", SameDraws)
    X, Y = samples
    counts = [rng.integers(1, 4, len(X)), rng.integers(0, 3, len(Y))]
    shares = [rng.exponential(size=len(X)) + 0.1, rng.exponential(size=len(Y)) + 0.1]
    for weights in (counts, shares, [rng.integers(0, 2, len(X)), None]):
        for more in [{}, {"rank": 6, "kernel": RBF(1.0)}][: 1 if test is mmd_agg_test else 2]:
            options = {"sample_weight": weights, "rng": 1, "n_permutations": 59} | more
            a, b = both(test, X, Y, **options)
            np.testing.assert_allclose(b.null, a.null, rtol=1e-8, atol=1e-10)
            assert b.statistic == pytest.approx(a.statistic, rel=1e-9) and a.pvalue == b.pvalue


def test_weights_of_pairs_with_draws_made_there(samples, rng, monkeypatch, drawn_by_the_device):
    monkeypatch.setitem(globals(), "DeviceDraws", SameDraws)
    X, Y = samples[0][:38], samples[1]
    for weights in (rng.integers(0, 3, 38), rng.exponential(size=38) + 0.1):
        for rank in (None, 6):
            options = {"sample_weight": weights, "rng": 1, "n_permutations": 59, "rank": rank}
            same(*both(hsic_test, X, Y, **options))


@pytest.mark.parametrize("null", ["permutation", "wild"])
def test_tests_with_draws_made_there(samples, drawn_by_the_device, null):
    X, Y = samples[0][:38], samples[1] + 1.0
    tensors = torch.tensor(X), torch.tensor(Y)
    for test in (mmd_test, mmd_agg_test):
        options = {"rng": 0, "null": null, "n_permutations": 399}
        found, wanted = test(*tensors, **options), test(X, Y, **options)
        assert found.pvalue == wanted.pvalue == 1 / 400
        assert np.mean(found.null) == pytest.approx(np.mean(wanted.null), abs=0.3)
        if test is mmd_test:
            assert found.statistic == pytest.approx(wanted.statistic, rel=1e-10)
            assert np.std(found.null) == pytest.approx(np.std(wanted.null), rel=0.3)
    if null == "permutation":
        assert k_sample_test(*tensors, rng=0).pvalue == 0.001
        assert mmd_test(*tensors, "linear", rng=0).pvalue == 0.001
        assert mmd_test(*tensors, rng=0, rank=10).pvalue == 0.001


def test_resample_takes_tensors():
    drawn = resample(
        None,
        lambda draws: draws.double().sum(1).numpy(),
        DeviceDraws(Signs(9), Place("cpu", False)),
        50,
        np.random.default_rng(0),
        data=np.ones(9),
    )
    assert drawn.observed == 9 and len(drawn.values) == 50
