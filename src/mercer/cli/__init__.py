"""The command line: ``mercer fit``, ``mercer predict``, ``mercer info``."""

from mercer.cli.program import main

__all__ = ["main"]
