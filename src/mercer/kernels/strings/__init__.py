"""Kernels on strings: common substrings and subsequences, alignments, and what is no kernel."""

from mercer.kernels.strings.common_substring import LongestCommonSubstring
from mercer.kernels.strings.edit_distance import EditDistance
from mercer.kernels.strings.gapped import GappedKmer
from mercer.kernels.strings.local_alignment import LocalAlignment
from mercer.kernels.strings.mismatch import Mismatch
from mercer.kernels.strings.spectrum import Spectrum
from mercer.kernels.strings.subsequence import Subsequence
from mercer.kernels.strings.weighted_degree import WeightedDegree

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
