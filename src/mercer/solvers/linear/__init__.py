"""Linear systems and eigenvectors: Cholesky, conjugate gradients, pivots."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
