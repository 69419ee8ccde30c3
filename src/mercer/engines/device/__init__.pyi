from mercer.engines.device.fused import (
    full_precision as full_precision,
    fused_form as fused_form,
    triton_runs_on as triton_runs_on,
)
from mercer.engines.device.triton import pair_steps as pair_steps
