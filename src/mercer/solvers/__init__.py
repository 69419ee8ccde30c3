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

from mercer.solvers.base import Solution
from mercer.solvers.box import BoxQP
from mercer.solvers.cg import ConjugateGradients
from mercer.solvers.cholesky import Cholesky, factor
from mercer.solvers.cholesky_factor import CholeskyFactor
from mercer.solvers.eigen import DenseEigen, EigenPairs, SubspaceIteration
from mercer.solvers.falkon import Falkon
from mercer.solvers.falkon_newton import FalkonNewton
from mercer.solvers.falkon_problem import Centred
from mercer.solvers.irls import IRLS
from mercer.solvers.lasso import CoordinateDescent
from mercer.solvers.lasso_problem import SparseERM
from mercer.solvers.preconditioners import NystromPreconditioner, PartialCholesky, rpcholesky
from mercer.solvers.problems import Eigen, Linear
from mercer.solvers.rows import Rows
from mercer.solvers.sgd import SGD
from mercer.solvers.sgd_problem import FeatureERM
from mercer.solvers.smo import SMO
from mercer.solvers.smooth import SmoothERM
from mercer.solvers.softmax import SoftmaxERM
from mercer.solvers.softmax_newton import NewtonCG

__all__ = [
    "IRLS",
    "SGD",
    "SMO",
    "BoxQP",
    "Centred",
    "Cholesky",
    "CholeskyFactor",
    "ConjugateGradients",
    "CoordinateDescent",
    "DenseEigen",
    "Eigen",
    "EigenPairs",
    "Falkon",
    "FalkonNewton",
    "FeatureERM",
    "Linear",
    "NewtonCG",
    "NystromPreconditioner",
    "PartialCholesky",
    "Rows",
    "SmoothERM",
    "SoftmaxERM",
    "Solution",
    "SparseERM",
    "SubspaceIteration",
    "factor",
    "rpcholesky",
]
