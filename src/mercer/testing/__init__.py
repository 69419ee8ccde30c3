"""Public laws of kernels, operators, solvers and estimators, and oracles to judge them by.

``check_kernel_laws(kernel)`` and its sisters raise AssertionError, naming the law that is broken;
``kernel_laws()`` and its sisters list the laws, to parametrise a test with; ``kernel_examples()``
and its sisters are the instances on which mercer's own classes are judged.
"""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
