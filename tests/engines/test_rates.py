"""Rates: positive, measured once, and of any kernel; no test looks at their size."""

import json
import tracemalloc
from dataclasses import fields

import numpy as np
import pytest

import mercer
from mercer import RBF, FromFunction, Precomputed, Spectrum
from mercer.engines import rates
from mercer.engines.base import device_of
from mercer.engines.rates import KernelRate, kernel_rate, machine_rates
from mercer.memory import free_on


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Forget what is known, keep files in a folder of the test, and count what is measured."""
    calls = []
    known = rates.Rates(5e10, 1e11, 4e10, 2e10, 3e9, 4e10)
    monkeypatch.setattr(rates, "_host_rates", lambda largest: calls.append(largest) or known)
    monkeypatch.setattr(rates, "is_crowded", lambda: False)
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path / "of" / "mercer"))
    rates._measured.cache_clear()
    yield calls
    rates._measured.cache_clear()


def again():
    """The rates of a new process."""
    rates._measured.cache_clear()
    return machine_rates()


def test_rates_are_kept_for_the_next_process(measured, tmp_path):
    first = machine_rates()
    assert again() == first and len(measured) == 1
    (path,) = (tmp_path / "of" / "mercer").iterdir()
    assert json.loads(path.read_text()) == vars(first)
    with mercer.config(threads=mercer.get_config().threads + 1):
        again()  # another number of threads is another machine
    assert len(measured) == 2


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"[]", b"null", b"{}", b"[" * 100_000, b"\xff\xfe", b"1e999"),
        b'{"gemm": 1e11}',
        json.dumps({f.name: 1e10 for f in fields(rates.Rates)} | {"gemm": float("nan")}).encode(),
        json.dumps({f.name: 1e10 for f in fields(rates.Rates)} | {"read": -1.0}).encode(),
        json.dumps({f.name: 1e10 for f in fields(rates.Rates)} | {"read": "1"}).encode(),
        json.dumps({f.name: 1e10 for f in fields(rates.Rates)} | {"read": True}).encode(),
        json.dumps({f.name: 1e10 for f in fields(rates.Rates)} | {"other": 1.0}).encode(),
    ],
)
def test_a_damaged_file_is_measured_anew_and_mended(measured, tmp_path, text):
    first = machine_rates()
    (path,) = (tmp_path / "of" / "mercer").iterdir()
    path.write_bytes(text)
    assert again() == first and len(measured) == 2
    assert again() == first and len(measured) == 2


def test_a_folder_that_cannot_be_written_is_no_error(measured, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", "/proc/none"):
        monkeypatch.setenv("MERCER_CACHE_DIR", str(folder))
        assert again().gemm > 0
    assert len(measured) == 3
    (tmp_path / "of").mkdir()
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path / "of"))
    rates._path(mercer.get_config().threads, None).mkdir()  # a folder in the place of the file
    assert again().gemm > 0 and len(measured) == 4


def test_rates_beside_busy_cores_or_of_small_matrices_are_not_kept(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(rates, "is_crowded", lambda: True)
    again()
    monkeypatch.setattr(rates, "is_crowded", lambda: False)
    with mercer.config(memory="1MB"):
        again()
    assert not (tmp_path / "of").exists() and len(measured) == 2
    with rates.single_threaded_blas():
        again()  # one thread of BLAS is another machine
    again()
    assert len(measured) == 4 and len(list((tmp_path / "of" / "mercer").iterdir())) == 2
    with mercer.config(memory="1MB"):
        again()  # what is known is not measured
    assert len(measured) == 4


def test_the_folder_is_the_users(monkeypatch, tmp_path):
    for name in (*rates.CACHE, "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert str(rates._folder()).startswith(str(tmp_path)) and rates._folder().name == "mercer"
    for name in reversed(rates.CACHE):
        monkeypatch.setenv(name, str(tmp_path / name))
        assert rates._folder() == tmp_path / name


def test_the_machine_is_measured_once():
    first = machine_rates()
    assert machine_rates() is first
    assert machine_rates("cpu") is first  # torch on the CPU is the same machine
    assert all(value > 0 for value in vars(first).values())
    assert first.gemm_single >= first.gemm >= first.potrf and first.symmetric >= first.read


def test_other_threads_are_another_machine(monkeypatch, tmp_path):
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path))
    calls = []
    known = rates.Rates(1, 1, 1, 1, 1)
    monkeypatch.setattr(rates, "_host_rates", lambda largest: calls.append(largest) or known)
    rates._measured.cache_clear()
    try:
        with mercer.config(threads=1):
            machine_rates()
            machine_rates()
        with mercer.config(threads=2):
            machine_rates()
        assert len(calls) == 2
    finally:
        rates._measured.cache_clear()


@pytest.mark.parametrize("memory", [10**3, 10**6, 10**7])
def test_a_small_budget_is_measured_inside_it(memory, monkeypatch, tmp_path):
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path))
    rates._measured.cache_clear()
    with mercer.config(memory=memory):
        tracemalloc.start()
        try:
            measured = machine_rates()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert machine_rates() is measured
    assert peak <= memory + 2**15 and all(value > 0 for value in vars(measured).values())


def test_a_device_is_measured_as_the_host_is():
    pytest.importorskip("torch")
    on_device, host = rates._device_rates("cpu"), machine_rates()
    assert vars(on_device).keys() == vars(host).keys()
    assert all(np.isfinite(value) and value > 0 for value in vars(on_device).values())
    assert on_device.gemm > on_device.read / 8  # a product does more with a number it has read


@pytest.mark.parametrize("n", [1, 2, 5, 3000])
def test_vectors_of_any_number(n):
    rate = kernel_rate(RBF(), np.random.default_rng(0).standard_normal((n, 3)))
    assert rate.entry > 0 and rate.point >= 0
    assert np.isfinite(rate.seconds(n * n, n))


def test_strings_and_matrices():
    kernel = Spectrum(2)
    words = kernel.domain.check(["abba", "baba", "cab"] * 20)
    assert kernel_rate(kernel, words).entry > 0
    assert kernel_rate(Precomputed(), np.eye(5)).entry > 0


def test_a_slow_kernel_is_asked_for_few_values():
    calls = []

    def slow(a, b):
        calls.append(1)
        end = rates.time.perf_counter() + 1e-3
        while rates.time.perf_counter() < end:
            pass
        return float(a @ b)

    kernel = FromFunction(slow)
    X = kernel.domain.check([np.ones(2)] * 500)
    rate = kernel_rate(kernel, X)
    assert rate.entry >= 9e-4
    assert len(calls) <= 100  # two tiles of 4 × 4, and a few before


def test_seconds_add_up():
    assert KernelRate(2.0, 3.0).seconds(10, 5) == 35.0


def test_where_data_are():
    torch = pytest.importorskip("torch")
    X = np.zeros((2, 2))
    assert device_of(X) is None
    assert device_of(torch.zeros(2, 2)) == "cpu"
    with mercer.config(engine="torch", device="cpu"):
        assert device_of(X) == "cpu"
    with mercer.config(memory=12345):
        assert free_on(None) == free_on("cpu") == 12345
