from mercer.testing.examples.estimators import (
    QUESTIONS as QUESTIONS,
    EstimatorExample as EstimatorExample,
    NonvectorStudy as NonvectorStudy,
    Study as Study,
    alike as alike,
    containers as containers,
    estimator_examples as estimator_examples,
    read_only as read_only,
)
from mercer.testing.examples.graphs import (
    GRAPH_FORMULAS as GRAPH_FORMULAS,
    NODE_TEXT_FORMULAS as NODE_TEXT_FORMULAS,
    WALK_FORMULAS as WALK_FORMULAS,
)
from mercer.testing.examples.kernels import (
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
from mercer.testing.examples.tables import TABLE_FORMULAS as TABLE_FORMULAS, mean_map as mean_map
