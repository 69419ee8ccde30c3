from mercer.solvers.falkon.newton import FalkonNewton as FalkonNewton
from mercer.solvers.falkon.preconditioner import RATIO as RATIO, WORTH as WORTH
from mercer.solvers.falkon.problem import Centred as Centred
from mercer.solvers.falkon.solver import Falkon as Falkon
