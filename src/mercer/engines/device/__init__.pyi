from mercer.engines.device.fused import (
    full_precision as full_precision,
    fused_form as fused_form,
)
from mercer.engines.device.pairs import pair_blocks as pair_blocks
