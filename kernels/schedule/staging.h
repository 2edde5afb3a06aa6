// Staging buffers: a warp of a GPU collects the rows that its entries add to a list in shared memory, and flushes them
// together, so that the warps do not contend for the list's counter at every entry.
//
// The type `E` of the rows of one list has the list's columns and
//     AT, PLACES, WHICH      the offset of its buffer in the warp's memory, the buffer's capacity, its counter
//     meta(a, it), write(a, it, row)    the list's counters, and how a row is written to the list
// Invariant: the rows in the buffer and those reserved by the warp (see reservation.h) are at most PLACES.

constexpr i32 STAGING_BYTES = 4096;  // bytes of a warp

MORPH_FN u64* staging_memory(i32 warp) {  // shared by all lists of a unit
    MORPH_SHARED u64 words[256 / 32][STAGING_BYTES / 8];
    return words[warp];
}
// Memory of a block while no step stages rows; on a CPU the memory `own` of the thread.
template <class T> MORPH_FN T& block_memory(T& own) {
    if constexpr (!TARGET_GPU) return own;
    static_assert(sizeof(T) <= 256 / 32 * STAGING_BYTES, "more than the staging buffers of a block");
    return *(T*)staging_memory(0);
}
MORPH_FN i32* staging_counts() {
    MORPH_SHARED i32 counts[256 / 32][STAGING_BYTES / 128];
    return counts[warp_of_block()];
}
template <class E> MORPH_FN E* staged() { return (E*)(staging_memory(warp_of_block()) + E::AT / 8); }
template <class E> MORPH_FN i32& staged_count() { return staging_counts()[E::WHICH]; }

template <class A, class I, class E>
MORPH_FN void stage(const A& a, const I& it, Reservation& reservation, const E& e) {
    if constexpr (!TARGET_GPU || SINGLE_BLOCK) {
        e.write(a, it, Slots(E::meta(a, it), 1, reservation).first());
        return;
    }
    if constexpr (!AGGREGATES) {
        staged<E>()[fetch(Plus(), &staged_count<E>(), 1)] = e;
        reservation -= 1;
        return;
    }
    u32 mask = active_lanes();
    i32 leader = first_lane(mask), first = 0;
    if (lane_id() == leader) first = fetch(Plus(), &staged_count<E>(), popcount(mask));
    first = shuffle(mask, first, leader);
    staged<E>()[first + popcount(mask & ((1u << lane_id()) - 1))] = e;
    reservation -= 1;
}
// By all lanes of a warp.
template <class E> MORPH_FN void clear_buffer() {
    if constexpr (!TARGET_GPU || SINGLE_BLOCK) return;
    if (lane_id() == 0) staged_count<E>() = 0;
    sync_warp();
}
template <class E, class A, class I> MORPH_FN void flush_buffer(const A& a, const I& it, i32 reservation) {
    if constexpr (!TARGET_GPU || SINGLE_BLOCK) return;
    sync_warp();
    i32 n = staged_count<E>(), first = 0;
    sync_warp();
    if (!n || n + reservation <= E::PLACES) return;
    if (lane_id() == 0) first = i32(fetch(Plus(), E::meta(a, it) + COUNT, i64(n)));
    first = shuffle(ALL_LANES, first, 0);
    for (i32 k = lane_id(); k < n; k += 32) staged<E>()[k].write(a, it, first + k);
    sync_warp();
    clear_buffer<E>();
}
