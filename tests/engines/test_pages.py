"""Freed tiles stay with the process."""

import os
import subprocess
import sys

import pytest

# At some sizes of what is held, a heap of a thread holds nothing but the tile that is freed.
CODE = """
import resource, threading
import numpy as np
from mercer.threads import keep_pages
if {keep}:
    keep_pages()
    keep_pages()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    held, worst = [], 0
    for _ in range(140):
        held.append(np.ones(2**16))
        before = faults()
        for _ in range(20):
            np.ones(2**17)
        worst = max(worst, faults() - before)
    print(worst)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "confstr"), reason="glibc alone gives memory back this way")
def test_tiles_of_a_worker_are_not_cleared_anew():
    if "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""):
        pytest.skip("glibc alone gives memory back this way")
    paths = os.pathsep.join(sys.path)
    told = {**os.environ, "PYTHONPATH": paths, "MALLOC_TRIM_THRESHOLD_": "65536"}

    def faults(keep):
        code = CODE.format(keep=keep)
        out = subprocess.run(
            [sys.executable, "-c", code], env=told, capture_output=True, check=True, text=True
        )
        return int(out.stdout)

    assert faults(True) < 2000 < faults(False)  # a tile has 256 pages
