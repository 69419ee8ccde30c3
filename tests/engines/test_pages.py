"""Freed tiles stay with the process."""

import os
import subprocess
import sys

import pytest

CODE = """
import resource
import numpy as np
from mercer.engines.pages import keep_pages
if {keep}:
    keep_pages()
    keep_pages()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(200):
    np.ones(2**17)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(os, "confstr"), reason="not a Unix")
def test_tiles_of_a_worker_are_not_cleared_anew():
    if "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""):
        pytest.skip("no glibc")
    paths = os.pathsep.join(sys.path)
    told = {**os.environ, "PYTHONPATH": paths, "MALLOC_TRIM_THRESHOLD_": "65536"}

    def faults(keep):
        code = CODE.format(keep=keep)
        out = subprocess.run(
            [sys.executable, "-c", code], env=told, capture_output=True, check=True, text=True
        )
        return int(out.stdout)

    assert faults(True) < 2000 < faults(False)
