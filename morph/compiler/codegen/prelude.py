"""The device runtime, the headers of ``kernels/``, which precede the text of every unit."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from morph.compiler.ir import layout

HEADERS = """core/scalars layout target core/types core/half core/math core/atomics
             storage/column schedule/team storage/store storage/collection schedule/single
             storage/set storage/graph geometry/predicates schedule/staging schedule/high_degree
             schedule/reservation schedule/search schedule/balance schedule/asynchronous
             schedule/sweep schedule/tiles schedule/launch schedule/queue
             schedule/deterministic""".split()
# replaces "target"
CPU = "{target_cpu}#ifdef MORPH_SERIAL\n{serial_cpu}#else\n{team_cpu}#endif\n{slot_caches_cpu}"
TARGETS = f"#ifdef __CUDACC__\n{{target_cuda}}#else\n{CPU}#endif\n"


@cache
def files() -> list[Path]:
    """Return the headers, sorted."""
    package = Path(__file__).parents[2]  # the headers are in it, or beside it in a checkout
    folder = next(f for f in (package / "kernels", package.parent / "kernels") if f.is_dir())
    return sorted(folder.rglob("*.h"))


@cache
def prelude(
    checked: bool = False, rebuilds: bool = False, wide: bool = False, parts: int = 0,
    groups: bool = False, warps: bool = False, single_block: bool = False,
) -> str:  # fmt: skip
    """The device runtime: the headers of ``kernels/``, in order.

    An additional header is included for a unit that is ``checked``, that ``rebuilds`` adjacency,
    that all ``parts`` of a graph execute together (1: in one process, 2: on ranks), that has shared
    arrays (``groups``), or whose items ``warps`` execute.  A unit for a ``single_block`` of a GPU
    has less code.
    In a ``wide`` unit a table has 2^31 rows or more.
    """
    texts = {h.stem: h.read_text() for h in files()}
    texts["layout"] = layout.header(checked, rebuilds, bool(parts))
    texts["target"] = TARGETS.format(**texts)
    found = [texts[Path(h).name] for h in HEADERS]
    if checked:
        found = ["#define MORPH_CHECKED", *found, texts["check"]]
    if rebuilds:
        found = ["#define MORPH_REBUILDS", *found, texts["rebuild"]]
    if parts:
        found = ["#define MORPH_PARTS", *found, texts["parts"]]
    if parts == 2:
        found = ["#define MORPH_RANKS", *found]
    if groups:
        found.append(texts["group"])
    if warps:
        found.append(texts["warp"])
    if single_block:
        found = ["#define MORPH_SINGLE_BLOCK", *found]
    if wide:
        found = ["#define MORPH_WIDE", *found]
    return "\n".join(found)
