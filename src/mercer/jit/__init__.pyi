from mercer.jit.alignment import (
    global_advance as global_advance,
    global_log_pairs as global_log_pairs,
    global_start as global_start,
    local_advance as local_advance,
    local_log_pairs as local_log_pairs,
    local_start as local_start,
)
from mercer.jit.clusters import come_closer as come_closer, draw_at as draw_at, sweep as sweep
from mercer.jit.counts import (
    add_common as add_common,
    count_differences as count_differences,
    fill_agreement as fill_agreement,
    match_pairs as match_pairs,
    match_windows as match_windows,
    number as number,
    place as place,
    times_agreement as times_agreement,
)
from mercer.jit.density import (
    FAR as FAR,
    add_profiles as add_profiles,
    add_with_slopes as add_with_slopes,
    local_moments as local_moments,
    lower as lower,
)
from mercer.jit.ep import sequential_sweep as sequential_sweep, tilted_moments as tilted_moments
from mercer.jit.games import (
    LANE as LANE,
    double_shares as double_shares,
    product_entries as product_entries,
    product_pairs as product_pairs,
    product_shares as product_shares,
)
from mercer.jit.graphs import (
    common_paths as common_paths,
    common_step as common_step,
    conjugate_steps as conjugate_steps,
    count_closed as count_closed,
    count_connected as count_connected,
    count_distances as count_distances,
    count_squares as count_squares,
    count_triangles as count_triangles,
    series_steps as series_steps,
    spectral_sums as spectral_sums,
)
from mercer.jit.sgd import saga_dense as saga_dense, saga_sparse as saga_sparse, stream as stream
from mercer.jit.smo import (
    add_rows as add_rows,
    coordinate_steps as coordinate_steps,
    gathered_pair_steps as gathered_pair_steps,
    pair_steps as pair_steps,
    reuse_block as reuse_block,
    take_block as take_block,
    take_rows as take_rows,
)
from mercer.jit.steps import (
    add_kernel_rows as add_kernel_rows,
    passes as passes,
    rank_one as rank_one,
    visit as visit,
)
from mercer.jit.strings import (
    LANES as LANES,
    add_distances as add_distances,
    add_pairs as add_pairs,
    add_runs as add_runs,
    workspace as workspace,
)
from mercer.jit.tiles import (
    add_groups as add_groups,
    add_members as add_members,
    add_shuffled as add_shuffled,
    add_tile_rows as add_tile_rows,
    judge as judge,
    judge_rows as judge_rows,
    keep_smallest as keep_smallest,
    logarithm as logarithm,
    manhattan as manhattan,
    manhattan_by_column as manhattan_by_column,
    multiply_shuffled as multiply_shuffled,
    pair_squares as pair_squares,
    sort_kept as sort_kept,
    sort_rows as sort_rows,
    squared_euclidean as squared_euclidean,
    times_columns as times_columns,
)
