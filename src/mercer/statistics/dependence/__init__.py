"""Do variables depend on each other? HSIC and conditional tests."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
