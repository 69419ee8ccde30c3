"""The command line: ``mercer fit``, ``mercer predict``, ``mercer info``."""

from mercer.cli.main import main

__all__ = ["main"]
