"""Problem in, Solution out: linear systems, eigenproblems, quadratic programs, with certificates.

A problem (`Linear`, `Eigen`, `BoxQP`, `SmoothERM`, …) says what is wanted, a solver says how::

    Linear ──▶ Cholesky             n³/3 flops, n² memory, exact up to rounding
           ──▶ ConjugateGradients   products A·V only; preconditioned by rpcholesky
    Eigen  ──▶ DenseEigen           all pairs, or the largest k of a matrix that fits
           ──▶ SubspaceIteration    the largest k, products A·V only
    BoxQP  ──▶ SMO                  rows of K on demand; every support vector machine
    SmoothERM ──▶ IRLS              Newton: one weighted ridge regression a step
    SoftmaxERM ──▶ NewtonCG         Newton for many classes, by conjugate gradients
    FeatureERM ──▶ SGD              stochastic gradients over explicit features
    SparseERM ──▶ CoordinateDescent  working sets of weights; lasso and elastic net
    Centred ──▶ Falkon              least squares on m centres, n rows known by passes
            ──▶ FalkonNewton        the same for smooth losses and many classes

and every solver returns a `Solution`: the value, whether it converged, and the residual that was
recomputed from the problem. `factor` is the factorisation itself, for those who need its
log-determinant, its inverse or half of a solve.
"""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
