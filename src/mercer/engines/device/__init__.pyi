from mercer.engines.device.fused import (
    FusedScaled as FusedScaled,
    FusedSum as FusedSum,
    full_precision as full_precision,
    fused_form as fused_form,
)
