from mercer.solvers.falkon.newton import (
    FalkonNewton as FalkonNewton,
    falkon_newton_cost as falkon_newton_cost,
)
from mercer.solvers.falkon.problem import Centred as Centred
from mercer.solvers.falkon.solver import Falkon as Falkon, falkon_cost as falkon_cost
