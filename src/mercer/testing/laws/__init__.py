"""What must be true of every kernel, operator, solver and estimator."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
