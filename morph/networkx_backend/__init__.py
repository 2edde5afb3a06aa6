"""The NetworkX backend ``morph``: NetworkX loads this module by an entry point of the package.

``nx.pagerank(graph, backend="morph")`` runs Morph's algorithm on a NetworkX graph, and
``nx.config.backend_priority = ["morph"]`` does so for all large graphs.  Calls with unsupported
semantics (weights by a function, graphs of subclasses, ...) raise `NotImplementedError`; NetworkX
then runs its own function, unless the call names the backend.
"""

from morph.networkx_backend.betweenness import *  # noqa: F403
from morph.networkx_backend.betweenness import __all__ as _betweenness
from morph.networkx_backend.cliques import *  # noqa: F403
from morph.networkx_backend.cliques import __all__ as _cliques
from morph.networkx_backend.converted import Converted, convert_from_nx, convert_to_nx
from morph.networkx_backend.decisions import can_run, should_run
from morph.networkx_backend.flows import *  # noqa: F403
from morph.networkx_backend.flows import __all__ as _flows
from morph.networkx_backend.paths import *  # noqa: F403
from morph.networkx_backend.paths import __all__ as _paths
from morph.networkx_backend.structure import *  # noqa: F403
from morph.networkx_backend.structure import __all__ as _structure
from morph.networkx_backend.subgraphs import *  # noqa: F403
from morph.networkx_backend.subgraphs import __all__ as _subgraphs

__all__ = [
    "Converted", "can_run", "convert_from_nx", "convert_to_nx", "should_run",
    *_betweenness, *_cliques, *_flows, *_paths, *_structure, *_subgraphs,
]  # fmt: skip
