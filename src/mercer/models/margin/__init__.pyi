from mercer.models.margin.folds import (
    FOLDS as FOLDS,
    Tally as Tally,
    fold_machines as fold_machines,
    machines_of_folds as machines_of_folds,
    stratified_folds as stratified_folds,
    values_at as values_at,
    with_time_left as with_time_left,
)
from mercer.models.margin.left_out import (
    FAILS as FAILS,
    PER_FEATURE as PER_FEATURE,
    SMALL as SMALL,
    check_enough as check_enough,
    leaves_box as leaves_box,
    only_one as only_one,
    refitted as refitted,
    rows_to_doubt as rows_to_doubt,
    span_moves as span_moves,
)
from mercer.models.margin.machines import (
    is_margin as is_margin,
    plan_box as plan_box,
    plan_machine as plan_machine,
)
from mercer.models.margin.nusvc import NuSVC as NuSVC
from mercer.models.margin.one_class import OneClassSVM as OneClassSVM
from mercer.models.margin.path import ALIKE as ALIKE, FoldWalk as FoldWalk, grown as grown
from mercer.models.margin.problems import (
    WORTH_THREADS as WORTH_THREADS,
    Machine as Machine,
    gram_rows as gram_rows,
    joined as joined,
    solve_all as solve_all,
    split as split,
    spread as spread,
    tube_problem as tube_problem,
    votes as votes,
)
from mercer.models.margin.svc import LARGE as LARGE, SVC as SVC
from mercer.models.margin.svr import SVR as SVR, MarginRegressor as MarginRegressor, NuSVR as NuSVR
