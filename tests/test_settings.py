"""config: what it takes, what it refuses, and that it ends where its block ends."""

import asyncio
import contextvars
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

import mercer
from mercer.errors import InvalidInput
from mercer.settings import Settings, config, get_config, parse_memory


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (1, 1),
        (2.5e9, 2_500_000_000),
        ("100", 100),
        ("100B", 100),
        ("2GB", 2_000_000_000),
        ("2 gb", 2_000_000_000),
        ("2G", 2_000_000_000),
        ("1.5GiB", 3 * 2**29),
        ("1KiB", 1024),
        ("500MB", 500_000_000),
        (" 3 TB ", 3 * 10**12),
        ("0.5MiB", 2**19),
    ],
)
def test_amounts_of_memory(value, size):
    assert parse_memory(value) == size
    with config(memory=value):
        assert get_config().memory == size


@pytest.mark.parametrize(
    "value",
    ["", "abc", "GB", "-1GB", "1XB", "1 2GB", "1e9GBs", "inf", "nan", 0, -1, 0.0, float("inf"),
     float("nan"), True, [1], "0", "0GB", 2**63, "9999999999TB", b"2GB"],
    ids=repr,
)  # fmt: skip
def test_what_is_no_amount_of_memory(value):
    with pytest.raises(InvalidInput, match="memory"):
        config(memory=value)


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, [2]], ids=repr)
def test_threads_are_counted(value):
    with pytest.raises(InvalidInput, match="threads"):
        config(threads=value)


@pytest.mark.parametrize("value", ["jax", "", 1, True], ids=repr)
def test_engines_have_names(value):
    with pytest.raises(InvalidInput, match="engine"):
        config(engine=value)


@pytest.mark.parametrize("value", ["no", "", 1, 0.0, [True]], ids=repr)
def test_progress_is_true_or_false(value):
    with pytest.raises(InvalidInput, match=r"progress=.*give True or False"):
        config(progress=value)


def test_none_is_the_default_again():
    before = get_config()
    ways = {"memory": "1MB", "threads": 3, "progress": True, "engine": "numpy", "device": "cuda:7"}

    def work(name, value):
        config(**{name: value})
        assert getattr(get_config(), name) != getattr(before, name)
        config()
        assert getattr(get_config(), name) != getattr(before, name)  # what is not given stays
        config(**{name: None})
        assert get_config() == before

    for name, value in ways.items():
        alone(lambda name=name, value=value: work(name, value))
    assert get_config() == before


def test_the_way_back_from_a_device():
    def work():
        config(device="cuda:7")
        assert (get_config().device, get_config().engine) == ("cuda:7", "torch")
        config(device="auto")
        assert (get_config().device, get_config().engine) == ("auto", "auto")
        config(engine="torch")
        config(device="auto")  # the engine was not that of a device
        assert (get_config().device, get_config().engine) == ("auto", "torch")
        config(device="cuda:7")
        config(device="auto", engine="torch")
        assert (get_config().device, get_config().engine) == ("auto", "torch")

    alone(work)


def test_options_there_are_not():
    with pytest.raises(TypeError):
        config(memmory="2GB")


def test_the_block_ends_the_setting():
    before = get_config()
    with config(memory=1000, threads=3) as settings:
        assert settings == get_config()
        assert (settings.memory, settings.threads) == (1000, 3)
        with config(threads=1):
            assert (get_config().memory, get_config().threads) == (1000, 1)
        assert get_config().threads == 3
    assert get_config() == before


def test_an_exception_ends_the_setting_too():
    before = get_config()
    with pytest.raises(KeyError), config(memory=1000):
        raise KeyError
    assert get_config() == before


def test_one_object_serves_many_blocks():
    options = config(threads=2)
    with options, config(threads=1), options:
        assert get_config().threads == 2
    with options:
        assert get_config().threads == 2


def alone(function):
    """Run a function whose settings end with it."""
    return contextvars.copy_context().run(function)


def test_a_call_acts_from_there_on():
    before = get_config()

    def work():
        config(memory=1000)
        assert get_config() == replace(before, memory=1000)
        config(threads=3)
        assert get_config() == replace(before, memory=1000, threads=3)
        with config(memory=2000):
            assert (get_config().memory, get_config().threads) == (2000, 3)
            config(threads=5)  # ends with the block too
        assert get_config() == replace(before, memory=1000, threads=3)

    alone(work)
    assert get_config() == before


def test_the_cure_of_a_refusal_works_as_it_is_written():
    X, y = np.random.default_rng(0).standard_normal((300, 2)), np.zeros(300)

    def work():
        config(memory="100kB")
        with pytest.raises(mercer.errors.MemoryBudgetExceeded) as refused:
            mercer.KernelRidge(solver="cholesky").fit(X, y)
        cure = re.search(r"mercer\.config\(memory='[^']*'\)", str(refused.value))[0]
        eval(cure)
        mercer.KernelRidge(solver="cholesky").fit(X, y)

    alone(work)


def test_a_call_whose_object_is_entered_later():
    before = get_config()

    def work():
        options = config(memory=1000)
        config(threads=7)
        with options:  # another setting came between: both stay after the block
            assert (get_config().memory, get_config().threads) == (1000, 7)
        assert (get_config().memory, get_config().threads) == (1000, 7)

    alone(work)

    def elsewhere():
        options, seen = config(memory=1000), []

        def run():
            with options:
                seen.append(get_config().memory)
            seen.append(get_config().memory)

        thread = threading.Thread(target=lambda: contextvars.Context().run(run))
        thread.start()
        thread.join()
        assert seen == [1000, before.memory]
        assert get_config().memory == 1000

    alone(elsewhere)
    assert get_config() == before


def test_a_refused_call_changes_nothing():
    before = get_config()
    with pytest.raises(InvalidInput):
        config(memory=1000, threads=0)
    assert get_config() is before


def test_threads_do_not_see_each_others_settings():
    seen = {}
    entered, done = threading.Barrier(2), threading.Barrier(2)

    def work(n):
        with config(threads=n):
            entered.wait(10)
            seen[n] = get_config().threads
            done.wait(10)

    workers = [threading.Thread(target=work, args=(n,)) for n in (1, 2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert seen == {1: 1, 2: 2}


def test_coroutines_do_not_see_each_others_settings():
    async def work(n):
        with config(threads=n):
            await asyncio.sleep(0.01)
            return get_config().threads

    async def main():
        return await asyncio.gather(work(1), work(2), work(3))

    assert asyncio.run(main()) == [1, 2, 3]


def test_settings_are_frozen_and_sane():
    settings = get_config()
    assert isinstance(settings, Settings)
    assert settings.memory > 2**20 and settings.threads >= 1
    assert settings.engine == "auto" and settings.progress is False
    with pytest.raises(AttributeError):
        settings.memory = 1


def test_public_names():
    assert mercer.config is config and mercer.get_config is get_config


def test_thread_limits_of_the_environment_are_respected():
    code = "import mercer; print(mercer.get_config().threads)"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        environment = {**os.environ, name: "1"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert done.stdout.strip() == "1", done.stderr


def test_a_device_of_torch_is_its_name(torch):
    with mercer.config(device=torch.device("cpu")) as settings:
        assert (settings.device, settings.engine) == ("cpu", "torch")
    with mercer.config(device=torch.device("cuda", 1)) as settings:
        assert settings.device == "cuda:1"
    for wrong in (torch.device("meta"), torch.float32, 0):
        with pytest.raises(InvalidInput, match="device="):
            mercer.config(device=wrong)
