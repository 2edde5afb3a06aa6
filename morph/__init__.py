"""Morph: graph algorithms that change their graph, in parallel on a GPU or on a CPU's cores."""

import logging

from morph import start  # noqa: F401 - before NumPy is imported

# isort: split
from morph import providers
from morph.algorithms import registry as _registry
from morph.algorithms.community.community import community
from morph.algorithms.dynamic.cores import DynamicCores
from morph.algorithms.dynamic.dynamic import DynamicBFS, DynamicComponents, DynamicSSSP
from morph.algorithms.dynamic.pagerank import DynamicPageRank
from morph.algorithms.graph.cliques import cliques
from morph.algorithms.graph.cores import k_core
from morph.algorithms.graph.cycles import CycleError, NegativeCycle
from morph.algorithms.graph.max_flow import max_flow
from morph.algorithms.graph.path import path
from morph.algorithms.graph.truss import k_truss
from morph.algorithms.refinement.refine import refine, refine_with_report
from morph.algorithms.registry import *  # noqa: F403
from morph.algorithms.triangulation.triangulate import triangulate
from morph.data.collection import Collection, Flag, Set
from morph.data.formula import Formula
from morph.data.scalars import Scalars
from morph.data.table import Table
from morph.graph import Graph
from morph.language.dtypes import Ref, vec
from morph.language.errors import CheckError, LanguageError
from morph.language.imports import import_uninterrupted
from morph.launch.foreach import (
    checked,
    foreach,
    func,
    get_num_threads,
    kernel,
    program,
    set_num_threads,
    timing,
)
from morph.launch.sections import sections
from morph.mesh import Mesh, MeshError, Pslg
from morph.operators.reduce import argmax, argmin, reduce
from morph.operators.scan import scan
from morph.operators.sort import argsort, compact, sort
from morph.partition.array import PartitionedArray
from morph.partition.graph import PartitionedGraph, PerformanceWarning
from morph.partition.partition import partition
from morph.runtime.device import device, get_device, set_device

__all__ = [
    "CheckError", "Collection", "CycleError", "DynamicBFS", "DynamicComponents", "DynamicCores",
    "DynamicPageRank", "DynamicSSSP", "Flag", "Formula", "Graph", "LanguageError", "Mesh",
    "MeshError", "NegativeCycle", "PartitionedArray", "PartitionedGraph", "PerformanceWarning",
    "Pslg", "Ref", "Scalars", "Set", "Table", "argmax", "argmin", "argsort", "checked", "cliques",
    "community", "compact", "device", "foreach", "func", "get_device", "get_num_threads", "k_core",
    "k_truss", "kernel", "max_flow", "partition", "path", "program", "reduce", "refine",
    "refine_with_report", "scan", "sections", "set_device", "set_num_threads", "sort", "timing",
    "triangulate", "vec",
]  # fmt: skip
__all__ += _registry.__all__
providers.bind()
logging.getLogger(__name__).addHandler(logging.NullHandler())  # the program decides

__version__ = "0.2.0"
LAZY = ("generate", "io", "survey", "validate", "worklists")


def __getattr__(name: str) -> object:
    """Import the modules of `LAZY`, as ``morph.io``, when they are first used."""
    if name in LAZY:
        return import_uninterrupted(f"morph.{name}")
    raise AttributeError(f"module 'morph' has no attribute {name!r}")
