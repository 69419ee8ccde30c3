"""Kernels on strings: common substrings and subsequences, alignments, and what is no kernel."""

__all__: list[str] = []
