from mercer.estimator.base import (
    FitsLeftOut as FitsLeftOut,
    KernelEstimator as KernelEstimator,
    TakesKernel as TakesKernel,
    check_same_points as check_same_points,
    check_targets as check_targets,
    check_weights as check_weights,
    defaults_of as defaults_of,
    is_single as is_single,
    kernel_of as kernel_of,
    left_out_of as left_out_of,
    new_points as new_points,
    posterior_of as posterior_of,
    refuse_other_points as refuse_other_points,
    set_params as set_params,
)
from mercer.estimator.blocks import (
    NAMELESS as NAMELESS,
    answers as answers,
    note_columns as note_columns,
    refuse_unread as refuse_unread,
    takes_blocks as takes_blocks,
)
from mercer.estimator.choice import (
    ONLY as ONLY,
    SMALL as SMALL,
    Ways as Ways,
    choose as choose,
    followed as followed,
    in_time as in_time,
    settled as settled,
    told as told,
    warn_if_coarse as warn_if_coarse,
)
from mercer.estimator.facts import (
    Study as Study,
    is_sparse as is_sparse,
    study_of as study_of,
)
from mercer.estimator.messages import (
    no_features as no_features,
    refuse_foreign_letters as refuse_foreign_letters,
)
from mercer.estimator.options import (
    CENTRES as CENTRES,
    LANDMARKS as LANDMARKS,
    OPTIONS as OPTIONS,
    SOLVERS as SOLVERS,
    SolverOptions as SolverOptions,
    asks_centers as asks_centers,
)
from mercer.estimator.plan import (
    Plan as Plan,
    require_rows as require_rows,
    tell_plan as tell_plan,
)
from mercer.estimator.rows import (
    NumericTargets as NumericTargets,
    as_stream as as_stream,
    coded as coded,
    computing_where as computing_where,
    follows_data as follows_data,
    is_stream as is_stream,
    resolved as resolved,
    takes_dask as takes_dask,
)
from mercer.estimator.sample import (
    Sample as Sample,
    assemble as assemble,
    check_kept_classes as check_kept_classes,
    check_labels as check_labels,
    choose_class as choose_class,
    class_signs as class_signs,
    class_weights as class_weights,
    count_targets as count_targets,
    find_classes as find_classes,
    in_double as in_double,
    kept_targets as kept_targets,
    known_classes as known_classes,
    n_features as n_features,
    prepare_labels as prepare_labels,
    prepare_targets as prepare_targets,
    refuse_sums as refuse_sums,
)
from mercer.estimator.scores import (
    Hits as Hits,
    Together as Together,
    accuracy as accuracy,
    geometric_margin as geometric_margin,
    given_targets as given_targets,
    judged_blocks as judged_blocks,
    margin_of_prototypes as margin_of_prototypes,
    r_squared as r_squared,
    score_as as score_as,
    score_blocks as score_blocks,
    sum_blocks as sum_blocks,
)
from mercer.estimator.trust import (
    INDEFINITE as INDEFINITE,
    JUDGED as JUDGED,
    beyond_features as beyond_features,
    check_definite as check_definite,
    check_lengths as check_lengths,
    indefinite as indefinite,
    refuse_negative as refuse_negative,
    repair as repair,
    tell_rounding as tell_rounding,
)
from mercer.estimator.values import (
    feature_weights as feature_weights,
    in_rows as in_rows,
    is_plain_linear as is_plain_linear,
    log_probabilities as log_probabilities,
    named_centers as named_centers,
    row_precision as row_precision,
    stream_of as stream_of,
    values_of as values_of,
)
