from mercer.solvers.box.problem import BoxQP as BoxQP, CheckedBox as CheckedBox, meets as meets
from mercer.solvers.box.rows import (
    LEAST as LEAST,
    SHARE as SHARE,
    SINGLE_FROM as SINGLE_FROM,
    Rows as Rows,
)
from mercer.solvers.box.smo import SMO as SMO
