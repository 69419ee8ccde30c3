from mercer.engines.base import (
    Engine as Engine,
    NumpyEngine as NumpyEngine,
    namespace as namespace,
    pick as pick,
)
from mercer.engines.budget import (
    largest as largest,
    moderate as moderate,
    require_memory as require_memory,
    round_up as round_up,
    shifted as shifted,
    smaller_rank as smaller_rank,
)
from mercer.engines.checkpoint import Checkpoint as Checkpoint, fingerprint as fingerprint
from mercer.engines.device import TorchEngine as TorchEngine
from mercer.engines.files import refuse_target as refuse_target, replace_file as replace_file
from mercer.engines.folds import (
    fold as fold,
    group_sums as group_sums,
    judge_points as judge_points,
    member_sums as member_sums,
    own_means as own_means,
    pull_means as pull_means,
    pull_own as pull_own,
    quadratic as quadratic,
    run_means as run_means,
    spread as spread,
    tile_entries as tile_entries,
)
from mercer.engines.many import (
    inverses as inverses,
    joint as joint,
    joint_rows as joint_rows,
    many_forms as many_forms,
    shuffled as shuffled,
    shuffled_factors as shuffled_factors,
)
from mercer.engines.neighbors import nearest as nearest
from mercer.engines.profiles import (
    log_sums as log_sums,
    nearest_squares as nearest_squares,
    rim as rim,
)
from mercer.engines.rates import (
    KernelRate as KernelRate,
    Rates as Rates,
    device_of as device_of,
    kernel_rate as kernel_rate,
    machine_rates as machine_rates,
)
from mercer.engines.threads import (
    Progress as Progress,
    Ticker as Ticker,
    add_square as add_square,
    ahead as ahead,
    single_threaded_blas as single_threaded_blas,
    solve_rows as solve_rows,
    times as times,
)
from mercer.engines.tiles import (
    CACHED_ENTRIES as CACHED_ENTRIES,
    DEVICE_ENTRIES as DEVICE_ENTRIES,
    below_diagonal as below_diagonal,
    gram as gram,
    make_tile as make_tile,
    matmul as matmul,
    pull_points as pull_points,
    pull_theta as pull_theta,
    row_blocks as row_blocks,
    rows_into as rows_into,
    small_tiles as small_tiles,
)

__all__ = ["Engine", "NumpyEngine", "TorchEngine", "namespace", "pick"]
