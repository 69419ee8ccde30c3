"""Short names of kernels, defaults and parameters beside those of scikit-learn's estimators.

What differs stands on the page for users of scikit-learn, and nothing else does: the tables there
are read here and compared with what is found.
"""

import inspect
from pathlib import Path

import numpy as np
import pytest
import sklearn.cluster
import sklearn.decomposition
import sklearn.gaussian_process
import sklearn.kernel_approximation
import sklearn.kernel_ridge
import sklearn.neighbors
import sklearn.svm
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

import mercer
from mercer.errors import InvalidInput
from mercer.misspelt import PARAMETERS

RELEASE = tuple(map(int, sklearn.__version__.split(".")[:2]))
PAGE = (Path(__file__).parents[2] / "docs/guide/scikit-learn.md").read_text(encoding="utf-8")
MODULES = (
    sklearn.svm,
    sklearn.kernel_ridge,
    sklearn.decomposition,
    sklearn.kernel_approximation,
    sklearn.cluster,
    sklearn.neighbors,
    sklearn.gaussian_process,
)
TWINS = {
    name: (getattr(mercer, name), next(vars(m)[name] for m in MODULES if name in vars(m)))
    for name in mercer.__all__
    if any(name in vars(m) for m in MODULES)
    and isinstance(getattr(mercer, name), type)
    and hasattr(getattr(mercer, name), "fit")
}
MACHINES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
PAIRWISE = ("KernelRidge", "KernelPCA", "Nystroem")
WORDS = (
    *("linear", "poly", "polynomial", "rbf", "laplacian", "cosine"),
    *("sigmoid", "chi2", "additive_chi2", "precomputed"),
)


def rows(standardised):
    """Return rows to fit, rows to predict, a target and classes."""
    X, classes = load_wine(return_X_y=True)
    X, classes = np.ascontiguousarray(X[::3, [0, 1, 2, 5]]), classes[::3]
    target = X[:, 1] * X[:, 0] / 10
    if standardised:
        X = (X - X[:40].mean(axis=0)) / X[:40].std(axis=0) + 1.0  # the origin is outside
    return X[:40], X[40:], target[:40], classes[:40] > 0


def answer(name, cls, word, X, new, y, classes):
    """Return what an estimator with a kernel of this name answers at new rows."""
    if word == "precomputed":
        new, X = (rbf_kernel(A, X, gamma=1e-3) for A in (new, X))
    tight = {"tol": 1e-8} if name in MACHINES else {}
    if name in ("SVC", "NuSVC"):
        options = {"nu": 0.1} if name == "NuSVC" else {}
        return cls(kernel=word, **options, **tight).fit(X, classes).decision_function(new)
    if name in ("SVR", "NuSVR", "KernelRidge"):
        return cls(kernel=word, **tight).fit(X, y).predict(new)
    if name == "OneClassSVM":
        return cls(kernel=word, **tight).fit(X).decision_function(new)
    if name == "KernelPCA":
        Z = cls(3, kernel=word).fit(X).transform(new)
        return Z @ Z.T
    if name == "Nystroem":
        model = cls(kernel=word, n_components=len(X), random_state=0).fit(X)
        return model.transform(new) @ model.transform(X).T
    raise AssertionError(name)


def outcome(name, word, standardised):
    """Return how a name of a kernel means what it means in scikit-learn."""
    ours, theirs = TWINS[name]
    X, new, y, classes = rows(standardised)
    if word in ("chi2", "additive_chi2"):
        X, new = np.abs(X), np.abs(new)
    try:
        expected = answer(name, theirs, word, X, new, y, classes)
    except (TypeError, ValueError):  # a word that scikit-learn does not take here
        return "not there"
    try:
        found = answer(name, ours, word, X, new, y, classes)
    except InvalidInput as error:
        assert word in str(error) and ("precomputed" in str(error) or "'rbf'" in str(error))
        return "refused"
    # without a vector inside the margin the offset of NuSVC is any of an interval
    tol = 1e-2 if name == "NuSVC" else 1e-4
    same = np.allclose(found, expected, rtol=tol, atol=tol * np.abs(expected).max())
    return "the same" if same else "differs"


def summary(name, word):
    if word == "precomputed":
        return outcome(name, word, False)
    scaled, raw = outcome(name, word, True), outcome(name, word, False)
    if scaled == raw:
        return scaled
    return f"{scaled} on standardised columns" if raw == "differs" else f"{scaled}, {raw}"


def table(title):
    """Return the rows of the table under a title of the page."""
    text = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", [MACHINES, PAIRWISE], ids=["machines", "pairwise"])
def test_the_page_says_what_each_short_name_means(family):
    column = 1 if family is MACHINES else 2
    told = {row[0].strip('`"'): row[column].split(":")[0] for row in table("Words for kernels")}
    assert set(told) == set(WORDS)
    for name in family:
        found = {word: summary(name, word) for word in WORDS}
        mine = {word: found[word] for word in WORDS if found[word] != "not there"}
        assert mine == {word: told[word] for word in mine}, name


def test_poly_is_the_machine_it_is_in_scikit_learn():
    X, y = load_wine(return_X_y=True)
    ours, theirs = mercer.SVC("poly").fit(X, y), sklearn.svm.SVC(kernel="poly").fit(X, y)
    assert ours.score(X, y) == theirs.score(X, y) < 1.0
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def test_the_offset_of_poly_is_that_of_the_family():
    for name in MACHINES:
        assert TWINS[name][0]("poly").set_params(kernel__degree=2).kernel.offset == 0.0
    X, _, y, _ = rows(True)
    assert mercer.KernelRidge("poly").fit(X, y).kernel_.offset == 1.0
    assert mercer.KernelRidge("poly").set_params(kernel__degree=2).kernel.offset == 1.0
    found = mercer.search(mercer.SVR("poly"), {"C": [0.1, 1.0]}, X, y, cv=3)
    again = mercer.SVR("poly", C=found.best_params_["C"]).fit(X, y)
    np.testing.assert_allclose(found.best_estimator_.predict(X), again.predict(X))


def test_clusters_are_those_of_scikit_learn_with_the_same_kernel():
    X, _ = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    theirs = sklearn.cluster.SpectralClustering(3, affinity="rbf", gamma=0.05, random_state=0)
    ours = mercer.SpectralClustering(3, mercer.RBF((1 / 0.1) ** 0.5), random_state=0)
    assert adjusted_rand_score(theirs.fit_predict(X), ours.fit_predict(X)) == 1.0


def defaults(cls):
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def said(value):
    return "`" + (f'"{value}"' if isinstance(value, str) else str(value)) + "`"


@pytest.mark.parametrize("name", sorted(TWINS))
def test_the_page_lists_every_default_that_differs(name):
    mine, others = (defaults(cls) for cls in TWINS[name])
    # −1 is taken as no limit here too
    both = [n for n in mine if n in others and mine[n] != others[n] and others[n] != -1]
    found = [[f"`{name}`", f"`{n}`", said(others[n]), said(mine[n])] for n in both]
    told = [row[:4] for row in table("Defaults that differ") if row[0] == f"`{name}`"]
    if RELEASE < (1, 9):  # "deprecated" since then, and False before, as here
        told = [row for row in told if row[1:3] != ["`probability`", said("deprecated")]]
    assert sorted(told) == sorted(found)


@pytest.mark.parametrize("name", sorted(TWINS))
def test_parameters_that_only_scikit_learn_has_are_explained(name):
    mine, others = (defaults(cls) for cls in TWINS[name])
    for n in others.keys() - mine.keys():
        text = ""
        try:
            TWINS[name][0](**{n: others[n]})
        except TypeError as error:
            text = str(error)
        assert text.startswith(f"{name}: there is no parameter {n!r} here; ")
        if n in PARAMETERS and "kernel" in mine:
            assert "Coming from scikit-learn" in text, text
