from mercer.selection.grid.grid_search import SearchResult as SearchResult, search as search
from mercer.selection.grid.paths import MarginWalk as MarginWalk
from mercer.selection.grid.scorer import FoldScorer as FoldScorer
