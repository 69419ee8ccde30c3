"""Small real data and generators for examples, documents and tests; nothing is downloaded."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
