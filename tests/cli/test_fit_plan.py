"""``mercer fit --plan``: a table on stdout, no file, no fit."""

import pytest


@pytest.mark.parametrize(
    ("options", "owner"),
    [
        (["--target", "price", "--model", "ridge"], "KernelRidge: cholesky."),
        (["--target", "price", "--no-tune"], "KernelRidge: eigen."),
        (["--target", "price", "--kernel", "linear", "--alpha", "2"], "KernelRidge: primal."),
        (["--target", "town", "--model", "svc"], "SVC: smo."),
        (["--target", "town", "--model", "ridge"], "KernelRidgeClassifier: cholesky."),
        (["--target", "price", "--kernel", "auto"], "KernelRidge: cholesky."),
        (["--target", "price", "--kernel", "columns"], "KernelRidge: cholesky."),
    ],
)
def test_it_prints_the_plan_and_stops(mercer, houses, tmp_path, monkeypatch, options, owner):
    monkeypatch.setattr("mercer.KernelRidge.fit", lambda *a, **k: pytest.fail("fitted"))
    before = sorted(tmp_path.iterdir())
    outcome = mercer("fit", houses, *options, "--plan")
    assert outcome.code == 0 and outcome.err == "", outcome
    assert outcome.out.startswith(owner), outcome
    assert "<- taken" in outcome.out and "budget" in outcome.out
    tuned = "--no-tune" not in options and "--alpha" not in options
    assert ("The search for the kernel's parameters" in outcome.out) == tuned
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("target", ["price", "town"])
def test_a_feature_machine_says_what_it_would_learn_from(mercer, houses, monkeypatch, target):
    monkeypatch.setattr("mercer.KernelRidge.fit", lambda *a, **k: pytest.fail("fitted"))
    for options in ([], ["--model", "features"], ["--time", "2.5"]):
        outcome = mercer("fit", houses, "--target", target, "--plan", *options)
        assert outcome.code == 0 and outcome.err == "", outcome
        owner = "TableRegressor" if target == "price" else "TableClassifier"
        assert outcome.out.startswith(f"{owner}: metrics. "), outcome
        assert "3 folds of 60 rows" in outcome.out and "all 60 rows" in outcome.out
        assert ("no further one after 2.5 s" in outcome.out) == ("--time" in options)
        assert "At most 16 are kept" in outcome.out and "<- taken" in outcome.out


def test_an_output_that_is_named_is_not_written(mercer, houses, tmp_path):
    path = tmp_path / "m.mercer"
    assert mercer("fit", houses, "--target", "price", "-o", path, "--plan").code == 0
    assert not path.exists()


def test_without_it_an_output_is_asked_for(mercer, houses, capsys):
    outcome = mercer("fit", houses, "--target", "price")
    assert outcome.code == 2 and "-o" in outcome.err
