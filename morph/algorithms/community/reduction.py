"""Reduction of a node of the search for a community, and the candidate to branch on.

`reduce_node` removes candidates that no solution of the node has, chooses those that all have, and
detects nodes without a solution (Yao, Chang, PVLDB 2021: reductions by degree and distance, rules
for vertices without spare neighbours).  `next_candidate` removes candidates that are adjacent to
too few of the chosen vertices that lack neighbours (`least_gain`), and those that need, with such a
vertex, more neighbours than there are slots, and have too few candidates in common
(`keep_compatible`).
"""

# mypy: disable-error-code="valid-type,no-untyped-def"
from __future__ import annotations

from morph.algorithms.community.nodes import count_common, count_in_both, row_of
from morph.algorithms.graph.cliques import bit, size_of
from morph.launch.foreach import func
from morph.prelude import bit_positions, i32, i64, popcount, u64

VERTEX_BITS, COUNT_BITS = 18, 15  # of the fields of a score, see `score_of`
LAST_VERTEX, MOST_COUNTED = (1 << VERTEX_BITS) - 1, (1 << COUNT_BITS) - 1
NO_KEY = (1 << 62) - 1  # larger than each key (neighbours, vertex) of find_lacking
NO_LIMIT = (1 << 62) - 1  # of numbers of nodes and of solutions


@func
def max_distance(k, max_size):
    """Return the largest distance in a graph of ``max_size`` vertices and minimum degree ``k``."""
    far = i32(1)
    if k == 1:
        far = max_size - 1
    elif k + 2 <= max_size:
        far = i32(2)
        while k + far + 2 + (far + 1) // 3 * (k - 2) <= max_size:
            far += 1
    return far


@func
def choose_neighbours(node, adjacency, row, words):
    """Choose all candidates of a row."""
    for j in range(words):
        node.chosen[j] = node.chosen[j] | (adjacency[row + j] & node.candidates[j])
        node.candidates[j] = node.candidates[j] & ~adjacency[row + j]


@func
def keep_neighbours(node, adjacency, row, words):
    """Remove the candidates that are not in a row; return whether there were any."""
    removed = False
    for j in range(words):
        if node.candidates[j] & ~adjacency[row + j] != u64(0):
            removed = True
            node.candidates[j] = node.candidates[j] & adjacency[row + j]
    return removed


@func
def check_chosen(node, q, adjacency, k, slots_left, words):
    """Apply the degree rules to the chosen vertices; return as `reduce_by_degrees`."""
    changed, possible, first = False, True, q.first_word
    for j in range(words):
        if possible:
            failed, full, closed = u64(0), u64(0), u64(0)
            for i in bit_positions(node.chosen[j]):
                row = row_of(first, 64 * i64(j) + i, words)
                inside, outside = count_in_both(adjacency, row, node.chosen, node.candidates, words)
                if inside + outside < k or inside + slots_left < k:
                    failed = failed | bit(i)
                elif inside + outside == k and inside < k:  # all its neighbours are needed
                    full = full | bit(i)
                elif inside + slots_left == k:  # only its neighbours can be added
                    closed = closed | bit(i)
            possible = failed == u64(0)
            if possible and full | closed != u64(0):
                for i in bit_positions(full):
                    choose_neighbours(node, adjacency, row_of(first, 64 * i64(j) + i, words), words)
                    changed = True
                for i in bit_positions(closed):
                    row = row_of(first, 64 * i64(j) + i, words)
                    changed = keep_neighbours(node, adjacency, row, words) or changed
    return changed, possible


@func
def reduce_by_degrees(node, q, adjacency, k, words):
    """Apply the degree rules; return whether a set changed, and whether a solution is possible."""
    slots_left = q.max_size - size_of(node.chosen, words)
    possible = slots_left >= 0
    if slots_left <= 0:
        for j in range(words):
            node.candidates[j] = u64(0)
    changed, first = False, q.first_word
    if possible:
        changed, possible = check_chosen(node, q, adjacency, k, slots_left, words)
    if possible:
        for j in range(words):
            few = u64(0)
            for i in bit_positions(node.candidates[j]):
                row = row_of(first, 64 * i64(j) + i, words)
                inside, outside = count_in_both(adjacency, row, node.chosen, node.candidates, words)
                if inside + outside < k or inside + slots_left - 1 < k:
                    few = few | bit(i)
            node.candidates[j] = node.candidates[j] & ~few
            changed = changed or few != u64(0)
    return changed, possible


@func
def find_reached(node, q, adjacency, distance, words):
    """Find the vertices within a distance of the query's in the subgraph of ``node.subgraph``."""
    for j in range(words):
        node.reached[j] = u64(0)
        node.frontier[j] = u64(0)
    node.frontier[0] = u64(1)
    node.reached[0] = u64(1)
    more, first = True, q.first_word
    while distance > 0 and more:
        distance -= 1
        more = False
        for j in range(words):
            node.neighbours[j] = u64(0)
        for j in range(words):
            for i in bit_positions(node.frontier[j]):
                row = row_of(first, 64 * i64(j) + i, words)
                for w in range(words):
                    node.neighbours[w] = node.neighbours[w] | adjacency[row + w]
        for j in range(words):
            node.frontier[j] = node.neighbours[j] & node.subgraph[j] & ~node.reached[j]
            node.reached[j] = node.reached[j] | node.frontier[j]
            more = more or node.frontier[j] != u64(0)


@func
def reduce_by_distance(node, q, adjacency, k, words):
    """Remove candidates far from the query; return as `reduce_by_degrees`."""
    for j in range(words):
        node.subgraph[j] = node.chosen[j] | node.candidates[j]
    find_reached(node, q, adjacency, max_distance(k, q.max_size), words)
    changed, possible = False, True
    for j in range(words):
        if node.chosen[j] & ~node.reached[j] != u64(0):
            possible = False
        if node.candidates[j] & ~node.reached[j] != u64(0):
            node.candidates[j] = node.candidates[j] & node.reached[j]
            changed = True
    return changed, possible


@func
def reduce_node(node, q, adjacency, k, words):
    """Apply the rules until they change nothing; return whether the node may have a subgraph."""
    changed, possible = True, True
    while changed and possible:
        changed, possible = reduce_by_degrees(node, q, adjacency, k, words)
        if possible and not changed:
            changed, possible = reduce_by_distance(node, q, adjacency, k, words)
    return possible and size_of(node.chosen, words) + size_of(node.candidates, words) >= q.min_size


@func
def find_lacking(node, q, adjacency, k, words):
    """Find chosen vertices of too few chosen neighbours.

    Return their number; how many neighbours they lack together; and the row (see `row_of`) of the
    one with the fewest neighbours that are chosen or candidates, -1 if there is none.
    """
    missing, fewest, first = i32(0), NO_KEY, q.first_word
    for j in range(words):
        lacking = u64(0)
        for i in bit_positions(node.chosen[j]):
            v = 64 * i64(j) + i
            row = row_of(first, v, words)
            inside, outside = count_in_both(adjacency, row, node.chosen, node.candidates, words)
            if inside < k:
                missing += k - inside
                lacking = lacking | bit(i)
                fewest = min(fewest, (i64(inside + outside) << VERTEX_BITS) + v)
        node.lacking[j] = lacking
    count, focus = i32(0), i64(-1)
    if fewest < NO_KEY:
        focus = row_of(first, fewest & LAST_VERTEX, words)
        for j in range(words):
            for i in bit_positions(node.lacking[j]):
                v = 64 * i64(j) + i
                row = row_of(first, v, words)
                node.needy[count] = v
                node.needs[count] = k - count_common(adjacency, row, node.chosen, words)
                count += 1
    return count, missing, focus


@func
def score_of(gained, inside, among, v):
    """Return a number that is larger for more lacking neighbours, then chosen ones, then all.

    Among equal ones it is larger for the first vertex.  Counts are bounded, which only matters for
    the order of the search.
    """
    score = (i64(min(gained, MOST_COUNTED)) << COUNT_BITS) + i64(min(inside, MOST_COUNTED))
    score = (score << COUNT_BITS) + i64(min(among, MOST_COUNTED))
    return (score << VERTEX_BITS) + (LAST_VERTEX - v)


@func
def best_candidate(node, q, adjacency, focus, words):
    """Count the candidates by gain; return one of the most lacking, then of the most neighbours.

    It is a neighbour of the row ``focus``, if that is not -1.
    """
    for gain in range(q.max_size + 1):
        node.gains[gain] = i32(0)
    best, first = i64(-1), q.first_word
    for j in range(words):
        near = ~u64(0)
        if focus >= 0:
            near = adjacency[focus + j]
        for i in bit_positions(node.candidates[j]):
            v = 64 * i64(j) + i
            row = row_of(first, v, words)
            gained, inside = count_in_both(adjacency, row, node.lacking, node.chosen, words)
            node.gains[gained] += 1
            if near & bit(i) != u64(0):
                among = inside + count_common(adjacency, row, node.candidates, words)
                best = max(best, score_of(gained, inside, among, v))
    return LAST_VERTEX - (best & LAST_VERTEX) if best >= 0 else i64(-1)


@func
def least_gain(node, missing, slots_left, max_size):
    """Return how many missing neighbours any added candidate must provide.

    These are all but those that the candidates of the largest gains provide in the other slots.
    """
    gain, others = max_size, slots_left - 1
    while gain > 0 and others > 0 and missing > 0:
        taken = min(node.gains[gain], others)
        missing -= taken * gain
        others -= taken
        gain -= 1
    return missing


@func
def lacks_common(node, adjacency, row, other, needed, words):
    """Return whether two rows have fewer candidates in common than are needed."""
    for j in range(words):
        if needed > 0:
            needed -= i32(popcount(adjacency[row + j] & adjacency[other + j] & node.candidates[j]))
    return needed > 0


@func
def keep_compatible(node, q, adjacency, count, least, slots_left, words):
    """Remove candidates of too small a gain, and those that do not fit one of the lacking vertices.

    If a candidate and a vertex need more neighbours together than there are other slots, they have
    some of these in common.  Return whether there were such candidates; ``count`` vertices lack
    neighbours.
    """
    removed, first, degree = False, q.first_word, q.degree
    for j in range(words):
        unfit = u64(0)
        for i in bit_positions(node.candidates[j]):
            row = row_of(first, 64 * i64(j) + i, words)
            gained, inside = count_in_both(adjacency, row, node.lacking, node.chosen, words)
            needed = degree - inside - slots_left + 1
            compatible, n = gained >= least, 0
            while compatible and n < count:
                both = needed + node.needs[n]
                if both > 0:
                    v = node.needy[n]
                    if adjacency[row + (v >> 6)] & bit(v) != u64(0):
                        both -= 1
                    other = row_of(first, v, words)
                    compatible = not lacks_common(node, adjacency, row, other, both, words)
                n += 1
            if not compatible:
                unfit = unfit | bit(i)
        node.candidates[j] = node.candidates[j] & ~unfit
        removed = removed or unfit != u64(0)
    return removed


@func
def size_bound(node, q, adjacency, words):
    """Bound the size of a subgraph by the members that each chosen vertex may still lack.

    Candidates that are no neighbours of a chosen vertex are counted for the first that may not lack
    them all (Jiang, Zhu, Wang, Lu, Hao, IJCAI 2021).
    """
    size, first = size_of(node.chosen, words), q.first_word
    bound, slack = size, q.max_size - q.degree - size
    for j in range(words):
        node.frontier[j] = node.candidates[j]
    for j in range(words):
        for i in bit_positions(node.chosen[j]):
            row = row_of(first, 64 * i64(j) + i, words)
            may_lack = slack + count_common(adjacency, row, node.chosen, words)
            outside = size_of(node.frontier, words) - count_common(
                adjacency, row, node.frontier, words
            )
            if outside > may_lack:
                bound += may_lack
                for w in range(words):
                    node.frontier[w] = node.frontier[w] & adjacency[row + w]
    return bound + size_of(node.frontier, words)


@func
def next_candidate(node, q, adjacency, count, missing, focus, words):
    """Remove candidates; return the candidate of the next branch, and whether any were removed.

    The candidate is -1 if the node has no subgraph.
    """
    v = best_candidate(node, q, adjacency, focus, words)
    slots_left = q.max_size - size_of(node.chosen, words)
    least = least_gain(node, missing, slots_left, q.max_size)
    removed = keep_compatible(node, q, adjacency, count, least, slots_left, words)
    if not removed and size_of(node.chosen, words) < q.min_size:
        if size_bound(node, q, adjacency, words) < q.min_size:
            v = i64(-1)
    return v, removed
