from mercer.testing.examples.graphs import (
    GRAPH_FORMULAS as GRAPH_FORMULAS,
    NODE_TEXT_FORMULAS as NODE_TEXT_FORMULAS,
    WALK_FORMULAS as WALK_FORMULAS,
)
from mercer.testing.examples.points import (
    KernelExample as KernelExample,
    is_vectorial as is_vectorial,
    kernel_examples as kernel_examples,
    sample_points as sample_points,
)
from mercer.testing.examples.strings import (
    ALIGNMENT_FORMULAS as ALIGNMENT_FORMULAS,
    COUNTED_STRING_FORMULAS as COUNTED_STRING_FORMULAS,
    SUBSEQUENCE_FORMULAS as SUBSEQUENCE_FORMULAS,
)
from mercer.testing.examples.studies import (
    QUESTIONS as QUESTIONS,
    EstimatorExample as EstimatorExample,
    EstimatorStudy as EstimatorStudy,
    PointStudy as PointStudy,
    VectorStudy as VectorStudy,
    alike as alike,
    as_example as as_example,
    containers as containers,
    estimator_examples as estimator_examples,
    read_only as read_only,
)
from mercer.testing.examples.tables import TABLE_FORMULAS as TABLE_FORMULAS, mean_map as mean_map
