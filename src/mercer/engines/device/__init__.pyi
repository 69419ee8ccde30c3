from mercer.engines.device.fused import (
    FusedScaled as FusedScaled,
    FusedSum as FusedSum,
    fused_form as fused_form,
)
from mercer.engines.device.place import (
    TorchEngine as TorchEngine,
    chosen_device as chosen_device,
    computing_on as computing_on,
    full_precision as full_precision,
    to_device as to_device,
    where_is as where_is,
)
