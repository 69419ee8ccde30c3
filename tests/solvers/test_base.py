"""Solution: unwrapping, the single warning, and the plain summary."""

import dataclasses
import json
import warnings

import numpy as np
import pytest

from mercer.errors import NotConverged
from mercer.solvers import Solution


def test_unwrap_of_a_converged_solution_is_silent_and_returns_the_very_value():
    value = np.arange(3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Solution(value, converged=True).unwrap() is value


def test_unwrap_warns_exactly_once_with_the_message():
    with pytest.warns(NotConverged, match="raise max_iter") as seen:
        assert Solution(1.0, converged=False, message="stopped; raise max_iter").unwrap() == 1.0
    assert len(seen) == 1
    assert seen[0].filename == __file__


def test_unwrap_without_a_message_still_names_residual_gap_and_a_cure():
    with pytest.warns(NotConverged, match=r"7 iterations.*residual 0\.5, gap 2.*ridge"):
        Solution(1.0, converged=False, n_iter=7, residual=0.5, gap=2.0).unwrap()
    with pytest.warns(NotConverged, match="0 iterations"):
        Solution(1.0, converged=False, residual=float("nan")).unwrap()


def test_not_converged_is_scikit_learns_warning():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning):
        Solution(1.0, converged=False).unwrap()


def test_summary_is_plain_and_leaves_the_value_and_arrays_out():
    solution = Solution(
        np.zeros(5),
        converged=np.bool_(True),
        n_iter=np.int64(3),
        residual=np.float64(0.25),
        extra={
            "jitter": np.float32(0.5),
            "rank": np.int32(4),
            "residuals": np.zeros(2),
            "who": "me",
            "none": None,
            "flag": True,
            "residual": 99.0,
        },
    )
    summary = solution.summary()
    assert json.loads(json.dumps(summary)) == {
        "converged": True,
        "n_iter": 3,
        "residual": 0.25,
        "gap": None,
        "primal": None,
        "dual": None,
        "message": "",
        "jitter": 0.5,
        "rank": 4,
        "who": "me",
        "none": None,
        "flag": True,
    }
    assert all(type(v) in (bool, int, float, str, type(None)) for v in summary.values())


def test_solution_is_frozen_and_extras_are_not_shared():
    a, b = Solution(1, True), Solution(2, True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.value = 3
    a.extra["x"] = 1
    assert b.extra == {}
