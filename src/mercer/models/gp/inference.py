"""The evidence of classes as a function of the kernel, by any method of inference."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mercer.engines import blocks, pick
from mercer.errors import InvalidInput
from mercer.kernels import Kernel
from mercer.models.gp.approximation import Approximation
from mercer.models.gp.links import Link, as_link
from mercer.models.gp.mode import TIGHT
from mercer.models.gp.one_vs_rest import one_vs_rest
from mercer.models.least_squares import take_rows

__all__ = ["Inference", "Scheme", "choose_scheme"]

METHODS = ("laplace", "ep", "vi")
SOFTMAX = ("laplace", "vi")  # methods that know the softmax likelihood


class Scheme:
    """A method, a link, and what becomes of more than two classes.

    Parameters
    ----------
    method : {"laplace", "ep", "vi"}
        How the posterior is approximated.
    link : Link
        The likelihood.
    kind : {"binary", "softmax", "one_vs_rest"}
        One latent function, one a class joined by softmax, or one a class against the rest.
    """

    def __init__(self, method: str, link: Link, kind: str):
        self.method, self.link, self.kind = method, link, kind

    @property
    def coupled(self) -> bool:
        """Whether the latent functions of the classes depend on one another."""
        return self.kind == "softmax" and self.method == "laplace"

    def infer(
        self,
        K: np.ndarray,
        codes: np.ndarray,
        n_classes: int,
        weights: Any,
        start: Any,
        tol: float = TIGHT,
    ) -> Approximation:
        """Return the approximate posterior for class numbers 0, 1, …; `tol` is that of modes."""
        if self.kind == "binary":
            return self._two(tol)(K, 2.0 * codes - 1.0, weights, self.link, start)
        onehot = np.equal.outer(codes, np.arange(n_classes)).astype(float)
        if self.kind == "one_vs_rest":
            return one_vs_rest(K, onehot, weights, self._two(tol), self.link, start)
        if self.method == "laplace":
            from mercer.models.gp.laplace_softmax import laplace_softmax

            return laplace_softmax(K, onehot, weights, start, tol=tol)
        from mercer.models.gp.vi_softmax import vi_softmax

        return vi_softmax(K, onehot, weights, start)

    def _two(self, tol: float) -> Callable[..., Approximation]:
        if self.method == "laplace":
            from mercer.models.gp.laplace import laplace

            return partial(laplace, tol=tol)
        if self.method == "ep":
            from mercer.models.gp.ep import ep

            return ep
        from mercer.models.gp.vi import vi

        return vi


def choose_scheme(method: Any, link: Any, multi_class: Any, n_classes: int, owner: str) -> Scheme:
    """Return how to infer, or say which combinations there are.

    Parameters
    ----------
    method, link, multi_class
        Parameters of the classifier.
    n_classes : int
        How many classes there are.
    owner : str
        Whose parameters they are.
    """
    if not isinstance(method, str) or method not in METHODS:
        raise InvalidInput(f"{owner}: method={method!r}; give 'laplace', 'ep' or 'vi'.")
    chosen = as_link(link, owner)
    if not isinstance(multi_class, str) or multi_class not in ("auto", "softmax", "one_vs_rest"):
        raise InvalidInput(
            f"{owner}: multi_class={multi_class!r}; give 'auto', 'softmax' or 'one_vs_rest'."
        )
    able = method in SOFTMAX and chosen.name == "logit"
    if multi_class == "softmax" and not able and n_classes > 2:
        what = f"method={method!r}" if method not in SOFTMAX else f"link={chosen.name!r}"
        cure = "method='laplace' or 'vi'" if method not in SOFTMAX else "link='logit'"
        raise InvalidInput(
            f"{owner}: multi_class='softmax' with {what} and {n_classes} classes; give "
            f"multi_class='one_vs_rest', or {cure}."
        )
    if n_classes == 2:
        return Scheme(method, chosen, "binary")
    if multi_class == "auto":
        multi_class = "softmax" if able else "one_vs_rest"
    return Scheme(method, chosen, multi_class)


class Inference:
    """Labels at given rows: evidence, gradient and posterior for any kernel.

    Each evaluation starts from the posterior of the one before, in its memory: it is not for
    several threads at once.

    Parameters
    ----------
    X : canonical collection
        The rows.
    codes : ndarray of shape (n,)
        Class numbers.
    n_classes : int
        How many classes there are.
    weights : ndarray of shape (n,) or None
        Powers of the likelihoods.
    scheme : Scheme
        How to infer.
    owner : str
        Whose evidence it is, for messages.
    """

    def __init__(
        self, X: Any, codes: np.ndarray, n_classes: int, weights: Any, scheme: Scheme, owner: str
    ):
        self.X, self.codes, self.n_classes = X, codes, n_classes
        self.weights, self.scheme, self.owner = weights, scheme, owner
        self._K: np.ndarray | None = None
        self._start: Any = None

    def part(self, kernel: Kernel, rows: np.ndarray) -> Inference:
        """Return the same for some of the rows.

        Parameters
        ----------
        kernel : Kernel
            Says what the rows are.
        rows : ndarray of int
            Their positions.
        """
        weights = None if self.weights is None else self.weights[rows]
        X = take_rows(kernel, self.X, rows)
        return Inference(X, self.codes[rows], self.n_classes, weights, self.scheme, self.owner)

    def posterior(self, kernel: Kernel) -> Approximation:
        """Return the approximate posterior; it is that of the last call only that stays valid.

        Parameters
        ----------
        kernel : Kernel
            The prior covariance of each latent function.
        """
        return self._infer(self._bound(kernel))

    def value_and_gradient(self, kernel: Kernel, tol: float = TIGHT) -> tuple[float, np.ndarray]:
        """Return the log evidence and its gradient in ``kernel.theta``.

        Parameters
        ----------
        kernel : Kernel
            The prior covariance.
        tol : float
            How near to come to a mode, where that is the method.
        """
        bound = self._bound(kernel)
        found = self._infer(bound, tol)
        p = len(kernel.theta)
        if p == 0:
            return found.log_evidence, np.zeros(0)
        gradient = blocks.pull_theta(bound, found.tiles(), p)
        return found.log_evidence, np.asarray(pick(self.X).to_numpy(gradient))

    def gram(self, kernel: Kernel) -> np.ndarray:
        """Return the Gram matrix, in the array that evaluations share.

        Parameters
        ----------
        kernel : Kernel
            Whose.
        """
        return self._gram(self._bound(kernel))

    def _bound(self, kernel: Kernel) -> Any:
        return kernel._bind(pick(self.X).asarray(self.X))

    def _infer(self, bound: Any, tol: float = TIGHT) -> Approximation:
        found = self.scheme.infer(
            self._gram(bound), self.codes, self.n_classes, self.weights, self._start, tol
        )
        self._start = found.start
        return found

    def _gram(self, bound: Any) -> np.ndarray:
        """Return K in the array that evaluations share."""
        n = len(self.codes)
        if self._K is None:
            arrays = 2 if self.scheme.kind == "binary" else self.n_classes + 2
            arrays += {"laplace": 0, "vi": 1, "ep": 2}[self.scheme.method]
            blocks.require_memory(
                8 * arrays * n * n,
                f"{self.owner}: {arrays} matrices of {n} × {n} numbers",
                "Fit fewer rows",
            )
            self._K = np.empty((n, n))
        if bound.xp is np and not bound.whole:
            return blocks.gram(bound, out=self._K)
        self._K[...] = pick(self.X).to_numpy(blocks.gram(bound))
        return self._K
