"""Base class of dynamic algorithms: batches, the choice to repair or to recompute, rollback.

The values of points are repaired after a batch of changes, in time proportional to the part of the
graph that the batch affects (`morph.algorithms.dynamic.repair`).  If this part exceeds a share of
all points, all values are recomputed, which then costs less.  The choice depends on the affected
part, not on the size of the batch: one new edge may shorten the paths to nearly all points of a
grid.

Updates are atomic: ``old_value`` has the values before the batch, and the log of the repair the
changed vertices and their old predecessors, so that a batch that fails at any point is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from morph.algorithms.dynamic import repair
from morph.algorithms.graph.arguments import as_graph
from morph.data.collection import Collection, Flag
from morph.data.table import Table
from morph.data.versions import exclusive
from morph.graph.applied import Applied
from morph.language.arguments import check_callable
from morph.language.messages import shown
from morph.operators.bucket_queue import BucketQueue, Visit, run_in_order
from morph.partition.graph import PartitionedGraph
from morph.prelude import i32, i64
from morph.runtime.arrays import count_true

ALONE = 1 << 15  # log entries up to which one CPU thread repairs, without barriers
BATCH = 8  # numbers of `repair.Batch`
make_tuple = tuple.__new__
BLOCK = 1 << 7  # log entries up to which one block of a GPU repairs


class Update(NamedTuple):
    """The effect of a batch on the values.

    Attributes
    ----------
    decision : {"repaired", "recomputed"}
    affected : int
        Points whose value or predecessor was recomputed; if all were, points whose value has
        changed.
    rounds : int
        Relaxation steps of the repair, or of the attempt to repair.
    graph_seconds, repair_seconds : float
        Time to change the graph, and to repair the values.  A batch of one change, and any batch
        on a GPU, may be timed as a whole: then ``graph_seconds`` is the sum, and ``repair_seconds``
        is 0.
    applied : Applied
        The result of `Graph.apply`.
    """

    decision: str
    affected: int
    rounds: int
    graph_seconds: float
    repair_seconds: float
    applied: Any


def _filled_first(a: Collection, b: Collection) -> tuple[Collection, Collection]:
    """Two buffers in the order they had when a program returned, which may have swapped them."""
    return (b, a) if len(b) else (a, b)


def followed(graph: Any) -> Any:
    """Return a partitioned graph unchanged, of others the result of `as_graph`."""
    return graph if isinstance(graph, PartitionedGraph) else as_graph(graph)


class Maintained:
    """A result that is kept up to date under batches of changes, each of which is atomic.

    Subclasses repair the result after a batch, recompute it, and roll it back.
    """

    graph: Any
    _lock: Any
    _seen = -1  # `Graph.changes` of the result; -1: unknown, recompute at the next use
    _recomputed = 0  # how often the result was recomputed on demand, which commits it
    _nonnegative = False  # refuse batches with negative weights
    _rolls_back = True  # else the result is recomputed after a batch whose repair failed

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} follows its graph, so it cannot be copied or pickled: copy"
            " the graph, and make another one of the copy"
        )

    # --- to be defined by subclasses -------------------------------------------------------------

    def _repair(self, applied: Any) -> tuple[str, int, int]:
        """Repair the result; returns decision, affected points, rounds."""
        raise NotImplementedError

    def _recompute(self, rounds: int) -> tuple[str, int, int]:
        """Recompute the result; returns as `_repair`."""
        raise NotImplementedError

    def _put_back(self) -> None:
        """Roll back the result after a batch that failed."""
        raise NotImplementedError

    def _apply_prepared(self, inserts: Any, deletes: Any, updates: Any) -> Update | None:
        """Apply a batch and repair the result by prepared launches.

        None, with nothing changed, if they are not ready, or the batch needs more.
        """
        return None

    def _check_weights(self, applied: Any) -> None:
        """Raise an error for weights that `Graph.apply` accepts, but the algorithm does not."""

    # --- changes ---------------------------------------------------------------------------------

    def apply(
        self, inserts: Any = None, deletes: Any = None, updates: Any = None,
        delete_points: Any = None, *, then: Callable[[Any], object] | None = None,
    ) -> Update:  # fmt: skip
        """Change the graph, and bring the values up to date: all of it or, if it raises, nothing.

        Parameters
        ----------
        inserts, deletes, updates, delete_points, then
            As in `Graph.apply`; ``then`` is called when the values are right, too.

        Returns
        -------
        Update

        Raises
        ------
        TypeError, ValueError, OverflowError
            If the batch is not right (see `Graph.apply`), or, of `DynamicSSSP`, a weight negative
            or NaN.
        """
        if then is not None:
            check_callable(then, "then")
        with self._lock:
            simple = then is None and delete_points is None
            if simple and self._seen == self.graph.changes and not self.graph._numbers_are_labels:
                try:
                    done = self._apply_prepared(inserts, deletes, updates)
                except BaseException as error:
                    self._fail(error, changed=True)
                    raise
                if done is not None:
                    self._commit()
                    return done
            return self._apply(inserts, deletes, updates, delete_points, then)

    def _apply(
        self, inserts: Any, deletes: Any, updates: Any, delete_points: Any,
        then: Callable[[Any], object] | None,
    ) -> Update:  # fmt: skip
        """Apply a batch of any size."""
        self._follow_others()
        begin, recomputed = perf_counter(), self._recomputed
        report: list[Any] = []

        def repair_values(applied: Any) -> None:
            report.append(perf_counter())
            report.append(self._repair(applied))
            report.append(perf_counter())
            if then is not None:
                self._seen = self.graph.changes  # `then` may read the repaired values
                then(applied)

        try:
            applied = self.graph.apply(
                inserts, deletes, updates, delete_points,
                nonnegative=self._nonnegative, then=repair_values,
            )  # fmt: skip
        except BaseException as error:
            self._fail(error, bool(report), self._recomputed != recomputed)
            raise
        self._commit()
        middle, (decision, affected, rounds), end = report
        return Update(decision, affected, rounds, middle - begin, end - middle, applied)

    def _fail(self, error: BaseException, changed: bool, recomputed: bool = False) -> None:
        """Roll back the result after a failed batch.

        The batch may have ``changed`` the graph, its ``then`` may have ``recomputed`` the result.
        """
        self._seen = -1
        self._put_back()
        # after an interrupt the graph may have changed, so the result is recomputed
        rolled_back = self._rolls_back and not recomputed
        if isinstance(error, Exception) and (rolled_back or not changed):
            self._seen = self.graph.changes

    @exclusive
    def update(self, applied: Any) -> Update:
        """Update the values after ``graph.apply``, which returned ``applied``.

        For several objects that share a graph: one applies the batch, the others call `update`.

        Raises
        ------
        TypeError
            If ``applied`` is another object.
        ValueError
            If the batch was another graph's, or a weight is negative or NaN.  The values are then
            rolled back, and recomputed at the next use.
        """
        begin = perf_counter()
        if not isinstance(applied, Applied):
            raise TypeError(f"applied is a result of Graph.apply, not {shown(applied)}")
        if applied._graph is not self.graph:
            raise ValueError("this batch was applied to another graph")
        self._recomputed += 1
        now = applied._since, applied._changes
        if now != (self._seen, self.graph.changes):  # the graph has changed before that, or since
            self._seen = -1
        try:
            self._check_weights(applied)
            decision, affected, rounds = (
                self._recompute(0) if self._seen < 0 else self._repair(applied)
            )
        except BaseException:
            self._put_back()
            self._seen = -1
            raise
        self._commit()
        return Update(decision, affected, rounds, 0.0, perf_counter() - begin, applied)

    @exclusive
    def refresh(self) -> None:
        """Recompute all values; needed only after weights were written directly."""
        self._recomputed += 1
        try:
            self._recompute(0)
        except BaseException:
            self._put_back()
            raise
        self._commit()

    def _commit(self) -> None:
        """Commit: make the current values the state to which a failed batch is rolled back."""
        self._seen = self.graph.changes

    def _follow_others(self) -> None:
        """Recompute if the graph was changed by other means."""
        if self._seen != self.graph.changes:
            self.refresh()


class BoundRepair:
    """The program that repairs values, bound for launches behind the program of a batch.

    Attributes
    ----------
    changes : updates.single.PreparedBatch
        The program of the batch.
    program : morph.launch.prepared.Prepared
    most : int
        Points that may be affected before all values are recomputed.
    pause_at : int
        Entries of the log after which the program returns.
    partial : bool
        See `repair.Batch`.
    behind : bool
        Whether it is launched behind the program of the batch, not in the same launch.
    write : callable
        Writes the numbers of `repair.Batch`.
    """

    __slots__ = (
        "_bound_to", "_points", "behind", "changes", "most", "partial", "pause_at", "program",
        "write",
    )  # fmt: skip

    def __init__(
        self, values: Dynamic, changes: Any, program: Any, most: int, pause_at: int, partial: bool
    ) -> None:  # fmt: skip
        self.changes, self.program, self.most = changes, program, most
        self.pause_at, self.partial = min(pause_at, most), partial
        self.behind = program.launch.function is repair.repair
        infinity, largest, queue = values._infinity.item(), values._most.item(), values._queue
        leading = infinity, largest, self.pause_at
        trailing = queue.delta.item(), queue.largest.item(), queue.adaptive
        # the repair's numbers are the last ones
        first = len(program.launch.compiled.names) - len(leading) - BATCH - len(trailing)
        program.writer(first, len(leading))(*leading)
        self.write = program.writer(first + len(leading), BATCH)
        program.writer(first + len(leading) + BATCH, len(trailing))(*trailing)
        self._bound_to, self._points = (queue, values.share), len(values._tree)

    def fits(self, values: Dynamic, points: int) -> bool:
        """Whether the launch is still valid: its objects, its limits, the number of points."""
        queue, share = self._bound_to
        same = values._queue is queue and values.share == share and points == self._points
        return same and self.program.current()

    def ready(self, values: Dynamic) -> bool:
        """Whether a batch of one change may use the launch: nothing it depends on has changed.

        If not, `fits` and the state of the graph's batches have to be asked.
        """
        return (
            values.share == self._bound_to[1]
            and self.program.is_unchanged()
            and self.changes.is_unchanged(values.graph)
        )


class Dynamic(Maintained):
    """Base class of `DynamicSSSP`, `DynamicBFS` and `DynamicComponents`.

    Subclasses define the cost of an edge, the start value of a point, and how to recompute all.
    """

    share: float  # of all points: the measured break-even with recomputing all values
    _sources = np.zeros(0, np.int32)  # ids of the points of value 0, without predecessor
    _nonnegative = True
    _cost: Any  # functions of the language
    _start: Any

    def __init__(self, graph: Any, dtype: Any, infinity: Any, most: Any) -> None:
        self.graph = graph
        self._in_parts = isinstance(graph, PartitionedGraph)
        self._lock = graph._lock
        self._dtype = dtype = np.dtype(dtype)
        self._infinity, self._most = dtype.type(infinity), dtype.type(most)
        if self._in_parts:
            self._check_edges()  # before columns are added
        where = graph if self._in_parts else graph.device
        columns = {"value": dtype, "predecessor": i32, "old_value": dtype}
        self._tree: Any = (
            self._columns_of_points(columns) if self._in_parts else Table("tree", where, **columns)
        )
        tree = self._tree
        self._state: Any = Table(
            "state", where, least=dtype, limit=dtype, ready=i32, batch=i64, invalid=i64,
            stamp=i64, result=i64,
        )  # fmt: skip
        self._state.extend(1)
        # on parts a placeholder: only the repair of single changes reads the report
        self._report = self._state if self._in_parts else graph._adjacency.report()
        self._now, self._following = Collection(tree), Collection(tree)
        buckets = (Collection(tree, key=dtype) for _ in range(4))
        self._queue = BucketQueue._make([*buckets, self._state, self._most, self._most, False])
        self._orphans, self._overflowed = Collection(tree), Flag(where)
        self._log = Collection(tree, predecessor=i32, value=dtype)
        self._problem = repair.Problem(
            graph, tree, self._cost, self._start, self._infinity, self._most, self._log, 0,
            self._orphans, self._state, self._overflowed,
        )  # fmt: skip
        self._touched, self._batch = False, 0
        # by the table of the batch, and whether it has at most BLOCK rows
        self._bound_repairs: dict[Any, BoundRepair] = {}
        self._bound_singles: list[BoundRepair] = []  # those for batches of one change
        self._saved: tuple[Any, Any] | None = None
        self.refresh()

    def _columns_of_points(self, columns: dict[str, Any]) -> Any:
        """Add the columns of the tree to the points of a partitioned graph, and return the points.

        Raises
        ------
        ValueError
            If they have columns of these names; those of an object that is gone are replaced.
        """
        points, kept = self.graph.points, self.graph.kept
        if "dynamic" in kept and kept["dynamic"]() is None:
            for name in columns.keys() & points.columns.keys():
                points.drop(name)
        for name in columns:
            if name in points.columns:
                raise ValueError(
                    f"points have a column {name!r}: on parts one dynamic algorithm has columns"
                    f" {', '.join(columns)} of points"
                )
        for name, kind in columns.items():
            points.add(name, kind)
        kept["dynamic"] = ref(self)
        return points

    def _array(self, table: Any, name: str) -> Any:
        """Return a column: an array, or on parts a column with the interface of one."""
        column = getattr(table, name)
        return column if self._in_parts else column.array

    # --- to be defined by subclasses -------------------------------------------------------------

    def _solve(self) -> tuple[Any, Any]:
        """Compute all values, and the predecessors (None: `repair.set_parents` finds them)."""
        raise NotImplementedError

    def _check_edges(self) -> None:
        """Refuse edges before all values are recomputed."""

    def _delta(self) -> Any:
        """The width of a bucket: the largest difference of values that are relaxed together."""
        raise NotImplementedError

    def _check(self, applied: Any) -> None:
        """Refuse changes after which no result exists."""

    # --- one batch -------------------------------------------------------------------------------

    def _commit(self) -> None:
        self._touched, self._saved = False, None
        self._seen = self.graph.changes

    def _repair(self, applied: Any) -> tuple[str, int, int]:
        """Repair the values; returns decision, affected points, rounds."""
        self._check(applied)
        n = self._lengthen()
        changes, count = applied.rows()
        most = int(self.share * n)
        self._batch += 1
        self._touched = True
        if not self._may_repair(count):
            return self._recompute(0)
        return self._run_repair(changes, count, most, min(self._pause_at(count), most))

    def _run_repair(
        self, changes: Any, count: int, most: int, pause_at: int, result: int | None = None
    ) -> tuple[str, int, int]:
        """Run the program, as often as it pauses; ``result`` is that of its first run, if known."""
        lists, queue = (self._now, self._following), self._queue
        rounds = phase = 0
        while True:
            if result is None:
                run = repair.repair.alone if pause_at < most else repair.repair
                if self._problem.pause_at != pause_at:
                    self._problem = self._problem._replace(pause_at=pause_at)
                batch = repair.Batch(
                    changes, self._report, count, phase, most, self._batch, -1, True, True, True,
                    queue.far,
                )  # fmt: skip
                result = run(self._problem, batch, *lists, queue)
            if result >= 0:
                result, affected = divmod(result, repair.ABOVE)
                rounds += result // 4
                break
            rounds += -result // 4
            if pause_at >= most or -result % 4 == 3:
                return self._recompute(rounds)
            near, next_near, far, next_far, *others = queue
            lists = _filled_first(*lists)
            buckets = *_filled_first(near, next_near), *_filled_first(far, next_far)
            queue = BucketQueue._make([*buckets, *others])
            pause_at, phase, result = most, -result % 4, None
        if result % 4:
            self._refuse_overflow()
        return "repaired", affected, rounds

    def _apply_prepared(self, inserts: Any, deletes: Any, updates: Any) -> Update | None:
        """See `Maintained`: the host waits once, for the change and for the repair."""
        if self._in_parts:
            return None
        for bound in self._bound_singles:
            if bound.ready(self):
                singles: Any = bound.changes
                change = singles.recognise(inserts, deletes, updates)
                break
        else:
            singles = self.graph.single_changes()
            change = None if singles is None else singles.recognise(inserts, deletes, updates)
            if change is not None:
                looked_up = self._bound_behind(singles, singles.rows)
                if looked_up is None:
                    return None
                bound = looked_up
        if change is None:
            return self._apply_many(inserts, deletes, updates)
        kinds = change[0] != repair.INSERTED, change[0] != repair.DELETED
        return self._run_behind(bound, singles.apply, change, singles.rows, kinds)

    def _apply_many(self, inserts: Any, deletes: Any, updates: Any) -> Update | None:
        """Apply a batch of several changes, as `_apply_prepared`."""
        graph = self.graph
        batch = graph.recognise(inserts, deletes, updates)
        if batch is None or (count := sum(batch.counts)) < 2:
            return None
        rows = count if graph.directed else 2 * count
        many = graph.many_changes(rows)
        if many is None or not self._may_repair(rows):
            return None
        bound = self._bound_behind(many, rows)
        if bound is None:
            return None
        deleted, updated, inserted = batch.counts
        kinds = deleted + updated > 0, updated + inserted > 0
        return self._run_behind(bound, many.apply_many, batch, rows, kinds)

    def _run_behind(
        self, bound: BoundRepair, apply: Any, batch: Any, rows: int, kinds: tuple[bool, bool]
    ) -> Update | None:
        """Apply a batch, and launch the repair behind.

        ``kinds``: ``(invalidates, relaxes)`` of `repair.Batch`.
        None, with nothing changed, if the program of the batch refuses it.
        """
        begin, graph = perf_counter(), self.graph
        if graph.fixed or graph.undoable:
            graph.refuse_fixed()
        bound.program.refuse_within()
        self._batch += 1
        self._touched = True
        # in the launch of the change it is known to be applied
        phase, stamp = 0, graph._adjacency.stamp + 1 if bound.behind else -1
        bound.write(rows, phase, bound.most, self._batch, stamp, bound.partial, *kinds)
        applied = None
        try:
            applied = apply(graph, batch, self._nonnegative, bound.program)
            if applied is None:
                return None
            done, result = applied
            if 0 <= result < repair.ABOVE:  # no relaxation steps
                found: tuple[str, int, int] = "repaired", result, 0
            elif result == repair.NOT_APPLIED:
                found = self._repair(done)
            else:
                limits = bound.most, bound.pause_at
                found = self._run_repair(bound.changes.table, rows, *limits, result)
            # `Update`, without its function of Python
            return make_tuple(Update, (*found, perf_counter() - begin, 0.0, done))
        except BaseException:
            if applied is not None:
                bound.changes.put_back(graph)
            raise

    def _bound_behind(self, changes: Any, rows: int) -> BoundRepair | None:
        """Return the repair bound behind the program of a batch; None if it cannot be."""
        bound = self._bound_repairs.get((changes.table, rows <= BLOCK))
        if bound is not None and bound.changes is changes:
            if bound.fits(self, changes.points(self.graph)):
                return bound
        return self._bind(changes, rows)

    def _bind(self, changes: Any, rows: int) -> BoundRepair | None:
        """Bind the program that repairs the values after a batch; None if not possible."""
        key, bounds = (changes.table, rows <= BLOCK), self._bound_repairs
        for old in [k for k, b in bounds.items() if k == key or not b.program.current()]:
            del bounds[old]
        self._require()
        n = len(self._tree)
        most = int(self.share * n)
        if n != changes.points(self.graph) or not self._may_repair(rows):
            return None
        bucket = self._queue.far if changes.several else self._queue.near
        batch = repair.Batch(
            changes.table, self._report, rows, 0, most, 0, 0, True, True, True, bucket
        )
        args = self._problem, batch, self._now, self._following, self._queue
        short = not self.graph.device.on_host or most <= ALONE
        program = changes.bind_repair(self.graph, short, repair.repair, *args)
        if program is not None:
            program.single_block = rows <= BLOCK
            limits = most, self._pause_at(rows)
            bounds[key] = BoundRepair(self, changes, program, *limits, changes.several)
        self._bound_singles = [b for b in bounds.values() if not b.changes.several]
        # binding the repair may have built rows of in-edges, which ``changes`` does not update
        return bounds.get(key) if changes.current(self.graph) else None

    def _may_repair(self, rows: int) -> bool:
        """Whether a batch of so many rows may be repaired; if not, all values are recomputed."""
        return rows <= 8 * int(self.share * len(self._tree))

    def _require(self) -> None:
        """Raise an error if the graph's columns are no longer those that the values depend on."""

    def _pause_at(self, count: int) -> int:
        """Return the log length up to which one thread or block repairs a batch of ``count``."""
        if self._in_parts:
            return len(self._tree)
        if self.graph.device.on_host:
            return ALONE
        return BLOCK if count <= BLOCK else len(self._tree)

    def _lengthen(self) -> int:
        """Add rows for new points; returns the number of rows."""
        n = len(self._tree)
        if self._in_parts:
            return n
        more = len(self.graph.points) - n
        if more < 0:
            raise RuntimeError(
                "the graph's points were renumbered by compact: make a new object for it"
            )
        if more > 0:
            self._bound_repairs.clear()
            self._bound_singles = []
            ids = self.graph.device.xp.arange(n, n + more)
            first = self._first(ids)
            self._tree.extend(
                more, value=first, predecessor=np.full(more, -1, np.int32), old_value=first
            )
        return n + more

    def _first(self, ids: Any) -> Any:
        """Return the values of new points, which have no edges."""
        return self._dtype.type(self._infinity)

    def _recompute(self, rounds: int) -> tuple[str, int, int]:
        """Recompute all values, after saving the old ones for `_put_back`."""
        self._put_back()
        self._lengthen()
        self._check_edges()
        tree, xp = self._tree, self.graph.device.xp
        value, before, old = (self._array(tree, c) for c in ("value", "predecessor", "old_value"))
        with self.graph.device.active():
            self._saved = old[:].copy(), before[:].copy()
            self._queue = self._queue._replace(delta=self._dtype.type(self._delta()))
            self._bound_singles = []  # the launches have the width of a bucket
            found, predecessor = self._solve_on_parts() if self._in_parts else self._solve()
            value[:] = found
            if predecessor is None:
                before[:] = repair.NONE
                ids = xp.arange(len(tree), dtype=np.int32)
                if self._sources.size:
                    before[self._sources] = -1
                    ids = np.setdiff1d(ids, self._sources)
                self._log.extend(ids)
                repair.set_parents(self._problem, self._now, self._following)
                self._log.clear()
            else:
                before[:] = predecessor
            affected = count_true(old != value)
            old[:] = value
        return "recomputed", affected, rounds

    def _solve_on_parts(self) -> tuple[Any, Any]:
        """Compute all values by the kernel that relaxes edges in the repair."""
        tree, far = self._tree, self._queue.far
        values = np.full(len(tree), self._first(np.arange(len(tree))), self._dtype)
        values[self._sources] = 0
        seeds = np.flatnonzero(values != self._infinity)
        tree.value[:], tree.predecessor[:] = values, repair.NONE
        far.extend(seeds, key=values[seeds])
        self._state[0].limit = 0
        problem = self._problem._replace(pause_at=len(tree))
        run_in_order(
            self._queue, Visit(repair.relax, problem, repair.is_current, repair.log_is_long)
        )
        if self._overflowed.take():
            self._refuse_overflow()
        return tree.value[:], None

    def _put_back(self) -> None:
        """Roll back: restore the values and predecessors from before the batch."""
        tree, log, state = self._tree, self._log, self._state
        value, before, old = (self._array(tree, c) for c in ("value", "predecessor", "old_value"))
        with self.graph.device.active():
            if self._saved is not None:
                old[:], before[:] = self._saved
                value[:] = old
            elif self._touched and int(self._array(state, "batch")[0]) == self._batch and len(log):
                item, predecessor, logged = (
                    self._array(log, c) for c in ("item", "predecessor", "value")
                )
                logged = logged if bool(self._array(state, "ready")[0]) else old[item]
                value[item] = old[item] = logged
                before[item] = predecessor
        self._touched, self._saved = False, None
        for c in (self._now, self._following, *self._queue[:4], self._orphans, log):
            c.clear()
        self._overflowed.clear()

    def _refuse_overflow(self) -> None:
        """Raise an error if a distance does not fit its type."""

    # --- results ---------------------------------------------------------------------------------

    @property
    def sources(self) -> Any:
        """The sources, on the host: ids, int32, or labels, see `Graph.labels`.  A copy."""
        names = self.graph.lookup()
        return self._sources.copy() if names is None else names.names(self._sources)

    @exclusive
    def _values(self) -> Any:
        self._follow_others()
        return self._array(self._tree, "value")[:]

    @property
    def predecessor(self) -> Any:
        """The point before each, shape (n,), int32; -1 where there is none.  A copy."""
        with self._lock:
            self._follow_others()
            return self.graph.device.copy(self._array(self._tree, "predecessor")[:])
