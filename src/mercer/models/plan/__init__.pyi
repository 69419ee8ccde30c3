from mercer.models.plan.plan import (
    SMALL as SMALL,
    Study as Study,
    differ as differ,
    plan_ridge as plan_ridge,
    plan_smooth as plan_smooth,
    settled as settled,
)
from mercer.models.plan.rules import plan_of as plan_of, rule_of as rule_of
from mercer.models.plan.ways import (
    followed as followed,
    plan_clusters as plan_clusters,
    plan_components as plan_components,
    plan_gradients as plan_gradients,
    plan_kinked as plan_kinked,
    plan_spectral as plan_spectral,
    warn_if_coarse as warn_if_coarse,
)
