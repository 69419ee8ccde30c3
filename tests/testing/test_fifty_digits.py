"""A sample of the campaign of tools/torture/certificates.py, and what its judge must notice."""

import json
from dataclasses import replace

import numpy as np
import pytest

import mercer
from tools.torture import __main__ as torture, certificates
from tools.torture.certificates import KINDS, Case, _compared, exact, gram


def test_certificates_hold_in_fifty_digits():
    ended = list(certificates.run(len(KINDS), 2))
    assert not [why for _, end, why in ended if end == "fault"]
    assert sum(end == "tight" for _, end, _ in ended) > len(KINDS) // 2
    assert sum(end == "unknown" for _, end, _ in ended) < 3


def case(name, model):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((14, 2))
    y = X[:, 0] + 0.5 * rng.standard_normal(14)
    y = np.where(y > 0, 1, 0) if KINDS[name][0] != "numbers" else y
    return Case(name, model.fit(X, y), X, y, None)


@pytest.mark.parametrize(
    ("name", "model", "field"),
    [
        ("SVR", mercer.SVR(mercer.RBF(), tol=1e-2), "gap"),
        ("SVC", mercer.SVC(mercer.RBF(), tol=1e-2), "gap"),
        (
            "KernelLogisticRegression",
            mercer.KernelLogisticRegression(mercer.RBF(), tol=1e-2),
            "gap",
        ),
        ("KernelRidge, cg", mercer.KernelRidge(mercer.RBF(), 1e-6, solver="cg"), "residual"),
        (
            "GaussianProcessRegressor",
            mercer.GaussianProcessRegressor(mercer.RBF(), 0.1),
            "residual",
        ),
    ],
)
def test_what_is_understated_or_stopped_early_is_noticed(name, model, field):
    fitted = case(name, model)
    recompute = KINDS[name][2]
    K = gram(model.kernel_, fitted.X, fitted.X)
    assert _compared(fitted, recompute(fitted, K))[0] == "tight"
    # an answer that is off by a part in a hundred, with the certificate that it had
    away = np.linspace(0.99, 1.01, np.size(model.dual_coef_)).reshape(np.shape(model.dual_coef_))
    if field == "gap" and name.startswith("SV"):
        model.function_.coef[...] *= away.reshape(np.shape(model.function_.coef))
    else:
        model.dual_coef_ = model.dual_coef_ * away
    true = recompute(fitted, K)
    assert _compared(fitted, true)[0] == "fault"
    # told honestly it is none, unless the model goes on to say that it has converged
    honest = replace(
        model.solution_, **{field: 1.01 * float(getattr(true, field))}, converged=False
    )
    if true.primal is not None:
        honest = replace(honest, primal=float(true.primal), gap=1.01 * float(true.gap))
    model.solution_ = honest
    assert _compared(fitted, true)[0] == "open"
    model.solution_ = replace(honest, converged=True)
    model.set_params(tol=1e-12)
    assert _compared(fitted, recompute(fitted, K))[0] == "fault"


def test_numbers_of_the_judge_are_exact():
    assert str(exact(np.array([0.1]))[0])[:24] == "0.1000000000000000055511"
    A, b = exact(np.array([[2.0, 1.0], [1.0, 3.0]])), exact(np.array([3.0, 5.0]))
    assert max(abs(A @ certificates.solve(A, b) - b)) < 1e-48


def test_a_campaign_counts_how_its_cases_end(capsys):
    torture._alone("certificates", 0.0, 2)
    assert json.loads(capsys.readouterr().out) == {"tight": 1}
    assert sum(part.share for part in torture.PARTS.values()) == pytest.approx(1)


def test_a_campaign_that_dies_is_a_fault():
    ends, told = torture.campaign("no such campaign", 0.0, 0)
    assert ends == {"fault": 1} and "exit code 2" in told[-1]
