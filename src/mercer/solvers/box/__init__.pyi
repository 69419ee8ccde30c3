from mercer.solvers.box.problem import (
    ROUNDING as ROUNDING,
    BoxQP as BoxQP,
    CheckedBox as CheckedBox,
    halves as halves,
    meets as meets,
    rounding_of as rounding_of,
)
from mercer.solvers.box.rows import Rows as Rows, rows_for as rows_for
from mercer.solvers.box.smo import (
    SMO as SMO,
    rows_kept as rows_kept,
    smo_cost as smo_cost,
    stopped_by as stopped_by,
)
from mercer.solvers.box.together import descend_together as descend_together
