"""Morph: graph algorithms that change their graph, in parallel on a GPU or on a CPU's cores."""

import importlib

from morph.algorithms.betweenness import betweenness
from morph.algorithms.bfs import bfs
from morph.algorithms.components import connected_components
from morph.algorithms.cores import core_number, k_core
from morph.algorithms.dynamic import DynamicBFS, DynamicComponents, DynamicSSSP
from morph.algorithms.mst import mst
from morph.algorithms.pagerank import pagerank
from morph.algorithms.refine import refine, refine_with_report
from morph.algorithms.sssp import sssp
from morph.algorithms.triangles import triangle_count
from morph.algorithms.triangulate import triangulate
from morph.data.collect import Collection, Flag, Set
from morph.data.device import device
from morph.data.dtypes import Ref, vec
from morph.data.table import Table
from morph.formula import Formula
from morph.graph import Graph
from morph.kernel import (
    checked,
    foreach,
    func,
    get_num_threads,
    kernel,
    program,
    set_num_threads,
    timing,
)
from morph.lang.errors import CheckError, LanguageError
from morph.mesh import Mesh, MeshError, Pslg
from morph.reduce import reduce

__all__ = [
    "CheckError", "Collection", "DynamicBFS", "DynamicComponents", "DynamicSSSP", "Flag", "Formula",
    "Graph", "LanguageError", "Mesh", "MeshError", "Pslg", "Ref", "Set", "Table", "betweenness",
    "bfs", "checked", "connected_components", "core_number", "device", "foreach", "func",
    "get_num_threads", "k_core", "kernel", "mst", "pagerank", "program", "reduce", "refine",
    "refine_with_report", "set_num_threads", "sssp", "timing", "triangle_count", "triangulate",
    "vec",
]  # fmt: skip
__version__ = "0.1.0"
LAZY = ("generate", "io", "survey", "validate", "worklists")


def __getattr__(name: str) -> object:
    """Import the modules of `LAZY`, as ``morph.io``, when they are first used."""
    if name in LAZY:
        return importlib.import_module(f"morph.{name}")
    raise AttributeError(f"module 'morph' has no attribute {name!r}")
