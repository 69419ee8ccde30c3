"""Errors: what they are caught as, what they carry, and that they survive a process boundary."""

import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import mercer
from mercer import RBF, KernelRidge, Linear, NuSVC, Ordinal, SpectralClustering, Spectrum, errors
from mercer.solvers import SMO, BoxQP


@pytest.mark.parametrize(
    ("name", "bases"),
    [
        ("InvalidInput", (ValueError,)),
        ("NotAKernel", (errors.InvalidInput, ValueError)),
        ("NotPositiveDefinite", (np.linalg.LinAlgError, ValueError)),
        ("NotSeparable", (ValueError,)),
        ("MemoryBudgetExceeded", (MemoryError,)),
        ("ModelFileError", (ValueError,)),
        ("ClusterError", (RuntimeError,)),
    ],
)
def test_family(name, bases):
    cls = getattr(errors, name)
    assert issubclass(cls, errors.MercerError)
    for base in bases:
        assert issubclass(cls, base)


def test_a_warning_scikit_learn_users_know():
    assert issubclass(errors.NotConverged, ConvergenceWarning)
    assert not issubclass(errors.NotConverged, errors.MercerError)


@pytest.mark.parametrize(
    ("error", "carried"),
    [
        (errors.NotAKernel("m", counterexample=[1, 2]), {"counterexample": [1, 2]}),
        (errors.NotPositiveDefinite("m", -0.5), {"smallest_eigenvalue": -0.5}),
        (errors.NotSeparable("m", certificate=(1,)), {"certificate": (1,)}),
        (errors.MemoryBudgetExceeded("m", 10.7, 5), {"needed": 10, "allowed": 5}),
        (errors.InvalidInput("m"), {}),
        (errors.ModelFileError("m"), {}),
        (errors.ClusterError("m"), {}),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_they_carry_survives_pickling(error, carried):
    for again in (error, pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error) and str(again) == "m"
        for name, value in carried.items():
            assert getattr(again, name) == value


def test_every_error_is_listed_and_documented():
    public = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__ == errors.__name__
        and name[0] != "_"
    }
    assert public == set(errors.__all__)
    assert all(getattr(errors, n).__doc__ for n in public)


def test_defaults():
    assert errors.NotAKernel("m").counterexample is None
    assert errors.NotPositiveDefinite("m").smallest_eigenvalue is None
    assert errors.MemoryBudgetExceeded("m").needed == 0


def test_a_refusal_keeps_its_name_and_its_text_apart():
    error = errors.refusal("Vectors", "X: is odd.")
    for again in (error, pickle.loads(pickle.dumps(error))):
        assert str(again) == "Vectors: X: is odd." and isinstance(again, errors.InvalidInput)
        assert errors.said(again, "Table", "Vectors") == "X: is odd."
        assert errors.said(again, "Table") == errors.said(again) == str(again)
    plain = errors.InvalidInput("Vectors: X is odd.")
    assert errors.said(plain, "Vectors", "") == str(plain)


def test_no_message_is_cut_to_be_said_by_another():
    cuts = re.compile(r"""removeprefix\(f?["'][^"']*: ["']\)|partition\(["']: ["']\)""")
    source = Path(errors.__file__).parent
    found = [file for file in source.rglob("*.py") if cuts.search(file.read_text())]
    assert not found, "keep name and text apart: errors.refusal and errors.said"


def test_a_solver_speaks_in_the_name_of_the_model_that_asks_it():
    A = np.random.default_rng(0).standard_normal((40, 40))
    y = np.where(A[0] < 0, 1.0, -1.0)
    box = (-y, np.minimum(0.0, 10.0 * y), np.maximum(0.0, 10.0 * y), (0.0,))
    problem = BoxQP((A + A.T) / 2, *box)
    with pytest.raises(errors.NotPositiveDefinite, match=r"^SMO: the matrix is not"):
        SMO().solve(problem)
    with (
        errors.speaking_for("SVC"),
        pytest.raises(ValueError, match=r"^SVC: the matrix is not"),
    ):
        SMO().solve(problem)
    few = SMO(tol=1e-9, max_iter=1).solve(replace(problem, K=A @ A.T))
    assert few.message == f"SMO: {few.extra['text']}"
    assert few.extra["text"].startswith(few.extra["why"] + " (KKT violation")


@pytest.mark.parametrize(
    "warn",
    [
        lambda: Spectrum(9).fit_params(["ab", "b"]),
        lambda: Ordinal().fit_params(["low", "high", "middle"]),
        lambda: KernelRidge(Spectrum(9)).fit(["ab", "b"], [0.0, 1.0]),
        lambda: SpectralClustering(2, RBF(1.0)).fit_predict([[0.0], [1.0], [99.0], [999.0]]),
    ],
    ids=["kernel", "categories", "model", "through scikit-learn"],
)
def test_a_warning_names_the_line_of_the_user(warn):
    with pytest.warns(UserWarning) as seen:
        warn()
    assert {w.filename for w in seen} == {__file__}


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 1 / 3, 9999.6, 54321.7, 123456.7, 1e9 / 3, 2e-9])
def test_figures_have_four_digits_or_are_whole(value):
    for x in (value, -value):
        text = errors.figure(x)
        assert float(text) == pytest.approx(x, rel=5.1e-4)
        digits = text.lstrip("-").partition("e")[0].replace(".", "").lstrip("0")
        assert len(digits) <= 4 or text.lstrip("-").isdigit()
        assert "e" not in text or not 1e-4 <= abs(x) < 1e7


def test_a_kernel_for_people_has_four_digits():
    kernel = RBF(2**-0.5) * Linear() + RBF(np.array([1 / 3, 2.0])).on([0, 12345])
    assert "0.7071067811865476" in repr(kernel) and "0.7071)" in str(kernel)
    assert "0.3333, 2" in str(kernel) and "12345" in str(kernel)
    assert str(RBF(0.5)) == repr(RBF(0.5))  # what is short stays
    assert errors.with_figures("on('x1.23456789')") == "on('x1.23456789')"
    model = NuSVC(kernel=RBF(2**-0.5), nu=0.5)
    with pytest.raises(errors.NotSeparable, match=r"feature space of RBF\(length_scale=0\.7071\)"):
        model.fit(np.ones((6, 1)), [0, 1] * 3)


@pytest.mark.parametrize("cls", [errors.InvalidInput, errors.ModelFileError, errors.NotConverged])
def test_a_long_value_in_a_message_is_cut_and_the_cure_kept(cls):
    message = f"KernelRidge: alpha={'x' * 4_000_000!r}; give a number ≥ 0."
    for error in (cls(message), pickle.loads(pickle.dumps(cls(message)))):
        text = str(error)
        assert len(text) <= 2000
        assert text.startswith("KernelRidge: alpha='xxx") and text.endswith("; give a number ≥ 0.")
        assert "characters left out" in text
    assert str(cls("short")) == "short"


def test_kernels_in_messages_have_four_digits():
    X = 1e200 * np.arange(6.0).reshape(3, 2)
    with pytest.raises(errors.InvalidInput, match=r"^Exponential\(length_scale=0\.3333\): k\("):
        mercer.Exponential(1 / 3)(X)
    with (
        mercer.config(memory="20kB"),
        pytest.raises(errors.MemoryBudgetExceeded, match=r"RBF\(length_scale=0\.3333\)"),
    ):
        mercer.operators.Gram(mercer.RBF(1 / 3), np.zeros((9000, 2))) @ np.zeros(9000)
    for alpha, shown in ((-1 / 3, "-0.3333"), ([-1 / 3], "[-0.3333]")):
        match = f"alpha={re.escape(shown)} is negative"
        with pytest.raises(errors.InvalidInput, match=match):
            mercer.KernelRidge(alpha=alpha).fit(np.eye(3), [1.0, 2.0, 3.0])
