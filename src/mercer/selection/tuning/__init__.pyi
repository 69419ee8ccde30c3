from mercer.selection.tuning.errors import FEWEST as FEWEST, MATRICES as MATRICES
from mercer.selection.tuning.tuner import tune as tune
from mercer.selection.tuning.what import TuneResult as TuneResult
