"""Kernels on strings: common substrings and subsequences, alignments, and what is no kernel."""

from mercer.doors import door

__getattr__, __dir__ = door(__name__)
