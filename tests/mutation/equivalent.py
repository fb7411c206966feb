"""Why some mutants that survive are no bugs: by file, operator and line of the source."""

NOBODY_READS = "rewrites the buffer that nobody reads any more"
NO_STEPS = "without steps, arrives at a barrier that nobody waits at any more"
EQUAL = "both are the same number where they are equal"
ONE_BY_ONE = "elements that could move together are moved one by one"
TURNS_SWAPPED = "the two warpgroups exchange their tiles, and with them all of their turns"
SLOTS = "the two slots of each worker exchange their uses, for all who store and load there"
ONE_GROUP = "one group is left, to which nothing is added"
FOR_SPEED = "the same results, in another time"
NO_SCALES = "skinny has no scales, and multiplies by 1"
ONE_ADDER = "one thread adds each sum, and the number of its group is 0"
LEFT_OUT = "what is loaded or added past the end is left out a line later"
ONCE_MORE = "a barrier that all threads pass, and nobody needs"
UNREAD_STAGE = "fills one stage more, that nobody reads"
NOTHING_STORED = "waits for stores that a thread has not started: at once"
MORE_OFTEN = "sums are promoted more often, and are no less exact"
ONLY_READ = "threads have only read these sums, and the products that come do not add to them"
ONE_VALUE = "all threads but one do what one did, and store one value; a note of check"
WHOLE_PIECES = "rows of whole pieces of 16 bytes, so that what is left is even and no odd number"
OWN_MEMORY = "the only block of a cluster has the same memory by either address"

OUT_OF_RANGE = "an infinity that is on no list is out of range, and all is multiplied in float32"
LISTED = "a sum is no number where an element is on a list alone, and is stored anew"
NO_BLOCKS = "no kernel that exchanges A and B has scales of blocks, which alone lie along k"
THREADS_STORE = "threads store what the copy engine would"
BANKS = "lines lie elsewhere in shared memory, for all who store and load there: banks conflict"

BY_ENGINE = "static constexpr bool by_tma = SLOTS > 0 && ALIGNED && sizeof(T) == 2;"
PLAIN = "if (ALIGNED && COMPUTES_NOTHING<ACTIVATION> && result.beta == 0.0f && result.n % 8 == 0) {"
SMALL = "small |= inside && !(fabsf(sums[i]) >= least);"
FIRST_LISTED = "static constexpr unsigned FIRST = 0x7f800000;  // bits, without the sign"
HOLD = (
    "const bool parts_in_range = shared->parts.split(split_a, split_b, counters, depth, output.beta != 0.0f, of_parts);"
)
ANYWHERE = "constexpr bool ANY_ADDRESS = !ALIGNED && SPLIT_PARTS == 1 && sizeof(FACTOR) == 2;"
WIDE = (
    "if (SPLIT_PARTS > 1 && (!parts.in_range || (stores_anew && output.beta != 0.0f))) return compute_fallback();  // "
    "D may "
    "be C"
)
SWAPPED_SCALES = (
    "return {scales.b, scales.a, scales.step_b, scales.step_k_b, scales.cols, "
    "scales.step_a, scales.step_k_a, scales.rows};"
)
PLACE = "return ANY_ADDRESS ? piece : piece ^ line / (8 / SWIZZLED) % SWIZZLED;"
PART = "constexpr int PART = PROMOTE < BK ? PROMOTE : BK;  // of a stage's k: what comes between two waits"
GROUP = "constexpr int GROUP = THREADS_WIDE > 32 ? THREADS_WIDE : 32;"
LOAD_FLOAT4 = "if (ALIGNED && (!EDGES || (row < rows && col + 4 <= cols))) {"
STORE_FLOAT4 = "if (ALIGNED && (!EDGES || col + 4 <= N)) {"
STORE_PAIR = "if (ALIGNED && (!EDGES || left >= 2)) {"
STAGED = "constexpr bool STAGED = EDGES || !ALIGNED;"
FEW_TOGETHER = "constexpr int TOGETHER = THREADS_WIDE == 1 && !AHEAD ? FEW : FEW % 2 == 0 ? 2 : 1;"
LOADED_AHEAD = "if (AHEAD) __syncwarp();  // else the compiler moves these loads to where their values are used"
SCALED = "if (FACTOR_SCALES && !IS_INTEGER<RESULT> && K > 0) total = scaled(scales, sizes, row, col, total);"
ADDER_LOOP = "for (int first = adder; adder < ADDERS && first < splits; first += TOGETHER * ADDERS) {"
ADDED_TOGETHER = (
    "static constexpr int TOGETHER = EACH <= 4 ? 8 : EACH <= 8 ? 4 : 2;    // blocks whose sums a thread loads together"
)
ROUNDS = "static constexpr int ROUND = KEPT * THREADS > 4096 ? 4096 / THREADS : KEPT;"
ADDERS = (
    "static constexpr int ADDERS = COUNT < THREADS ? THREADS / COUNT : 1;  "
    "// ... or threads that divide the blocks of one"
)
ODD_OF_A_PAIR = "if (beta != 0.0f && (!EDGES || 8 * i + 1 < left)) pair[1] += beta * to_float(c[8 * i + 1]);"
OWN = (
    "static __device__ __forceinline__ bool own(int number, int consumer) { "
    "return !ALTERNATE || number % COUNT == consumer; }"
)
LAST_RELEASE = "if (steps > 0) release(before);"
WAIT_STORED = "if (SLOTS > 0 && elect_one()) wait_tiles_read<0>();"
IN_FLIGHT = "constexpr int STEPS_IN_FLIGHT = PROMOTE == 0 || PARTIAL_BUFFERS > 1 ? 1 : 0;"
LOOKS = (
    "for (int j = 0; j < 4; ++j) smaller |= row_of(i) < rows && col_of(i) + j < cols && !(fabsf(total[j]) >= least);"
)
OF_A_WARPGROUP = (
    "constexpr int FALLBACK_ROWS = BM < 64 ? BM : 64, FALLBACK_COLS = SPLITS > 4 ? 16 : 64 / SPLITS;  "
    "// that a warpgroup computes at a time"
)
LOOKED_FOR = "if (check.in_range && check.least > 0) {"
NO_PART = "if (rank * FALLBACK_COLS >= 64) return;"
LOST = "for (int row = tile.row; row < min(tile.row + BM, sizes.m) && col < sizes.n; row += FALLBACK_ROWS) {"
OWN_TILE = "if (number % CONSUMERS != warpgroup) {"

REASONS = {
    ("epilogue/stored_tiles.cuh", "comparison", WAIT_STORED): NOTHING_STORED,
    ("epilogue/stored_tiles.cuh", "guard", WAIT_STORED): NOTHING_STORED,
    ("epilogue/stored_tiles.cuh", "comparison", BY_ENGINE): THREADS_STORE,
    ("epilogue/stored_tiles.cuh", "NaN and infinity", "if (result.beta == 0.0f) {"): FOR_SPEED,
    ("epilogue/transposed_tiles.cuh", "NaN and infinity", "if (result.beta == 0.0f) {"): FOR_SPEED,
    ("epilogue/warpgroup.cuh", "NaN and infinity", PLAIN): FOR_SPEED,
    ("operands.cuh", "lines and steps", SWAPPED_SCALES): NO_BLOCKS,
    ("gemm_sm90_precisions.cu", "NaN and infinity", HOLD): FOR_SPEED,
    ("gemm_mma.cu", "NaN and infinity", WIDE): FOR_SPEED,
    ("pipeline/fragment_tile.cuh", "swizzle width", PLACE): BANKS,
    ("pipeline/fragment_tile.cuh", "guard", ANYWHERE): FOR_SPEED,
    ("float32_parts/part_range.cuh", "NaN and infinity", FIRST_LISTED): OUT_OF_RANGE,
    ("float32_parts/part_range.cuh", "NaN and infinity", SMALL): LISTED,
    ("float32_parts/tile_sums.cuh", "NaN and infinity", LOOKS): LISTED,
    ("double_buffered.cu", "comparison", "if (k0 < K) put(next, As[buffer ^ 1], Bs[buffer ^ 1]);"): NOBODY_READS,
    ("persistent.cu", "comparison", LAST_RELEASE): NO_STEPS,
    ("clusters.cu", "comparison", LAST_RELEASE): NO_STEPS,
    ("pingpong.cu", "comparison", LAST_RELEASE): NO_STEPS,
    ("tma_store.cu", "comparison", LAST_RELEASE): NO_STEPS,
    ("pingpong.cu", "comparison", OWN_TILE): TURNS_SWAPPED,
    ("tma_store.cu", "comparison", OWN_TILE): TURNS_SWAPPED,
    ("promoted.cu", "comparison", PART): EQUAL,
    ("interleaved.cu", "comparison", PART): EQUAL,
    ("skinny.cu", "comparison", GROUP): EQUAL,
    ("skinny.cu", "comparison", FEW_TOGETHER): FOR_SPEED,
    ("skinny.cu", "guard", FEW_TOGETHER): FOR_SPEED,
    ("skinny.cu", "no barrier", LOADED_AHEAD): FOR_SPEED,
    ("skinny.cu", "comparison", SCALED): NO_SCALES,
    ("skinny.cu", "guard", SCALED): NO_SCALES,
    ("split_k.cu", "guard", STAGED): ONE_BY_ONE,
    ("pipeline/block_sums.cuh", "comparison", "for (int top = 0; top < KEPT; top += ROUND) {"): ONCE_MORE,
    (
        "pipeline/block_sums.cuh",
        "comparison",
        "if (top > 0) __syncthreads();  // the round before has been read",
    ): ONCE_MORE,
    ("pipeline/block_sums.cuh", "comparison", "const int adder = ADDERS > 1 ? threadIdx.x / COUNT : 0;"): ONE_ADDER,
    ("pipeline/block_sums.cuh", "comparison", "if (ADDERS > 1) {"): ONE_ADDER,
    ("pipeline/block_sums.cuh", "comparison", ADDER_LOOP): LEFT_OUT,
    ("pipeline/block_sums.cuh", "comparison", "for (int i = 0; i < EACH; ++i) {"): LEFT_OUT,
    ("pipeline/block_sums.cuh", "comparison", ROUNDS): EQUAL,
    ("pipeline/block_sums.cuh", "comparison", ADDERS): EQUAL,
    ("pipeline/block_sums.cuh", "comparison", ADDED_TOGETHER): FOR_SPEED,
    ("pipeline/schedule.cuh", "comparison", "const long long number = 2LL * (first + group) + (group == 0);"): SLOTS,
    ("pipeline/schedule.cuh", "comparison", "for (int size = 1; size < count; size *= most) {"): ONE_GROUP,
    (
        "pipeline/schedule.cuh",
        "comparison",
        "if (threadIdx.x == 0) stored = groups == 2 ? atomicAdd(counter, 0) : 0;",
    ): ONE_VALUE,
    ("pipeline/schedule.cuh", "comparison", "if (threadIdx.x == 0) *counter = 0;"): ONE_VALUE,
    ("tma_store.cu", "comparison", ODD_OF_A_PAIR): WHOLE_PIECES,
    ("pipeline/consumers.cuh", "comparison", OWN): TURNS_SWAPPED,
    (
        "float32_parts/small_m_stages.cuh",
        "comparison",
        "for (int step = 0; step < steps; ++step, turn.next()) {",
    ): UNREAD_STAGE,
    ("pipeline/stage_products.cuh", "comparison", IN_FLIGHT): FOR_SPEED,
    ("pipeline/stage_products.cuh", "no fence", "fence_sums(partial);"): ONLY_READ,
    ("pipeline/stage_products.cuh", "comparison", "using Partial = Begun[PARTIAL_BUFFERS > 1 ? COUNT : 1];"): FOR_SPEED,
    ("pipeline/register_operand.cuh", "comparison", "} else if constexpr (PROMOTE > 0) {"): MORE_OFTEN,
    ("float32_parts/tile_sums.cuh", "comparison", LOOKS): FOR_SPEED,
    ("float32_parts/tile_sums.cuh", "guard", LOOKS): FOR_SPEED,
    ("float32_parts/small_m_fallback.cuh", "comparison", OF_A_WARPGROUP): EQUAL,
    ("float32_parts/small_m_fallback.cuh", "comparison", NO_PART): FOR_SPEED,
    ("float32_parts/small_m_fallback.cuh", "no return", NO_PART): FOR_SPEED,
    ("float32_parts/small_m_fallback.cuh", "comparison", LOST): FOR_SPEED,
    ("float32_parts/small_m_fallback.cuh", "guard", LOOKED_FOR): FOR_SPEED,
    ("float32_parts/small_m_fallback.cuh", "comparison", LOOKED_FOR): FOR_SPEED,
    (
        "float32_parts/tile_sums.cuh",
        "comparison",
        "load_float4(quad, BLOCKS > 1 ? in_block(own, part / PARTS) : own);",
    ): OWN_MEMORY,
    ("tile_io.cuh", "comparison", LOAD_FLOAT4): ONE_BY_ONE,
    ("tile_io.cuh", "guard", LOAD_FLOAT4): ONE_BY_ONE,
    ("epilogue/ladder.cuh", "comparison", STORE_FLOAT4): ONE_BY_ONE,
    ("epilogue/ladder.cuh", "guard", STORE_FLOAT4): ONE_BY_ONE,
    ("epilogue/ladder_wgmma.cuh", "comparison", STORE_PAIR): ONE_BY_ONE,
    ("epilogue/ladder_wgmma.cuh", "guard", STORE_PAIR): ONE_BY_ONE,
}
