"""bayes_rule: no other rule makes fewer errors; known cases, tiny densities, costs, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import log_softmax
from scipy.stats import beta, multivariate_normal, norm, poisson, uniform
from sklearn.base import clone, is_classifier
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import mercer
from mercer.errors import InvalidInput
from mercer.selection import bayes_rule

MEANS = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
PRIORS = np.array([0.5, 0.3, 0.2])


def three(covariances=(1.0, 1.0, 1.0)):
    return [multivariate_normal(m, c) for m, c in zip(MEANS, covariances, strict=True)]


def sample(n, densities, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(len(PRIORS), n, p=PRIORS)
    X = np.empty((n, 2))
    for c, density in enumerate(densities):
        X[y == c] = density.rvs((y == c).sum(), random_state=rng)
    return X, y


@pytest.mark.parametrize("covariances", [(1.0, 1.0, 1.0), (0.3, 1.0, 3.0)], ids=["same", "own"])
def test_no_other_rule_makes_fewer_errors(covariances):
    densities = three(covariances)
    X, y = sample(2000, densities)
    new, truth = sample(20000, densities, seed=1)
    rule = bayes_rule(densities, PRIORS)
    others = [
        LinearDiscriminantAnalysis(),
        QuadraticDiscriminantAnalysis(),
        LogisticRegression(),
        KNeighborsClassifier(15),
        DecisionTreeClassifier(max_depth=5, random_state=0),
    ]
    least = rule.risk(new, truth)
    for other in others:
        assert least <= (other.fit(X, y).predict(new) != truth).mean() + 0.002
    for tilt in np.random.default_rng(2).normal(0, 0.5, (20, 3)):  # other borders of the same kind
        values = rule.predict_log_proba(new) + tilt
        assert least <= (values.argmax(1) != truth).mean() + 0.002
    assert rule.risk(new) == pytest.approx(least, abs=0.01)  # what it expects of itself
    assert least == pytest.approx(1 - rule.score(new, truth))


def test_least_probability_of_error_in_one_dimension():
    """Against the integral of the smaller joint density, and against all other thresholds."""
    rule = bayes_rule([norm(0, 1), norm(2, 1)], [0.7, 0.3])

    def error(t):
        return 0.7 * norm(0, 1).sf(t) + 0.3 * norm(2, 1).cdf(t)

    border = 1 + np.log(7 / 3) / 2
    assert rule.predict([border - 1e-9, border + 1e-9]).tolist() == [0, 1]
    assert all(error(border) <= error(t) for t in np.linspace(-3, 4, 101))
    grid = np.linspace(-12, 14, 26001)
    both = 0.7 * norm(0, 1).pdf(grid), 0.3 * norm(2, 1).pdf(grid)
    weights = both[0] + both[1]
    expected, _ = quad(lambda x: min(0.7 * norm(0, 1).pdf(x), 0.3 * norm(2, 1).pdf(x)), -12, 14)
    assert rule.risk(grid, sample_weight=weights) == pytest.approx(expected, abs=1e-4)
    assert error(border) == pytest.approx(expected, abs=1e-6)


def test_is_discriminant_analysis_with_the_true_parameters():
    X, y = sample(50, three())
    lda = LinearDiscriminantAnalysis(solver="lsqr", priors=PRIORS).fit(X, y)
    densities = [multivariate_normal(m, lda.covariance_) for m in lda.means_]
    rule = bayes_rule(densities, PRIORS)
    new = np.random.default_rng(3).normal(0, 2, (200, 2))
    assert np.allclose(rule.predict_proba(new), lda.predict_proba(new), atol=1e-9)
    qda = QuadraticDiscriminantAnalysis(priors=PRIORS, store_covariance=True).fit(X, y)
    rule = bayes_rule(
        [multivariate_normal(m, c) for m, c in zip(qda.means_, qda.covariance_, strict=True)],
        PRIORS,
    )
    assert np.allclose(rule.predict_proba(new), qda.predict_proba(new), atol=1e-9)
    assert (rule.predict(new) == qda.predict(new)).all()


def test_tiny_densities():
    far = np.array([[100.0, 3.0], [-1e4, 1e4], [1e100, 0.0]])
    rule = bayes_rule([multivariate_normal([0, 0]), multivariate_normal([1, 0])])
    P = rule.predict_proba(far[:2])
    assert np.allclose(P, [[0, 1], [1, 0]]) and multivariate_normal([0, 0]).pdf(far[0]) == 0
    assert rule.decision_function(far[:1])[0] == pytest.approx(99.5)
    plain = bayes_rule([multivariate_normal([0, 0]).logpdf, multivariate_normal([1, 0]).logpdf],
                       log=True)  # fmt: skip
    assert np.allclose(plain.predict_log_proba(far[:2]), rule.predict_log_proba(far[:2]))


def test_where_all_densities_are_zero_the_priors_decide():
    rule = bayes_rule([uniform(0, 1), uniform(0.5, 1)], [0.4, 0.6])
    assert np.allclose(rule.predict_proba([5.0]), [[0.4, 0.6]])
    assert rule.predict([5.0, 0.2, 0.7, 1.2]).tolist() == [1, 0, 1, 1]
    assert np.allclose(rule.predict_proba([0.2]), [[1, 0]])
    odds = rule.decision_function([0.2, 5.0, 1.2])
    assert odds.tolist() == [-np.inf, np.log(0.6) - np.log(0.4), np.inf]
    never = bayes_rule([uniform(0, 1), uniform(2, 1)], [1.0, 0.0])
    assert never.predict([0.5, 2.5, 9.0]).tolist() == [0, 0, 0]


def test_infinite_densities():
    spike = beta(0.5, 0.5)  # infinite at 0 and 1
    rule = bayes_rule([uniform(0, 1), spike, spike], [0.5, 0.3, 0.2])
    assert np.allclose(rule.predict_proba([0.0]), [[0, 0.6, 0.4]])
    assert np.allclose(
        bayes_rule([uniform(0, 1), spike], [1.0, 0.0]).predict_proba([0.0]), [[1, 0]]
    )


def test_ties_go_to_the_first():
    rule = bayes_rule({"b": norm(0, 1), "a": norm(0, 1)})
    assert rule.predict([0.3]).tolist() == ["b"] and rule.classes_.tolist() == ["b", "a"]
    assert rule.decision_function([0.3])[0] == 0
    costly = bayes_rule([norm(0, 1), norm(0, 1)], costs=[[0, 1], [1, 0]])
    assert costly.predict([0.3])[0] == 0


def test_costs():
    """The border moves to where the expected costs are equal."""
    free = bayes_rule([norm(0, 1), norm(2, 1)])
    same = bayes_rule([norm(0, 1), norm(2, 1)], costs=[[0, 1], [1, 0]])
    x = np.linspace(-3, 5, 101)
    assert (free.predict(x) == same.predict(x)).all()
    miss = bayes_rule([norm(0, 1), norm(2, 1)], costs=[[0, 1], [10, 0]])
    border = 1 - np.log(10) / 2
    assert miss.predict([border - 1e-6, border + 1e-6]).tolist() == [0, 1]
    assert ((miss.decision_function(x) > 0) == (miss.predict(x) == 1)).all()
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20000)
    points = rng.normal(2.0 * y, 1)
    least = miss.risk(points, y)
    for t in np.linspace(-2, 3, 51):
        decided = points > t
        cost = np.where(y == 1, 10 * ~decided, decided).mean()
        assert least <= cost + 0.01
    assert miss.risk(points) == pytest.approx(least, rel=0.05)
    refuse = bayes_rule([norm(0, 1), norm(2, 1), norm(9, 1)], costs=np.ones((3, 3)))
    assert (refuse.predict(x) == 0).all()


def test_kinds_of_densities():
    rng = np.random.default_rng(0)
    A, B = rng.normal(0, 1, (300, 2)), rng.normal(3, 1, (300, 2))
    new = np.r_[A[:50], B[:50]]
    truth = np.repeat(["a", "b"], 50)
    for density in (KernelDensity(bandwidth=0.5), GaussianMixture(2, random_state=0)):
        a, b = clone(density).fit(A), clone(density).fit(B)
        rule = bayes_rule({"a": a, "b": b})
        assert rule.risk(new, truth) < 0.06
        expected = np.exp(log_softmax(np.c_[a.score_samples(new), b.score_samples(new)], axis=1))
        assert np.allclose(rule.predict_proba(new), expected)
    counts = bayes_rule([poisson(2), poisson(9)])
    assert counts.predict([0, 3, 12]).tolist() == [0, 0, 1]
    words = bayes_rule([lambda X: [0.9 if "e" in s else 0.1 for s in X],
                        lambda X: [0.2 if "e" in s else 0.8 for s in X]])  # fmt: skip
    assert words.predict(["tree", "cat"]).tolist() == [0, 1]
    column = bayes_rule([norm(0, 1), norm(2, 1)])
    assert column.predict([[0.0], [2.0]]).tolist() == [0, 1]  # one column is one variable
    assert bayes_rule([multivariate_normal([0, 0])] * 2).predict([[0.0, 1.0]]).tolist() == [0]


def test_is_a_classifier():
    rule = bayes_rule([norm(0, 1), norm(2, 1)], [0.7, 0.3])
    assert is_classifier(rule) and "BayesRule" in repr(rule)
    again = clone(rule).set_params(priors=[0.3, 0.7])
    assert again.predict([1.1]).tolist() == [1] and rule.predict([1.1]).tolist() == [0]
    P = rule.predict_proba(np.linspace(-9, 9, 50))
    assert np.allclose(P.sum(1), 1) and (P >= 0).all()
    assert bayes_rule([norm()]).predict([3.0]).tolist() == [0]
    assert bayes_rule({True: norm(0), False: norm(3)}).predict([3.0]).tolist() == [False]


@pytest.mark.parametrize(
    "names",
    [(0, "b"), ((0, 1), (2, 3)), (0, 1.5), (None, "a"), ("a", "bcd"), (3, 7), (False, True)],
    ids=str,
)
def test_decisions_are_the_keys_that_were_given(names):
    first, second = names
    priors = dict(zip(names, (0.5, 0.5), strict=True))
    rule = bayes_rule({first: norm(0, 1), second: norm(9, 1)}, priors)
    found = rule.predict([0.0, 9.0])
    assert found.shape == (2,) and found.tolist() == [first, second]
    assert [type(v) for v in found.tolist()] == [type(first), type(second)]
    truth = [first, first]
    assert rule.risk([0.0, 9.0], truth) == 0.5 == rule.score([0.0, 9.0], truth)


def test_vectors_of_parameters_are_not_paired_with_points():
    found = [norm([0.0, 5.0], 1)]
    if hasattr(stats, "Normal"):  # SciPy 1.15
        found.append(stats.Normal(mu=np.array([0.0, 5.0])))
    for density in found:
        with pytest.raises(InvalidInput, match="vectors of parameters"):
            bayes_rule([density, norm(2, 1)]).predict_proba([0.0, 0.0])
    rule = bayes_rule([norm([0.0], 1), norm(2, [1.0])])
    assert rule.predict([0.0, 2.0]).tolist() == [0, 1]


def test_points_of_every_form():
    bells = bayes_rule([lambda x: np.exp(-(x**2) / 2), lambda x: np.exp(-((x - 2) ** 2) / 2)])
    assert bells.predict([0.0, 2.0]).tolist() == [0, 1] and bells.predict([]).shape == (0,)
    for bad in (0.0, np.float64(0.0), np.array(0.0), None):
        with pytest.raises(InvalidInput, match="sequence of points"):
            bells.predict(bad)
    rng = np.random.default_rng(0)
    fitted = [KernelDensity().fit(rng.normal(m, 1, (50, 1))) for m in (0, 4)]
    assert bayes_rule(fitted).predict([0.2, 4.0]).tolist() == [0, 1]
    assert bayes_rule(fitted).predict([[0.2], [4.0]]).tolist() == [0, 1]


def test_goes_where_learners_go(tmp_path):
    """Nothing is learned: folds, clones and scores of scikit-learn see the rule as it is."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(0, 1, (30, 1)), rng.normal(4, 1, (30, 1))]
    y = np.repeat([0, 1], 30)
    fitted = [KernelDensity().fit(X[y == c]) for c in (0, 1)]
    assert cross_val_score(bayes_rule(fitted), X, y).min() > 0.8
    rule = bayes_rule([norm(0, 1), norm(loc=2)], [0.3, 0.7])
    assert rule.fit(X, y) is rule
    assert repr(rule) == "BayesRule({0: norm(0, 1), 1: norm(loc=2)}, priors=[0.3, 0.7])"
    with pytest.raises(InvalidInput, match="class 0 is -1 < 0"):
        bayes_rule([lambda x: x - 1, norm()]).predict([0.0])
    with pytest.raises(InvalidInput, match="not on the list"):
        mercer.save(rule, tmp_path / "rule.mercer")


@pytest.mark.parametrize(
    ("densities", "options", "word"),
    [
        ([], {}, "no densities"),
        ("norm", {}, "str"),
        (norm(0, 1), {}, "give a list"),
        ([norm(), 3], {}, "int is no density"),
        ([norm(), norm()], {"priors": [0.5]}, "sum one"),
        ([norm(), norm()], {"priors": [0.5, 0.6]}, "sum"),
        ([norm(), norm()], {"priors": [1.5, -0.5]}, "≥ 0"),
        ([norm(), norm()], {"priors": [np.nan, 1]}, "priors"),
        ([norm(), norm()], {"priors": "ab"}, "priors"),
        ({"a": norm(), "b": norm()}, {"priors": {"a": 0.5, "c": 0.5}}, "one for each class"),
        ([norm(), norm()], {"costs": [0, 1]}, "2 × 2"),
        ([norm(), norm()], {"costs": [[0, np.inf], [1, 0]]}, "costs"),
        ([norm(), norm()], {"costs": "high"}, "costs"),
    ],
)
def test_refusals(densities, options, word):
    with pytest.raises(InvalidInput, match=word):
        bayes_rule(densities, **options)


@pytest.mark.parametrize(
    ("density", "X", "word"),
    [
        (norm(), [[1.0, 2.0]], "one number a point"),
        (lambda X: np.full(len(X), -1.0), [1.0, 2.0], "log=True"),
        (lambda X: np.full(len(X), np.nan), [1.0, 2.0], "NaN at point 0"),
        (lambda X: 1.0, [1.0, 2.0], "one number a point"),
    ],
)
def test_densities_that_do_not_fit(density, X, word):
    with pytest.raises(InvalidInput, match=word):
        bayes_rule([density, density]).predict(X)


def test_labels_that_are_no_class():
    with pytest.raises(InvalidInput, match="one of the classes"):
        bayes_rule([norm(), norm(1)]).risk([1.0, 2.0], [0, 5])
    with pytest.raises(InvalidInput, match="one of the classes"):
        bayes_rule([norm(), norm(1)]).risk([1.0, 2.0], [0])
