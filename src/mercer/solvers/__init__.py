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

from mercer.solvers.base import Eigen, Linear, Solution
from mercer.solvers.box.problem import BoxQP
from mercer.solvers.box.rows import Rows
from mercer.solvers.box.smo import SMO
from mercer.solvers.falkon.newton import FalkonNewton
from mercer.solvers.falkon.problem import Centred
from mercer.solvers.falkon.solver import Falkon
from mercer.solvers.linear.cg import ConjugateGradients
from mercer.solvers.linear.cholesky import Cholesky, factor
from mercer.solvers.linear.eigen import DenseEigen, EigenPairs, SubspaceIteration
from mercer.solvers.linear.factor import CholeskyFactor
from mercer.solvers.linear.pivoted import NystromPreconditioner, PartialCholesky, rpcholesky
from mercer.solvers.risk.lasso import SparseERM
from mercer.solvers.risk.lasso_descent import CoordinateDescent
from mercer.solvers.risk.newton import IRLS
from mercer.solvers.risk.sgd import SGD, FeatureERM
from mercer.solvers.risk.smooth import SmoothERM
from mercer.solvers.risk.softmax import NewtonCG, SoftmaxERM

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
