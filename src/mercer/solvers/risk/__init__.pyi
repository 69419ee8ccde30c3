from mercer.solvers.risk.gram import (
    SHARED as SHARED,
    SharedGram as SharedGram,
    shared_gram as shared_gram,
)
from mercer.solvers.risk.kinked import Kinked as Kinked, KinkedPoint as KinkedPoint
from mercer.solvers.risk.lasso import (
    LOSSES as LOSSES,
    CheckedSparse as CheckedSparse,
    SparseERM as SparseERM,
    check_ratio as check_ratio,
)
from mercer.solvers.risk.lasso_descent import CoordinateDescent as CoordinateDescent
from mercer.solvers.risk.metric import (
    MOMENTS as MOMENTS,
    PrimalMetric as PrimalMetric,
    metric_of as metric_of,
)
from mercer.solvers.risk.newton import (
    IRLS as IRLS,
    NEWTON_STEPS as NEWTON_STEPS,
    by_features as by_features,
    newton_cg_cost as newton_cg_cost,
    newton_cost as newton_cost,
)
from mercer.solvers.risk.sgd import (
    SGD as SGD,
    AveragedSGD as AveragedSGD,
    FeatureERM as FeatureERM,
    sgd_cost as sgd_cost,
)
from mercer.solvers.risk.smooth import EPS as EPS, SmoothERM as SmoothERM
from mercer.solvers.risk.softmax import (
    CoupledFactor as CoupledFactor,
    NewtonCG as NewtonCG,
    SoftmaxERM as SoftmaxERM,
    contrasts as contrasts,
    coupled_bytes as coupled_bytes,
    log_softmax as log_softmax,
)
