from mercer.testing.certificates.base import (
    CERTIFICATES as CERTIFICATES,
    law_left_out as law_left_out,
)
from mercer.testing.certificates.margins import (
    check_margin as check_margin,
    violation as violation,
)
from mercer.testing.certificates.risks import (
    best_offset as best_offset,
    centred_problems as centred_problems,
    centred_residual as centred_residual,
    check_centred_answer as check_centred_answer,
    check_feature_answer as check_feature_answer,
    check_smooth_answer as check_smooth_answer,
    feature_gap as feature_gap,
    feature_problems as feature_problems,
    risk_of as risk_of,
    smooth_problems as smooth_problems,
    smooth_residual as smooth_residual,
    weights_of as weights_of,
)
