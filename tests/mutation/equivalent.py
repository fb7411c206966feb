"""Why some mutants that survive are no bugs: by file, operator and line of the source."""

NOBODY_READS = "rewrites the buffer that nobody reads any more"
NO_STEPS = "without steps, arrives at a barrier that nobody waits at any more"
EQUAL = "both are the same number where they are equal"
ONE_BY_ONE = "elements that could move together are moved one by one"
EXCHANGED = "the two warpgroups exchange their tiles, and with them all of their turns"

PART = "constexpr int PART = PROMOTE < BK ? PROMOTE : BK;  // of a stage's k: what comes between two waits"
GROUP = "constexpr int GROUP = THREADS_WIDE > 32 ? THREADS_WIDE : 32;"
LOAD_FOUR = "if (ALIGNED && (!EDGES || (row < rows && col + 4 <= cols))) {"
STORE_FOUR = "if (ALIGNED && (!EDGES || col + 4 <= N)) {"
STORE_PAIR = "if (ALIGNED && (!EDGES || left >= 2)) {"
LAST_RELEASE = "if (steps > 0) release(before);"
OWN_TILE = "if (number % CONSUMERS != warpgroup) {"

REASONS = {
    ("double_buffered.cu", "comparison", "if (k0 < K) put(next, As[buffer ^ 1], Bs[buffer ^ 1]);"): NOBODY_READS,
    ("persistent.cu", "comparison", LAST_RELEASE): NO_STEPS,
    ("clusters.cu", "comparison", LAST_RELEASE): NO_STEPS,
    ("pingpong.cu", "comparison", LAST_RELEASE): NO_STEPS,
    ("tma_store.cu", "comparison", LAST_RELEASE): NO_STEPS,
    ("pingpong.cu", "comparison", OWN_TILE): EXCHANGED,
    ("tma_store.cu", "comparison", OWN_TILE): EXCHANGED,
    ("promoted.cu", "comparison", PART): EQUAL,
    ("interleaved.cu", "comparison", PART): EQUAL,
    ("skinny.cu", "comparison", GROUP): EQUAL,
    ("tile_io.cuh", "comparison", LOAD_FOUR): ONE_BY_ONE,
    ("tile_io.cuh", "guard", LOAD_FOUR): ONE_BY_ONE,
    ("epilogue.cuh", "comparison", STORE_FOUR): ONE_BY_ONE,
    ("epilogue.cuh", "guard", STORE_FOUR): ONE_BY_ONE,
    ("wgmma_epilogue.cuh", "comparison", STORE_PAIR): ONE_BY_ONE,
    ("wgmma_epilogue.cuh", "guard", STORE_PAIR): ONE_BY_ONE,
}
