"""What a fit will take, said before it: facts, costs, ways and rules."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
