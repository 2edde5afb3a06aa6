// A step that runs the items of a collection, its queue, and the items that the kernel adds to it, until none is left.
//
// A warp (on a CPU: a thread) takes the next items from the front, by QUEUE_TAKEN; the kernel adds at the end, by
// COUNT, and then publishes the item by a bit of `ready`, which the warp that takes the item clears.  QUEUE_FINISHED
// counts the items that have run or have been deferred.  An item adds others before it is counted as finished: so if
// QUEUE_FINISHED, read first, equals COUNT, no item runs, and none can be added.  The host drops the finished items of
// a full queue, or grows it (`_drop_finished` in launch/launcher.py).
// Deferred items have their bits in `deferred`; a re-execution runs these, and what they add.

enum { QUEUE_TAKEN = 2, QUEUE_FINISHED = 3 };  // words of `cursor`, zero between steps
constexpr i32 MOST_TAKEN = TARGET_GPU ? 32 : 128;  // items that a warp or thread takes at once

// Called by an item that has written all columns of a new item of the collection `meta`.
template <class A, class I> MORPH_FN void publish_item(const A& a, const I& it, const i64* meta, i32 row) {
    if (it.queue != meta) return;
    publish();
    fetch(Or(), a.ready + row / 32, 1u << row % 32);
}
template <class A> MORPH_FN void await_item(const A& a, i64 position) {
    Idle idle;
    while (!(load(a.ready + position / 32) >> position % 32 & 1)) idle.wait();
    idle.end();
    acquire();
    fetch(And(), a.ready + position / 32, ~(1u << position % 32));
}

// The next items of the queue: `n` from `at` on; n < 0: all have finished.
struct Taken {
    i64 at;
    i32 n;
};
template <class A> MORPH_FN Taken take_items(const A& a, const i64* meta, i64 first, i64 warps) {
    i64 finished = load(a.cursor + QUEUE_FINISHED);
    acquire();
    i64 end = load(meta + COUNT), taken = load(a.cursor + QUEUE_TAKEN), left = end - first - taken;
    if (left <= 0) return {0, finished == end - first ? -1 : 0};
    i64 n = max_of(min_of(left / (2 * warps), i64(MOST_TAKEN)), i64(1));
    return {first + taken, swap_if(a.cursor + QUEUE_TAKEN, taken, taken + n) == taken ? i32(n) : 0};
}

// `first` and `last` are the extent of the queue at the last barrier.
template <class A, class R, class Step>
MORPH_LOOP void each_until_empty(const A& a, R& t, const Step& s, const i64* meta, i64 first, i64 last) {
    constexpr i32 LANES = TARGET_GPU ? 32 : 1;
    typename Step::I::SlotCaches caches;
    if (is_single(t)) s.take_all(a, t, caches);
    Idle idle;
    while (!queue_interrupted(a, t)) {
        Taken taken{0, 0};
        if (lane_id() == 0) taken = take_items(a, meta, first, t.threads / LANES);
        taken = {shuffle(ALL_LANES, taken.at, 0), shuffle(ALL_LANES, taken.n, 0)};
        if (taken.n < 0) break;
        if (taken.n == 0) {
            idle.wait();
            continue;
        }
        idle.end();
        for (i64 i = taken.at + lane_id(); i < taken.at + taken.n; i += LANES) {
            typename Step::I it(a, t, i);
            if (i >= last) await_item(a, i);
            else if (t.replay && !was_deferred(a.deferred, it.deferred_bit())) continue;
            it.queue = meta;
            caches.attach(it);
            if (s.open(a, it)) s.run(a, it);
            end_item(a, it);
        }
        sync_warp();
        publish();
        if (lane_id() == 0) fetch(Plus(), a.cursor + QUEUE_FINISHED, i64(taken.n));
    }
    idle.end();
    caches.flush();
}
// By the master at the barrier after the step.
template <class A> MORPH_FN void end_queue(const A& a) {
    store(a.cursor + QUEUE_TAKEN, 0);
    store(a.cursor + QUEUE_FINISHED, 0);
}
