"""A grid of parameters with the answer of GridSearchCV, one Gram matrix a kernel."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
