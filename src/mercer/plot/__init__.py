"""Pictures of fitted models: Display classes that hold what is drawn, and draw it."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
