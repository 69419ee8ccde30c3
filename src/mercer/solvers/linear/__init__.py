"""Linear systems and eigenvectors: Cholesky, conjugate gradients, pivots."""
