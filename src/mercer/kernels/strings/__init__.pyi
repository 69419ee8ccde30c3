from mercer.kernels.strings.alignment import (
    LocalAlignment as LocalAlignment,
    Logarithmic as Logarithmic,
    is_long as is_long,
    row_runs as row_runs,
)
from mercer.kernels.strings.counted import (
    Spectrum as Spectrum,
    WeightedDegree as WeightedDegree,
    letters_of as letters_of,
    numbered as numbered,
)
from mercer.kernels.strings.mismatch import GappedKmer as GappedKmer, Mismatch as Mismatch
from mercer.kernels.strings.paired import (
    EditDistance as EditDistance,
    LongestCommonSubstring as LongestCommonSubstring,
    Subsequence as Subsequence,
)

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
