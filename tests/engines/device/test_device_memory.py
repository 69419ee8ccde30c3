"""Work on a device that is full: smaller pieces first, then a clear error."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.errors import MemoryBudgetExceeded
from mercer.memory import free_memory, on_gpu, run_within_memory

torch = pytest.importorskip("torch")


class OutOfMemoryError(RuntimeError):
    """As torch calls its own."""


def test_what_is_in_main_memory_has_the_budget():
    with mercer.config(memory="123MB"):
        assert free_memory(np.zeros(3)) == free_memory(torch.zeros(3)) == 123_000_000
    assert not on_gpu(torch.zeros(3)) and not on_gpu(np.zeros(3))


def test_rows_are_cut_smaller_until_they_fit():
    done = []

    def work(rows):
        if rows.stop - rows.start > 10:
            raise OutOfMemoryError("CUDA out of memory")
        done.append(rows)

    run_within_memory(work, 100, 64, 2, "work", torch.zeros(1))
    assert [r.start for r in done] == list(range(0, 100, 8))
    assert done[-1].stop == 100


def test_too_little_for_the_fewest_rows_is_an_error_with_a_cure():
    def work(rows):
        raise OutOfMemoryError("CUDA out of memory")

    with pytest.raises(MemoryBudgetExceeded, match=r"the kernel: 4 rows.*cpu.*GB left.*numpy"):
        run_within_memory(work, 100, 64, 4, "the kernel", torch.zeros(1))


def test_other_errors_pass():
    def work(rows):
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        run_within_memory(work, 10, 5, 1, "work", torch.zeros(1))


def test_tiles_are_cut_smaller_until_they_fit(monkeypatch):
    X = torch.randn(40, 3, dtype=torch.float64)
    kernel = mercer.RBF()
    want = kernel(X)
    from mercer import memory
    from mercer.engines import tiles

    monkeypatch.setattr(memory, "LEAST_TILE", 4)
    monkeypatch.setattr(memory, "USUAL_TILE", 1600)
    monkeypatch.setattr(tiles, "DEVICE_ENTRIES", 1600)
    bound = kernel._bind(X)
    tile = bound.tile
    sizes = []

    def tight(rows, cols):
        size = (rows.stop - rows.start) * (cols.stop - cols.start)
        sizes.append(size)
        if size > 100:
            raise OutOfMemoryError("CUDA out of memory")
        return tile(rows, cols)

    bound.tile = tight
    np.testing.assert_allclose(tiles.gram(bound).numpy(), want.numpy(), rtol=1e-12)
    assert max(sizes) > 100 >= sizes[-1]
    bound = kernel._bind(X)
    bound.tile = lambda rows, cols: (_ for _ in ()).throw(OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(MemoryBudgetExceeded, match="even in small tiles"):
        tiles.gram(bound)


def test_a_gpu_that_is_not_there_is_an_error():
    count = torch.cuda.device_count()
    device = f"cuda:{count}" if count else "cuda"
    said = rf"sees {count} CUDA devices.*device='cpu'"
    with (
        mercer.config(engine="torch", device=device),
        pytest.raises(mercer.errors.InvalidInput, match=said),
    ):
        mercer.RBF()(np.zeros((2, 2)))


@pytest.mark.parametrize("device", ["gpu", "cuda:x", 0, "cuda:-1"])
def test_devices_have_names(device):
    with pytest.raises(mercer.errors.InvalidInput, match="legal: 'auto', 'cpu', 'cuda'"):
        mercer.config(device=device)
