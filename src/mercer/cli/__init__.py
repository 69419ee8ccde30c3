"""The command line: ``mercer fit``, ``mercer predict``, ``mercer info``."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
