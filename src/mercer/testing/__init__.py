"""Public laws of kernels, operators, solvers and estimators, and oracles to judge them by."""

from mercer.testing.kernel_examples import KernelExample, kernel_examples
from mercer.testing.laws import check_kernel_laws, kernel_laws
from mercer.testing.oracles import ORACLES, double_loop, oracle

__all__ = [
    "ORACLES",
    "KernelExample",
    "check_kernel_laws",
    "double_loop",
    "kernel_examples",
    "kernel_laws",
    "oracle",
]
