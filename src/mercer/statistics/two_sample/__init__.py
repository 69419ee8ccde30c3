"""Are samples of one distribution? MMD and its relatives."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
