from mercer.engines.device.fused import (
    FusedScaled as FusedScaled,
    FusedSum as FusedSum,
    fused_form as fused_form,
)
from mercer.engines.device.memory import (
    USUAL_TILE as USUAL_TILE,
    free_memory as free_memory,
    free_on as free_on,
    human as human,
    named_when_full as named_when_full,
    on_gpu as on_gpu,
    out_of_memory as out_of_memory,
    run_within_memory as run_within_memory,
    smaller_tiles as smaller_tiles,
)
from mercer.engines.device.place import (
    TorchEngine as TorchEngine,
    chosen_device as chosen_device,
    computing_on as computing_on,
    follows_data as follows_data,
    full_precision as full_precision,
    room as room,
    to_device as to_device,
)
from mercer.engines.device.sums import (
    device_forms as device_forms,
    gathered_sums as gathered_sums,
    least_squares_apart as least_squares_apart,
    log_sums_on_device as log_sums_on_device,
    shuffled_products as shuffled_products,
)
