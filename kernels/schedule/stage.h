// What entries add to lists, on its way: a GPU's warp lays it down in shared memory and carries it over when
// there is much of it, so that all warps do not wait for the same counter at every entry.
//
// A type `E` of what one list gets has its columns and
//     AT, PLACES, WHICH      where in the warp's memory it lies, how much there is room for, its counter
//     meta(a, it), write(a, it, row)    the list, and how it is written there
// Invariant: what lies there and what the warp holds room for (see room.h) is at most PLACES.

#ifdef __CUDACC__

constexpr i32 STAGE = 4096;  // bytes of a warp

MORPH_FN u64* stage_memory() {  // one for all lists of a unit
    __shared__ u64 words[256 / 32][STAGE / 8];
    return words[threadIdx.x / 32];
}
MORPH_FN i32* stage_counts() {
    __shared__ i32 counts[256 / 32][STAGE / 128];
    return counts[threadIdx.x / 32];
}
template <class E> MORPH_FN E* staged() { return (E*)(stage_memory() + E::AT / 8); }
template <class E> MORPH_FN i32& staged_count() { return stage_counts()[E::WHICH]; }

template <class A, class I, class E> MORPH_FN void stage(const A&, const I&, i32& room, const E& e) {
    u32 mask = __activemask(), lane = threadIdx.x & 31;
    i32 leader = __ffs(mask) - 1, first = 0;
    if (i32(lane) == leader) first = atomicAdd(&staged_count<E>(), __popc(mask));
    first = __shfl_sync(mask, first, leader);
    staged<E>()[first + __popc(mask & ((1u << lane) - 1))] = e;
    room--;
}
// By all lanes of a warp.
template <class E> MORPH_FN void stage_nothing() {
    if ((threadIdx.x & 31) == 0) staged_count<E>() = 0;
    __syncwarp();
}
template <class E, class A, class I> MORPH_FN void carry_over(const A& a, const I& it, i32 room) {
    __syncwarp();
    i32 n = staged_count<E>(), first = 0;
    __syncwarp();
    if (!n || n + room <= E::PLACES) return;
    if ((threadIdx.x & 31) == 0) first = i32(fetch(Plus(), E::meta(a, it) + COUNT, i64(n)));
    first = __shfl_sync(~0u, first, 0);
    for (i32 k = threadIdx.x & 31; k < n; k += 32) staged<E>()[k].write(a, it, first + k);
    __syncwarp();
    stage_nothing<E>();
}

#else

template <class A, class I, class E> MORPH_FN void stage(const A& a, const I& it, Room& room, const E& e) {
    e.write(a, it, Slots(E::meta(a, it), 1, room).first());
}
template <class E> MORPH_FN void stage_nothing() {}
template <class E, class A, class I> MORPH_FN void carry_over(const A&, const I&, i32) {}

#endif
