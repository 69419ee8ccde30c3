from mercer.domains.graphs.collection import (
    GraphCollection as GraphCollection,
    Graphs as Graphs,
    widths_of as widths_of,
)
from mercer.domains.graphs.nodes import NodeCollection as NodeCollection, Nodes as Nodes
from mercer.domains.graphs.read import is_networkx as is_networkx
from mercer.domains.graphs.rows import sources_of as sources_of
from mercer.domains.graphs.value import Graph as Graph
