"""Graphs: made of arrays, kept in two indices, changed by batches of edges."""

from morph.graph.graph import Graph as Graph
