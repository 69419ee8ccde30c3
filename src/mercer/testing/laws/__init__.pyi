from mercer.testing.laws.estimators import (
    check_estimator_laws as check_estimator_laws,
    estimator_laws as estimator_laws,
)
from mercer.testing.laws.kernels import (
    check_kernel_laws as check_kernel_laws,
    kernel_laws as kernel_laws,
)
from mercer.testing.laws.nonvector import (
    check_nonvector_estimator as check_nonvector_estimator,
    nonvector_laws as nonvector_laws,
)
from mercer.testing.laws.operators import (
    check_operator_laws as check_operator_laws,
    operator_examples as operator_examples,
    operator_laws as operator_laws,
)
from mercer.testing.laws.solvers import (
    check_solver_laws as check_solver_laws,
    problem_examples as problem_examples,
    solve as solve,
    solver_examples as solver_examples,
    solver_laws as solver_laws,
)
from mercer.testing.laws.sparse import certify_sparse as certify_sparse
