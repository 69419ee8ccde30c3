from mercer.cli.program import main as main

__all__ = ["main"]
