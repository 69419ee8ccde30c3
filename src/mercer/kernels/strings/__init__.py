"""Kernels on strings: common substrings and subsequences, alignments, and what is no kernel."""

from mercer.kernels.strings.common_substring import LongestCommonSubstring
from mercer.kernels.strings.edit_distance import EditDistance
from mercer.kernels.strings.subsequence import Subsequence

__all__ = ["EditDistance", "LongestCommonSubstring", "Subsequence"]
