from mercer.estimator import KernelEstimator as KernelEstimator, Plan as Plan
from mercer.models.cluster import (
    DPMeans as DPMeans,
    KernelKMeans as KernelKMeans,
    SpectralClustering as SpectralClustering,
    penalty_from_k as penalty_from_k,
)
from mercer.models.density import (
    KDEClassifier as KDEClassifier,
    KernelDensity as KernelDensity,
    NadarayaWatson as NadarayaWatson,
    NadarayaWatsonClassifier as NadarayaWatsonClassifier,
)
from mercer.models.gp import for_output as for_output, stack_outputs as stack_outputs
from mercer.models.gp.classes import GaussianProcessClassifier as GaussianProcessClassifier
from mercer.models.gp.regression import GaussianProcessRegressor as GaussianProcessRegressor
from mercer.models.gp.sparse import SparseGaussianProcessRegressor as SparseGaussianProcessRegressor
from mercer.models.margin import (
    SVC as SVC,
    SVR as SVR,
    NuSVC as NuSVC,
    NuSVR as NuSVR,
    OneClassSVM as OneClassSVM,
)
from mercer.models.metric import (
    FeatureMachineClassifier as FeatureMachineClassifier,
    FeatureMachineRegressor as FeatureMachineRegressor,
)
from mercer.models.neighbors import (
    KernelNeighborsClassifier as KernelNeighborsClassifier,
    KernelNeighborsRegressor as KernelNeighborsRegressor,
    NearestBarycentre as NearestBarycentre,
)
from mercer.models.pca import PCA as PCA, KernelPCA as KernelPCA
from mercer.models.perceptron import KernelPerceptron as KernelPerceptron
from mercer.models.ridge import (
    KernelRidge as KernelRidge,
    KernelRidgeClassifier as KernelRidgeClassifier,
    StructuredKernelRidge as StructuredKernelRidge,
)
from mercer.models.risk import (
    KernelERM as KernelERM,
    KernelHuberRegressor as KernelHuberRegressor,
    KernelLogisticRegression as KernelLogisticRegression,
    KernelQuantileRegressor as KernelQuantileRegressor,
)
from mercer.models.sparse import (
    L1VM as L1VM,
    KernelMachine as KernelMachine,
    L1VMClassifier as L1VMClassifier,
    L1VMRegressor as L1VMRegressor,
)
from mercer.models.tables import (
    TableClassifier as TableClassifier,
    TableRegressor as TableRegressor,
)
