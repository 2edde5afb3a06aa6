"""Steps of peeling by levels: of points by degree (`cores`), of edges by support (`truss`).

The column ``remaining`` of an item has the number of its neighbours, or of its triangles, that are
not deleted.  Items that may be deleted at the next levels are in a worklist of their own, ``soon``
(bucketing as in Dhulipala, Blelloch, Shun, Julienne, 2017), so the others are scanned once in
`SOON` levels.
"""

# mypy: disable-error-code="no-untyped-def"
from morph.launch.foreach import kernel
from morph.prelude import atomic_max, atomic_min

INFINITY = 2**31 - 1
SOON = 15  # levels beyond the next one whose items are in a worklist; initially fewer


@kernel
def find_range(x, counts):
    """Find the least and the largest ``remaining``."""
    atomic_min(counts.least, x.remaining)
    atomic_max(counts.most, x.remaining)


@kernel
def split(x, limit, soon, rest):
    """Divide the items: ``soon`` may be deleted at a level up to ``limit``."""
    if x.remaining <= limit:
        soon.add(x)
    else:
        rest.add(x)
