"""What `sweep.py` times: a chapter for each family of workloads."""

from .approximations import WORKS as APPROXIMATIONS
from .hypotheses import WORKS as HYPOTHESES
from .machines import WORKS as MACHINES
from .regressions import WORKS as REGRESSIONS
from .searches import WORKS as SEARCHES
from .unlabelled import WORKS as UNLABELLED

__all__ = ["WORKS"]

WORKS = MACHINES | REGRESSIONS | UNLABELLED | SEARCHES | APPROXIMATIONS | HYPOTHESES
