"""Nodes of the branch and bound for a community: sets of bits, operations on them, open nodes."""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from typing import Any

from morph.algorithms.graph.cliques import bit
from morph.launch.foreach import func
from morph.prelude import atomic_max, i32, i64, local, popcount, struct, u64

STANDARD_WORDS = 4  # of sets; items visit fewer nodes of larger ones, which take longer
WIDE_WORDS, WIDEST_WORDS = 16, 64  # of larger sets, see `node_struct`


def node_struct(words: int, slots: int, lists: int) -> Any:
    """Return a struct for a node with sets of up to so many words and a stack of ``slots`` words.

    Collections are twice as large where these do not suffice, which compiles the unit again.
    """

    @struct
    class Node:
        """A node of the search, and what is computed of it; all but four are bit words."""

        chosen: local(u64, words)
        candidates: local(u64, words)
        reached: local(u64, words)
        frontier: local(u64, words)
        subgraph: local(u64, words)
        neighbours: local(u64, words)  # neighbours of the front
        lacking: local(u64, words)  # chosen vertices of degree below k among these
        needy: local(i64, lists)  # the vertices of ``lacking`` as a list
        needs: local(i32, lists)  # how many neighbours each vertex of ``needy`` lacks
        gains: local(i32, lists)  # candidates by their number of lacking neighbours
        stack: local(u64, slots)  # the sets of open nodes, chosen vertices first
        depth: local(i32, 1)  # how many words of these are in use

    return Node


Node = node_struct(STANDARD_WORDS, 256, 32)
WideNode = node_struct(WIDE_WORDS, 512, 32)
WidestNode = node_struct(WIDEST_WORDS, 2048, 32)


@func
def allocate(node, max_depth, words):
    """Fill the sets of a new node with zeros."""
    for _ in range(words):
        node.chosen.add(u64(0))
        node.candidates.add(u64(0))
        node.reached.add(u64(0))
        node.frontier.add(u64(0))
        node.subgraph.add(u64(0))
        node.neighbours.add(u64(0))
        node.lacking.add(u64(0))
    for _ in range(max_depth + 1):
        node.gains.add(i32(0))
        node.needy.add(i64(0))
        node.needs.add(i32(0))
    for _ in range(2 * words * (max_depth + 1)):
        node.stack.add(u64(0))
    node.depth.add(i32(0))


@func
def row_of(first, v, words):
    """Return the first word of a vertex's neighbours in ``adjacency``; ``first`` of the query's."""
    return first + i64(words) * v


@func
def count_common(adjacency, row, s, words):
    """Count the members of a set among the neighbours of a row."""
    total = i32(0)
    for j in range(words):
        total += i32(popcount(adjacency[row + j] & s[j]))
    return total


@func
def count_in_both(adjacency, row, one, other, words):
    """Count the members of two sets among the neighbours of a row."""
    first, second = i32(0), i32(0)
    for j in range(words):
        bits = adjacency[row + j]
        first += i32(popcount(bits & one[j]))
        second += i32(popcount(bits & other[j]))
    return first, second


@func
def low_bits(count):
    """Return a word whose lowest ``count`` bits are set."""
    return ~u64(0) if count >= 64 else bit(max(count, 0)) - u64(1)


@func
def push(node, words):
    """Add the sets of a node to the stack."""
    depth = node.depth[0]
    for j in range(words):
        node.stack[depth + j] = node.chosen[j]
        node.stack[depth + words + j] = node.candidates[j]
    node.depth[0] = depth + 2 * words


@func
def pop(node, words):
    """Remove the sets of the last added node from the stack, and set the node to them."""
    depth = node.depth[0] - 2 * words
    for j in range(words):
        node.chosen[j] = node.stack[depth + j]
        node.candidates[j] = node.stack[depth + words + j]
    node.depth[0] = depth


@func
def make_root(node, size, words):
    """Set a node to the query and all its candidates."""
    for j in range(words):
        node.chosen[j] = u64(0)
        node.candidates[j] = low_bits(size - 64 * j)
    node.chosen[0] = u64(1)
    node.candidates[0] = node.candidates[0] & ~u64(1)


@func
def end_rows(queries, first, count):
    """End the searches of ``count`` consecutive rows of queries."""
    for i in range(count):
        atomic_max(queries[first + i].solved, 1)
