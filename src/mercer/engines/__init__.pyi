from mercer.domains import namespace as namespace
from mercer.engines.base import (
    Engine as Engine,
    NumpyEngine as NumpyEngine,
    TorchEngine as TorchEngine,
    chosen_device as chosen_device,
    computing_on as computing_on,
    device_of as device_of,
    pick as pick,
    to_device as to_device,
    where_is as where_is,
)
from mercer.engines.checkpoint import Checkpoint as Checkpoint, fingerprint as fingerprint
from mercer.engines.files import refuse_target as refuse_target, replace_file as replace_file
from mercer.engines.means import (
    own_means as own_means,
    pull_means as pull_means,
    pull_own as pull_own,
    run_means as run_means,
    tile_entries as tile_entries,
)
from mercer.engines.rates import (
    KernelRate as KernelRate,
    Rates as Rates,
    kernel_rate as kernel_rate,
    machine_rates as machine_rates,
)
from mercer.engines.tiles import (
    CACHED_ENTRIES as CACHED_ENTRIES,
    DEVICE_ENTRIES as DEVICE_ENTRIES,
    IN_FLIGHT as IN_FLIGHT,
    LANES as LANES,
    below_diagonal as below_diagonal,
    cuts as cuts,
    gram as gram,
    is_few as is_few,
    make_tile as make_tile,
    matmul as matmul,
    mirrored as mirrored,
    plan_tiles as plan_tiles,
    pull_points as pull_points,
    pull_theta as pull_theta,
    rows_into as rows_into,
    run_tiles as run_tiles,
    small_tiles as small_tiles,
    stopped as stopped,
    tile_columns as tile_columns,
)

__all__ = ["Engine", "NumpyEngine", "TorchEngine", "namespace", "pick"]
