"""Faults of kernels and of their headers."""

from .fault import Fault

FAULTS = (
    Fault(
        "an element's address in 32 bits",
        "return X + static_cast<long long>(row) * ld + col;",
        "return X + row * ld + col;",
        "matrices of more than 2^31 elements are read and written elsewhere",
    ),
    Fault(
        "pairs stored past the last column",
        "if (ALIGNED && (!EDGES || col + 2 <= n)) {\n            store_run<2>(d, pair);",
        "if (ALIGNED) {\n            store_run<2>(d, pair);",
        "the column behind a result that is a slice is overwritten",
    ),
    Fault(
        "counters left for the next launch",
        "  // all have read `stored`\n            if (threadIdx.x == 0) *counter = 0;\n",
        "  // all have read `stored`\n",
        "the second product on a stream is wrong",
    ),
    Fault(
        "offsets of groups taken as they are",
        "min(max(offsets[min(number, groups - 1)], 0), rows)",
        "offsets[min(number, groups - 1)]",
        "offsets past the rows have a grouped product write outside of its result",
    ),
    Fault(
        "infinities of a neighbour in the batch",
        "if (side < 0 || side >= sides || one.matrix != (factor.matrix_stride != 0 ? matrix : 0)) continue;",
        "if (side < 0 || side >= sides) continue;",
        "an infinity in one matrix of a batch spoils results of the others",
    ),
    Fault(
        "no fence before a block says that its sums are there",
        "        if (splits == 1) return;\n\n        __threadfence();\n        __syncthreads();",
        "        if (splits == 1) return;\n\n        __syncthreads();",
        "now and then the last block adds sums that are not there yet",
    ),
    Fault(
        "no barrier behind the next tile",
        "        if (k0 < K) put(next, As[buffer ^ 1], Bs[buffer ^ 1]);\n        __syncthreads();\n",
        "        if (k0 < K) put(next, As[buffer ^ 1], Bs[buffer ^ 1]);\n",
        "a race: threads multiply a tile that others still write",
    ),
    Fault(
        "the last group as high as the others",
        "const unsigned rows = min(tiles_m - first, HIGH);",
        "const unsigned rows = HIGH;",
        "tiles of the last rows are left out where their number is no multiple",
    ),
    Fault(
        "gelu of float32 by a shorter polynomial",
        "constexpr int DEGREE = BYTES == 4 ? 8 : 5;",
        "constexpr int DEGREE = 5;",
        "float32 results with gelu have the error of 16-bit ones",
    ),
    Fault(
        "alignment of a batch's matrices not looked at",
        "return (first | ld_from | matrix_stride) % COUNT == 0;",
        "return (first | ld_from) % COUNT == 0;",
        "a misaligned access where matrices of a batch begin off 16 bytes",
    ),
)
