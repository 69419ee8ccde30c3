from mercer.testing.oracles.formulas import (
    ORACLES as ORACLES,
    double_loop as double_loop,
    oracle as oracle,
    points as points,
)
from mercer.testing.oracles.posteriors import (
    BinaryLikelihood as BinaryLikelihood,
    SoftmaxLikelihood as SoftmaxLikelihood,
    importance_evidence as importance_evidence,
    integrate_posterior as integrate_posterior,
    slice_posterior as slice_posterior,
)
