"""What an estimator is: its kernel, sample, state, options, plan and messages."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
