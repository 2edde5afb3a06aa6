"""Data exchange between parts of a graph in a program: calls of ``kernels/schedule/parts.h``."""

from __future__ import annotations

from morph.compiler.codegen.emission import Emission
from morph.compiler.codegen.operations import CROSSING
from morph.compiler.ir import abi
from morph.compiler.ir import nodes as ir
from morph.compiler.ir.abi import CTYPE
from morph.compiler.ir.layout import MESSAGE_WORDS
from morph.compiler.passes.plan import ANY_MEMORY, StepPlan

RELEASE = "    release_barrier<true>(a, t);"  # of a barrier with a crossing


def stops(s: StepPlan) -> list[str]:
    """The statements after a crossing, at which all parts stop, or leave and resume later."""
    return [f"if (stops(t)) {{ t.step = {s.number}; return; }}", "t.crossed = false;"]


def agreement(e: Emission, s: StepPlan) -> list[str]:
    """The crossing at a step's barrier: `failed` becomes true if it is true on any part."""
    sent, received, values = _agreement(e, s)
    result = "failed = ON_RANKS ? failed : " if is_fence(s) else "failed = "
    return _crossing(s, result, len(sent), sent, received + values)


def is_fence(s: StepPlan) -> bool:
    """Whether a crossing only orders stores into other parts: no words are exchanged."""
    return isinstance(s.node, ir.Exchange) and not s.node.spreads or bool(s.agree and s.agree.fence)


def _agreement(e: Emission, s: StepPlan, first: int = 0) -> tuple[list[str], ...]:
    """Statements that set, and that read, the words from ``first`` on: flags, sizes, values."""
    agree, sent, received, values = s.agree, list[str](), list[str](), list[str]()
    if agree and agree.flags:
        flags = [f"a.{e.names.prefix[f]}_flag + t.{e.names.prefix[f]}_turn" for f in agree.flags]
        raised = (f"u64(load({f}) != 0) << {i}" for i, f in enumerate(flags))
        sent.append(f"w[{first}] = {' | '.join(raised)};")
        for i, f in enumerate(flags):
            received.append(f"if (or_of_parts(w, {first}) >> {i} & 1) store({f}, 1);")
    for slot in s.exchanged_sizes:
        x, k = f"{e.names.prefix[slot]}_counters", first + len(sent)
        sent.append(f"w[{k}] = u64({x}.count - min_of({x}.head, {x}.last));")
        received.append(f"store({e.names.base(slot)}_meta + GLOBAL, i64(sum_of_parts(w, {k})));")
    for t in agree.values if agree else ():
        at, k, b = e.names.column(t.place.slot, t.place.column), first + len(sent), e.uniform()
        row = "0" if t.place.index is None else f"0, {b.expr(t.place.index)}"
        sent.append(f"w[{k}] = u64(to_bits({at}.get({row})));")
        value = f"agreed<{CROSSING[t.op]}, {CTYPE[t.place.type.name]}>"  # type: ignore[attr-defined]
        values.append(f"{at}.set({row}, {value}(w, {k}, {b.expr(t.before)}));")
    return sent, received, values


def _crossing(
    s: StepPlan, result: str, number: int | str, sent: list[str], received: list[str]
) -> list[str]:
    publish = ["[&](u64* w) {", *(f"    {x}" for x in sent), "},"]
    combine = ["[&](const Published& w) {", *(f"    {x}" for x in received), "});"]
    step = abi.crossing(*map(int, s.name.split("_")))
    return [f"{result}cross(a, t, {step}, failed, {number}, {publish[0]}", *publish[1:-1],
            f"}}, {combine[0]}", *combine[1:]]  # fmt: skip


def crossing_steps(e: Emission, s: StepPlan) -> list[str]:
    """The statements, executed by all threads, of a step that exchanges rows between parts."""
    match s.node:
        case ir.FillMirrors(mirrors=mirrors):
            return [*(f"fill_mirrors<{_mirrors(e, m)});" for m in mirrors), "barrier(a, t);"]
        case ir.Exchange() as node:
            return [*_unless_crossed(s, _exchange(e, node)), *_set_mirrors(e, node)]
        case ir.Combine() as node:
            return _unless_crossed(s, [_combine(e, node)])
        case ir.Deliver() as node:
            return _deliver(e, s, node)
    raise AssertionError(s.node)


def _unless_crossed(s: StepPlan, lines: list[str]) -> list[str]:
    """Statements before a crossing, and the crossing, at which a launch may resume."""
    before = ["if (!t.crossed) {", *(f"    {x}" for x in lines), "}"] if lines else []
    return [*before, f"end{s.name}(a, t);", *stops(s)]


def _exchange(e: Emission, node: ir.Exchange) -> list[str]:
    """Combine owned rows with their mirrors, then send them to the mirrors; then a crossing."""
    lines = []
    for m in node.combines:
        lines.append(f"combine_mirrors<{CROSSING[m.op]}, {_mirrors(e, m)}, {_peers(e, m)});")
    if node.combines and node.spreads:
        lines.append("barrier(a, t);")
    return lines + [_spread(e, m) for m in node.spreads]


def _spread(e: Emission, m: ir.Mirrors) -> str:
    """Send owned rows to their mirrors: all rows, the marked ones, or a bit for each."""
    assert e.parts is not None
    if m.value is not None:
        return f"send_equal({_equal(e, m)}, {e.parts.routes[m.slot]}, {_bits(e, m)});"
    args = f"{_mirrors(e, m)}, {_peers(e, m)}"
    if not m.marked:
        return f"spread_column<{args});"
    return f"spread_marked<{args}, {e.parts.marks[m.slot, m.column]});"


def _set_mirrors(e: Emission, node: ir.Exchange) -> list[str]:
    """Set the mirrors of which bits have been received; a barrier precedes the next step."""
    equal = [m for m in node.spreads if m.value is not None]
    lines = [f"set_equal({_equal(e, m)}, {_bits(e, m)});" for m in equal]
    return [*lines, f"t.has_read |= {ANY_MEMORY:#x}u;"] if lines else []


def _equal(e: Emission, m: ir.Mirrors) -> str:
    """The arguments for a column whose changed values are equal."""
    assert m.value is not None
    return f"a, t, {e.names.column(m.slot, m.column)}, {e.uniform().expr(m.value)}"


def _bits(e: Emission, m: ir.Mirrors) -> str:
    assert e.parts is not None
    return str(e.parts.bits[m.slot, m.column])


def _combine(e: Emission, node: ir.Combine) -> str:
    """Combine the rows of this part's range in the copies of a column, for all parts."""
    column = e.names.stores[node.slot].column(node.column)
    assert column is not None and e.parts is not None
    args = f"{e.names.column(node.slot, node.column)}, {e.names.base(node.slot)}_meta"
    peers = e.parts.peers[node.slot, node.column]
    return f"combine_copies<{CROSSING[node.op]}, {max(column.size, 1)}>(a, t, {args}, {peers});"


def deliver_ends(e: Emission, s: StepPlan, node: ir.Deliver) -> None:
    """The crossing of a delivery: the messages with their counts."""
    inbox = f"{e.names.base(node.inbox)}_meta"
    lists, cleared, quiet = list[str](), list[str](), list[str]()
    for slot in s.exchanged_sizes:
        lists.append(
            f"CollectionCounters {e.names.prefix[slot]}_counters({e.names.base(slot)}_meta, TO);"
        )
    sent, received, values = _agreement(e, s, MESSAGE_WORDS)
    for slot in s.receiver.clears if s.receiver else ():  # the receiver is skipped if all are quiet
        meta = f"{e.names.base(slot)}_meta"
        cleared += [f"CollectionCounters({meta}, TO).clear();", f"store({meta} + GLOBAL, 0);"]
    if values or cleared:
        quiet = ["if (quiet) {", *(f"    {x}" for x in values + cleared), "}"]
    failed = "load(a.status + FAILED) != 0" if s.sender else "false"
    counted = [
        *lists,
        f"bool full = false, quiet = false, failed = {failed};",
        *_crossing(
            s, "failed = ", MESSAGE_WORDS + len(sent),
            ["publish_message_counts(a, w);", *sent],
            [f"full = receive_messages(a, w, {inbox}, {e.names.index[node.inbox]});",
             "quiet = is_quiet(w);", *received, *quiet],
        ),
        "store(a.parts + PARTS_QUIET, quiet);",
        "broadcast(t, failed || full || quiet);",
    ]  # fmt: skip
    inner = ["    if (arrive(a, t)) {", *(f"        {x}" for x in counted), "        rewind(a);"]
    e.put("", f"MORPH_FN void end{s.name}(const Args& a, Run& t) {{")
    named = {*s.exchanged_sizes, *(s.receiver.clears if s.receiver else ())}
    e.put(*e.with_permutation([*inner, "    }"], "t", named), RELEASE, "}")


def _deliver(e: Emission, s: StepPlan, node: ir.Deliver) -> list[str]:
    """Send messages to the owners of their rows; if an inbox is full, all parts return."""
    n, parts = e.names, e.parts
    assert parts is not None
    route = parts.routes[node.table]
    items = f"{n.base(node.outbox)}_meta, {n.column(node.outbox, 'item')}"
    args = f"a, t, {items}, {n.base(node.inbox)}_meta, {route}"
    is_sent = "EveryMessage()"
    if (b := node.bound) is not None:
        offered = n.column(node.outbox, node.offered)
        is_sent = f"best_value<{CROSSING[b.op]}>({n.column(b.slot, b.column)}, {offered})"
    columns = [c for c in n.stores[node.inbox].columns if c.name != "item"]
    sent = [
        f"sent_column<{max(c.size, 1)}>({n.column(node.outbox, c.name)},"
        f" {parts.peers[node.inbox, c.name]})"
        for c in columns
    ]
    push = ", ".join([args, str(parts.peers[node.inbox, "item"]), is_sent, *sent])
    lines = list[str]()
    for c in columns:
        if c.name in node.points and node.ids:
            ids = n.column(node.ids.slot, node.ids.column)
            at = f"a, t, {n.base(node.inbox)}_meta, {n.column(node.inbox, c.name)}"
            lines.append(
                f"localise_points<{max(c.size, 1)}>({at}, {ids}, {parts.routes[node.ids.slot]});"
            )
    if node.points:
        lines.append("barrier(a, t);")
    resumed = s.sender or s
    return [
        *_unless_crossed(s, [f"push_messages({push});"]),
        "t.quiet = t.broadcast_value && load(a.parts + PARTS_QUIET);",
        "if (t.broadcast_value && !t.quiet) {",
        *(["    t.launch++;  // that of the step"] if s.sender and e.plan.locks else []),
        f"    t.step = {resumed.number}, t.replay = true;",
        "    return;",
        "}",
        "t.replay = false;",
        *(["if (!t.quiet) {", *(f"    {x}" for x in lines), "}"] if lines else ()),
    ]


def _mirrors(e: Emission, m: ir.Mirrors) -> str:
    """The template argument (values per row), and the arguments for a column and its route."""
    column = e.names.stores[m.slot].column(m.column)
    assert column is not None and e.parts is not None
    at = e.names.column(m.slot, m.column)
    return f"{max(column.size, 1)}>(a, t, {at}, {e.parts.routes[m.slot]}"


def _peers(e: Emission, m: ir.Mirrors) -> str:
    assert e.parts is not None
    return str(e.parts.peers[m.slot, m.column])
