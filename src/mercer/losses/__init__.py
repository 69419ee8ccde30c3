"""How wrong a prediction is: a value for each point, its slopes and its conjugate."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
