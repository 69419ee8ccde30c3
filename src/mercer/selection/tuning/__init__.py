"""Parameters without a grid, by left-out errors, evidence and folds."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
