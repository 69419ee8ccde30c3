"""A forked child fits what its parent has fitted: it has none of the parent's threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import os, sys, warnings
import numpy as np
from mercer.testing import estimator_examples
from mercer.testing.examples import VectorStudy
from mercer.threads import single_threaded_blas

warnings.simplefilter("ignore")
# k-means by scikit-learn, threads of ours, compiled loops
names = ["SpectralClustering", "Prototypes-kmeans", "Nystroem-means"]
names += ["KernelRidge", "SVC", "KernelKMeans"]
studies = [VectorStudy(example) for example in estimator_examples() if example.name in names]
answers = [study.answers(study.fit()) for study in studies]
with single_threaded_blas():  # as another thread would be while this one forks
    child = os.fork()
if child == 0:
    import faulthandler
    faulthandler.dump_traceback_later(60, exit=True)
    if single_threaded_blas.limit is not None or single_threaded_blas._lock.locked():
        os._exit(2)
    for study, answer in zip(studies, answers):
        for name, value in study.answers(study.fit()).items():
            if not np.array_equal(value, answer[name], equal_nan=value.dtype.kind == "f"):
                print(study.example.name, "differs", flush=True)
                os._exit(3)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(studies) == len(names))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_estimators_after_a_fork():
    more = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "0 True\n", done.stdout + done.stderr
