"""Kernels on strings: common substrings and subsequences, alignments, and what is no kernel."""

from mercer.kernels.strings.alignment import LocalAlignment
from mercer.kernels.strings.counted import Spectrum, WeightedDegree
from mercer.kernels.strings.mismatch import GappedKmer, Mismatch
from mercer.kernels.strings.paired import EditDistance, LongestCommonSubstring, Subsequence

__all__ = [
    "EditDistance",
    "GappedKmer",
    "LocalAlignment",
    "LongestCommonSubstring",
    "Mismatch",
    "Spectrum",
    "Subsequence",
    "WeightedDegree",
]
