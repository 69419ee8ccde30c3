from mercer.solvers.linear.band import REDUCTION as REDUCTION, Band as Band
from mercer.solvers.linear.cg import (
    SLOW as SLOW,
    ConjugateGradients as ConjugateGradients,
    LowRankPreconditioner as LowRankPreconditioner,
    beside_gram as beside_gram,
    cg_cost as cg_cost,
    default_rank as default_rank,
)
from mercer.solvers.linear.cholesky import (
    Cholesky as Cholesky,
    append_rows as append_rows,
    cholesky_cost as cholesky_cost,
    delete_rows as delete_rows,
    dense_copy as dense_copy,
    drift as drift,
    factor as factor,
    factor_again as factor_again,
    primal_cost as primal_cost,
)
from mercer.solvers.linear.cholesky_factor import CholeskyFactor as CholeskyFactor
from mercer.solvers.linear.device import (
    DeviceBuffer as DeviceBuffer,
    DevicePreconditioner as DevicePreconditioner,
)
from mercer.solvers.linear.eigen import (
    EIGH as EIGH,
    DenseEigen as DenseEigen,
    EigenPairs as EigenPairs,
    SubspaceIteration as SubspaceIteration,
    eigen_cost as eigen_cost,
    leading_pairs as leading_pairs,
    signs_of as signs_of,
)
from mercer.solvers.linear.inplace import (
    cuts as cuts,
    factor_with_ridge as factor_with_ridge,
    fortran_float64 as fortran_float64,
    mirror as mirror,
    not_positive_definite as not_positive_definite,
    potrf as potrf,
    restore as restore,
)
from mercer.solvers.linear.krylov import TINY as TINY, BlockCG as BlockCG, dots as dots
from mercer.solvers.linear.pivoted import (
    NystromPreconditioner as NystromPreconditioner,
    PartialCholesky as PartialCholesky,
    rpcholesky as rpcholesky,
)
