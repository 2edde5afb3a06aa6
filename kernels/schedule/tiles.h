// Tiles: reductions over the rows of all points, in ranges (tiles) whose sums fit the shared memory of a block; the
// entries of a tile are ordered by their other ends, see graph/tiles.py.
//
// A block processes all entries of a tile and adds their reductions in shared memory, by row; then it runs the
// epilogues of these rows.  All blocks proceed through the other ends in the same order and at about the same speed, so
// that the data read there are in the cache.
//
// A Step that uses tiles has `tiles(a)`, the type `Tiled`, no live-in locals, and one reduction of 8 bytes.

struct Tiles {
    const i64* tile;  // rows of a tile, number of tiles, and the first entry of each tile
    const i32* ends;  // by entry, the other end,
    const u16* place;  // and the row in the tile
};
template <class Step, class = void> constexpr bool TILED = false;
template <class Step> constexpr bool TILED<Step, Void<typename Step::Tiled>> = true;

#ifdef __CUDACC__
constexpr i32 TILE_FLIGHT = 4;  // entries of a thread whose loads overlap

template <class A, class R, class Step> MORPH_FN void each_tiled(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typedef typename Step::Reductions Reductions;
    constexpr i32 THREADS = 256;
    static_assert(__is_empty(typename Step::LiveIn) && sizeof(Reductions) <= 8, "see passes/steps.py");
    Reductions* sums = (Reductions*)launch_shared();
    const Tiles tiles = s.tiles(a);
    typename Step::LiveIn live_in{};
    typename Step::I it(a, t, -1);
    i64 rows = load_fixed(tiles.tile), count = load_fixed(tiles.tile + 1);
    i32 thread = warp_of_block() * 32 + lane_id();
    for (i64 n = block_id(); n < count && n * rows < last; n += block_count()) {
        i64 row = n * rows, end = load_fixed(tiles.tile + n + 3);
        i32 size = i32(min_of(rows, last - row));
        for (i32 i = thread; i < size; i += THREADS) sums[i] = Reductions();
        sync_block();
        for (i64 k = load_fixed(tiles.tile + n + 2) + thread; k < end; k += THREADS * TILE_FLIGHT) {
            i32 ends[TILE_FLIGHT], place[TILE_FLIGHT];
            Reductions found[TILE_FLIGHT];
            MORPH_UNROLL_ALL for (i32 j = 0; j < TILE_FLIGHT; j++)
                if (k + j * THREADS < end) {
                    ends[j] = load_fixed(tiles.ends + k + j * THREADS);
                    place[j] = load_fixed(tiles.place + k + j * THREADS);
                }
            MORPH_UNROLL_ALL for (i32 j = 0; j < TILE_FLIGHT; j++)
                if (k + j * THREADS < end) s.body(a, it, live_in, {-1, ends[j]}, found[j]);
            MORPH_UNROLL_ALL for (i32 j = 0; j < TILE_FLIGHT; j++)
                if (k + j * THREADS < end) found[j].join(sums[place[j]]);
        }
        sync_block();
        for (i32 i = thread; i < size; i += THREADS) {
            it = typename Step::I(a, t, row + i);
            if (row + i < first || !s.open(a, it)) continue;
            Entries whole;
            typename Step::LiveOut live_out{};
            s.prologue(a, it, whole, live_in, live_out);
            s.add(live_out, sums[i]);
            s.epilogue(a, it, live_out);
            end_item(a, it);
        }
        sync_block();
    }
}
#endif
