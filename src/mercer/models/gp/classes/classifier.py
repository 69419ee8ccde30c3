"""Gaussian process classification: Laplace, expectation propagation or variational inference."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.estimator import accuracy
from mercer.models.gp.classes.fit import ClassifierFit
from mercer.models.gp.classes.integration import class_probabilities
from mercer.models.gp.search import TOL

TIE = 1e-9  # difference of probabilities that rounding may make


class GaussianProcessClassifier(ClassifierMixin, ClassifierFit):
    r"""Gaussian process classification: probabilities that know how little is known.

    A latent function f is a Gaussian process of covariance k, and the class of x is the second of
    two with probability p(f(x)), p the logistic function or the cumulative Gaussian. The posterior
    of f is replaced by a Gaussian, and the probability at x is the mean of p over the Gaussian
    values of f(x). Several classes have a latent function each, of the same covariance.

    The parameters of the kernel are those of largest evidence, log p(y), as the method approximates
    it. One evaluation with its gradient costs some n³ flops and two n×n matrices with Laplace's
    method and two classes, three matrices with the others, and some 3C times the flops and C + 2
    matrices with softmax of C classes.

    Parameters
    ----------
    kernel : Kernel, str, callable or None, default=None
        The prior covariance of a latent function; None is ``1.0 * RBF("median")``. Words such as
        "median" are taken from the data, and tuned from there.
    method : {"laplace", "ep", "vi"}, default="laplace"
        The approximation. "laplace": a Gaussian at the mode of the posterior, the fastest; poor
        where classes are separable or very uneven, see the notes. "ep": expectation propagation,
        the most accurate. "vi": the Gaussian of largest lower bound on the evidence, which is then
        what is maximised and reported; with softmax the largest among Gaussians that are
        independent between classes.
    link : {"logit", "probit"}, default="logit"
        The likelihood of the second class: 1/(1 + exp(−f)), or the cumulative Gaussian of f.
    optimizer : "lbfgs" or None, default="lbfgs"
        Whether to tune the kernel by the evidence.
    n_restarts : int, default=0
        Further starts of the search, drawn at random.
    multi_class : {"auto", "softmax", "one_vs_rest"}, default="auto"
        What is done with more than two classes. "softmax": one model of all of them, which
        "laplace" and "vi" have for the logit link. "one_vs_rest": one model a class with the same
        kernel, whose evidences add, and probabilities divided by their sum. "auto" is softmax
        where there is one.
    fixed : tuple of str, default=()
        Parameters to hold, such as ``("length_scale",)``: names of ``kernel.theta_names``, or
        "kernel" for all. A name without index means all its entries.
    bounds : dict of str to (low, high), optional
        Limits of parameters by such names; by default ``kernel.bounds``.
    priors : dict of str to frozen distributions of scipy.stats, optional
        Densities of parameters by such names, of their values, not of their logarithms. The
        search maximises the evidence times these.
    max_iter : int, default=100
        Steps of each descent of the search.
    tol : float, default=1e-3
        Gain of log evidence below which the search ends.
    random_state : int, RandomState, Generator or None, default=None
        For restarts; None is the same in every fit.

    Attributes
    ----------
    classes_ : array
        The classes.
    kernel_ : Kernel
        The covariance found.
    multi_class_, method_, link_ : str
        What was done; "binary" of two classes.
    dual_coef_ : array of shape (n,) or (n, n_classes)
        Coefficients of the latent mean Σ aᵢ k(xᵢ, ·).
    sites_ : array of shape (n,) or (n, n_classes)
        Precisions that the labels add to the prior; with them k gives the latent variances.
    X_fit_, y_fit_, sample_weight_ : collection, array of shape (n,), array or None
        The rows of positive weight, their class numbers and weights.
    gram_fit_ : array of shape (n, n) or None
        The training matrix, kept where it was precomputed.
    theta_, theta_names_ : array of shape (p,), list of str
        Logarithms of the parameters that may be tuned.
    log_marginal_likelihood_value_ : float
        The log evidence (with "vi" its bound), without `priors`.
    search_ : Search or None
        How the parameters were found; None without a search.
    n_iter_ : int
        Evaluations of the evidence on all rows.
    solution_ : Solution
        Certificate: the relative residual of the method's equations; of Laplace's
        ‖(I + KW)⁻¹(f − K∇log p(y | f))‖/‖f‖, how far f is from the mode as a part of it, no value
        of f taken as smaller than 0.01.
    function_ : Function
        The latent mean.

    Notes
    -----
    Laplace's method fails where a function separates the classes, or where one class is rare. The
    mode is then far from the mean, its evidence grows with the amplitude of the kernel, the
    amplitude runs away, and the probabilities are too near the middle. ``search_.message`` says so
    where the prior standard deviation of the latent function ends beyond 30 or the amplitude at
    its bound; "ep" and "vi" do not suffer from it.

    Evidences compare kernels, not methods: that of one against the rest is a product of as many
    two-class problems, and the bound of variational softmax leaves out what the classes have in
    common, which can be 0.3 in the logarithm with five rows. Variational softmax is also slow where
    latent variances are large: its averages over several classes then take most of the time, many
    times that of the factorisations.

    A sample weight w is the likelihood of its row to the power w: the row given w times.

    Given the latent means and variances, probabilities of two classes are accurate to 1e-12, those
    of softmax to 1e-4 for three or four classes and about 1e-3 for ten. With a precomputed kernel
    they need k(x, x) of new points; see `predict_proba`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RBF, GaussianProcessClassifier
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.where(np.sin(X[:, 0]) > 0, "up", "down")
    >>> model = GaussianProcessClassifier(1.0 * RBF()).fit(X, y)
    >>> model.predict([[1.5], [4.5]]).tolist()
    ['up', 'down']
    >>> model.predict_proba([[1.5], [100.0]]).round(1)
    array([[0.1, 0.9],
           [0.5, 0.5]])
    """

    score = accuracy

    def __init__(
        self,
        kernel: Any = None,
        method: str = "laplace",
        link: Any = "logit",
        optimizer: Any = "lbfgs",
        *,
        n_restarts: int = 0,
        multi_class: str = "auto",
        fixed: Any = (),
        bounds: Any = None,
        priors: Any = None,
        max_iter: int = 100,
        tol: float = TOL,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.method = method
        self.link = link
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.multi_class = multi_class
        self.fixed = fixed
        self.bounds = bounds
        self.priors = priors
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : collection of n points
            Vectors, frames, or what the kernel accepts; the Gram matrix when precomputed.
        y : array of shape (n,)
            Class labels.
        sample_weight : float or array of shape (n,), optional
            Weights; a weight of 2 is the row given twice, 0 the row left out, and a class of such
            rows only is not in ``classes_``.

        Returns
        -------
        GaussianProcessClassifier
            The fitted model itself.
        """
        with self._all_or_nothing():
            self._fit(X, y, sample_weight)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the latent mean: positive for the second class; one column a class for more.

        Parameters
        ----------
        X : collection of m points
            New points; when precomputed, their kernel values with the training points.

        Returns
        -------
        array of shape (m,) or (m, n_classes)
            Of `n_classes` > 2 not always largest for the most probable class.
        """
        return self._latent_mean(self._new_points(X))

    def latent_mean_and_variance(self, X: Any, *, diag: Any = None) -> tuple[Any, Any]:
        """Return mean and variance of the latent values at new points.

        Parameters
        ----------
        X : collection of m points
            New points.
        diag : array of shape (m,), optional
            k(x, x) of the new points, only where the kernel is precomputed; see `predict_proba`.

        Returns
        -------
        mean : array of shape (m,) or (m, n_classes)
            As of `decision_function`.
        variance : array of the same shape
            The variances.
        """
        mean, cov = self.latent_mean_and_covariance(X, diag=diag)
        return mean, cov if cov.ndim == 1 else np.einsum("icc->ic", cov).copy()

    def latent_mean_and_covariance(self, X: Any, *, diag: Any = None) -> tuple[Any, Any]:
        """Return mean of the latent values at new points and their covariance between classes.

        Parameters
        ----------
        X : collection of m points
            New points.
        diag : array of shape (m,), optional
            k(x, x) of the new points, only where the kernel is precomputed; see `predict_proba`.

        Returns
        -------
        mean : array of shape (m,) or (m, n_classes)
            As of `decision_function`.
        covariance : array of shape (m,) or (m, n_classes, n_classes)
            Of two classes the variance.
        """
        X = self._new_points(X)
        return self._latent_mean(X), self._latent_covariance(X, diag)

    def predict_proba(self, X: Any, *, diag: Any = None) -> np.ndarray:
        """Return the probabilities of the classes, shape (m, n_classes).

        Parameters
        ----------
        X : collection of m points
            New points; when precomputed, their kernel values with the training points.
        diag : array of shape (m,), optional
            k(x, x) of the new points, only where the kernel is precomputed. Without it they are
            taken to be as large as those of the training points on average, or as large as their
            kernel values ask for, k(x, xᵢ)²/k(xᵢ, xᵢ) ≤ k(x, x). That is right for a kernel with
            one value of k(x, x), such as RBF.
        """
        mean, cov = self.latent_mean_and_covariance(X, diag=diag)
        scheme = self._scheme()
        return class_probabilities(mean, cov, scheme.link, scheme.kind)

    def predict_log_proba(self, X: Any, *, diag: Any = None) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes, shape (m, n_classes).

        Parameters
        ----------
        X : collection of m points
            New points.
        diag : array of shape (m,), optional
            As of `predict_proba`.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, diag=diag))

    def predict(self, X: Any, *, diag: Any = None) -> np.ndarray:
        """Return the most probable class of each row of X, the first of those that tie.

        Parameters
        ----------
        X : collection of m points
            New points.
        diag : array of shape (m,), optional
            As of `predict_proba`; two classes do not need it.
        """
        mean = self._latent_mean(self._new_points(X))
        if mean.ndim == 1:  # both links are ½ at 0 and symmetric: the variance decides nothing
            return self.classes_[(mean > 0).astype(int)]
        shares = self.predict_proba(X, diag=diag)
        # Far from the data classes are equally probable up to rounding: then the first.
        best = shares >= shares.max(axis=1, keepdims=True) - TIE
        return self.classes_[best.argmax(axis=1)]
