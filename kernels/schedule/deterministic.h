// Deterministic claims: all items of a step claim in one round, whatever the number of threads, so the winners depend
// on the items and their positions only.
//
// Invariant: every item gathers from the state before the step.  If an item cannot allocate while it gathers, no item
// commits: the host adds capacity, and all items gather again.  An item that cannot allocate after the barrier keeps
// its result when it is re-executed, after the others: a winner wins again if it gathers only rows that it owns or
// guards, which no other winner has changed; a loser's bit in `lost` is set, and it claims nothing.

// Gathers and claims; returns false if the item has ended.
template <class A, class R, class Step, class I>
MORPH_FN bool gather_and_claim(const A& a, R& t, const Step& s, I& it) {
    if (!open(a, t, s, it)) return false;
    if (!s.run(a, it) || it.failed) {
        end_item(a, it);
        return false;
    }
    bool lost = t.replay && was_deferred(a.lost, it.position);
    it.key = lost ? 0 : claim_key(t.round, it.priority, it.position);  // no claim has the key 0
    if (!lost) s.claim(a, it);
    return true;
}

// The barrier between the last claim and the first check; broadcasts whether an item could not allocate.
template <class A, class R> MORPH_FN void barrier_of_claims(const A& a, R& t) {
    if (arrive(a, t)) broadcast(t, load(a.status + FAILED) != 0);
    release_barrier(a, t);
}

template <class A, class R, class Step, class I>
MORPH_FN void commit_or_abort(const A& a, R& t, const Step& s, I& it) {
    bool won = false;
    if (t.broadcast_value) {
        end_item(a, it);
        mark_deferred(a.status, a.deferred, it);
    } else {
        won = it.key && s.wins(a, it);
        finish(a, s, it, won);
        if (!it.failed) return;
    }
    if (t.broadcast_value ? !it.key : !won) fetch(Or(), a.lost + it.position / 32, 1u << it.position % 32);
}

// On a GPU the host launches a thread for every item.  On a CPU each thread has memory for all items, of which pages
// that are not touched cost nothing.
template <class A, class R, class Step>
MORPH_FN void claims_deterministic(const A& a, R& t, const Step& s, i64 first, i64 last) {
    typedef typename Step::I I;
    t.round++;
    if constexpr (TARGET_GPU) {
        typename I::Buffers buffers;
        I it(a, t, first + scattered_index(t), buffers);
        bool competes = it.position < last && gather_and_claim(a, t, s, it);
        barrier_of_claims(a, t);
        if (competes) commit_or_abort(a, t, s, it);
    } else {
        GatheredItem<I>* batch = (GatheredItem<I>*)allocate(sizeof(GatheredItem<I>) * (last - first + 1));
        i64 n = 0;
        for (Share share(a, t, first, last, 32); share.next();)
            for (i64 i = share.begin; i < share.end; i++)
                n += gather_and_claim(a, t, s, batch[n].make(a, t, i));
        barrier_of_claims(a, t);
        for (i64 k = 0; k < n; k++) commit_or_abort(a, t, s, batch[k].it);
        deallocate(batch);
    }
}
