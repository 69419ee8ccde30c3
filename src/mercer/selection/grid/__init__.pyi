from mercer.selection.grid.scorer import FoldScorer as FoldScorer
from mercer.selection.grid.search import SearchResult as SearchResult, search as search
