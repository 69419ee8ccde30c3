"""Public laws of kernels, operators, solvers and estimators, and oracles to judge them by.

``check_kernel_laws(kernel)`` and its sisters raise AssertionError, naming the law that is broken;
``kernel_laws()`` and its sisters list the laws, to parametrise a test with; ``kernel_examples()``
and its sisters are the instances on which mercer's own classes are judged.
"""

from mercer.testing.certificates.base import CERTIFICATES
from mercer.testing.examples.estimators import EstimatorExample, estimator_examples
from mercer.testing.examples.kernels import KernelExample, kernel_examples
from mercer.testing.laws.estimators import check_estimator_laws, estimator_laws
from mercer.testing.laws.kernels import check_kernel_laws, kernel_laws
from mercer.testing.laws.nonvector import check_nonvector_estimator, nonvector_laws
from mercer.testing.laws.operators import check_operator_laws, operator_examples, operator_laws
from mercer.testing.laws.solvers import (
    check_solver_laws,
    problem_examples,
    solver_examples,
    solver_laws,
)
from mercer.testing.oracles.kernels import ORACLES, double_loop, oracle
from mercer.testing.oracles.processes import (
    BinaryLikelihood,
    SoftmaxLikelihood,
    importance_evidence,
    integrate_posterior,
    slice_posterior,
)

__all__ = [
    "CERTIFICATES",
    "ORACLES",
    "BinaryLikelihood",
    "EstimatorExample",
    "KernelExample",
    "SoftmaxLikelihood",
    "check_estimator_laws",
    "check_kernel_laws",
    "check_nonvector_estimator",
    "check_operator_laws",
    "check_solver_laws",
    "double_loop",
    "estimator_examples",
    "estimator_laws",
    "importance_evidence",
    "integrate_posterior",
    "kernel_examples",
    "kernel_laws",
    "nonvector_laws",
    "operator_examples",
    "operator_laws",
    "oracle",
    "problem_examples",
    "slice_posterior",
    "solver_examples",
    "solver_laws",
]
