// The words of the arrays that host and kernels share; `morph/compiler/ir/abi.py` says the same in Python.

// Of a store's `meta`.  FROM and TO are the kernels' own: HEAD and COUNT as of the last barrier.
enum { COUNT = 0, CAPACITY = 1, HEAD = 2, TAIL = 3, COMMITTED = 4, BUDGET = 5, FROM = 6, TO = 7 };
// Of `status`.  LOCKS is the kernels' own: how many foreach steps programs with single(row) have run.
enum { ERROR = 0, LINE = 1, FAILED = 2, LOCAL = 3, ROUND = 4, INJECT = 5, LOCKS = 6, STORES = 8 };
// Of a program's `state`.  LAUNCH is the kernels' own: what single(row) of the step compares.
enum { BLOCK = 0, STEP = 1, REPLAY = 2, LAUNCH = 3, WAY = 4, VARS = 5 };
