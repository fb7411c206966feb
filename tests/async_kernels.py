"""Kernels that tests run on the emulator and on a GPU: what is true of one is true of the other."""

import numpy as np

from tilewright.core.problem import Problem
from tilewright.kernels.kernel import RUNG_ARGUMENTS, Kernel, Parameter, Schedule, Tile
from tilewright.kernels.support import Support
from tilewright.kernels.tensor_box import TensorBox
from tilewright.runtime.base import run

DUMP = """
#include "ptx/tensor_map.cuh"
extern "C" __global__ void dump(const __grid_constant__ TensorMap A, const float* start, float* C) {
    __shared__ __align__(1024) float tile[BYTES / 4];
    __shared__ Barrier barrier;
    if (threadIdx.x == 0) {
        barrier_init(&barrier, 1);
        fence_barrier_init();
        barrier_expect_bytes(&barrier, BYTES);
        load_tile(tile, &A, static_cast<int>(start[1]), static_cast<int>(start[0]), 0, &barrier);
    }
    __syncthreads();
    barrier_wait(&barrier, 0);
    for (int i = threadIdx.x; i < BYTES / 4; i += blockDim.x) C[i] = tile[i];
}
"""


def dump_kernel(folder):
    """A kernel whose C is the box of A that begins at the row and column that B says, as it lies in shared memory."""
    path = folder / "dump.cu"
    path.write_text(DUMP)
    return Kernel(
        rung=0,
        name=f"dump {folder.name}",
        idea="",
        source=path,
        parameters=tuple(Parameter(name, 0, (), "", least=0) for name in ("ROWS", "COLS", "SWIZZLE", "BYTES")),
        tile=lambda config: Tile(1 << 20, 1 << 20, 1),
        block=lambda config: (32, 1, 1),
        tensor_maps=lambda config, *_: (TensorBox(config.ROWS, config.COLS, config.SWIZZLE), TensorBox(1, 4)),
        support=Support(vectorized=False, aligned=True, least_capability=(9, 0)),
        arguments=("A_map", "B_data", "D_data"),
    )


def dump(engine, kernel, matrix, start, box):
    """Run it on a matrix, for the box (rows, cols, swizzle) that begins at `start`."""
    rows, cols, swizzle = box
    config = kernel.config({"ROWS": rows, "COLS": cols, "SWIZZLE": swizzle, "BYTES": 4 * rows * cols})
    problem = Problem(matrix.shape[0], 4, matrix.shape[1])
    a, b = engine.upload(matrix), engine.upload(np.array([start], np.float32))
    c = engine.upload(np.full((1, rows * cols), np.nan, np.float32))
    run(engine, kernel, config, problem, a, b, c)
    return engine.download(c)[0]


STORE = """
#include "ptx/tensor_map.cuh"
extern "C" __global__ void store(const float* start, const __grid_constant__ TensorMap D) {
    __shared__ __align__(1024) float tile[BYTES / 4];
    for (int i = threadIdx.x; i < BYTES / 4; i += blockDim.x) tile[i] = i + 1;
    fence_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_tile_async(&D, static_cast<int>(start[1]), static_cast<int>(start[0]), 0, tile);
        commit_tiles();
        wait_tiles<0>();
    }
}
"""


def store(engine, folder, shape, start, box):
    """D, of -1, once a box (rows, cols, swizzle) is stored from `start` on: 1, 2, 3 and so on in shared memory."""
    path = folder / "store.cu"
    path.write_text(STORE)
    kernel = Kernel(
        rung=0,
        name=f"store {folder.name}",
        idea="",
        source=path,
        parameters=tuple(Parameter(name, 0, (), "", least=0) for name in ("ROWS", "COLS", "SWIZZLE", "BYTES")),
        tile=lambda config: Tile(1 << 20, 1 << 20, 1),
        block=lambda config: (32, 1, 1),
        stored_box=lambda config, item_bytes: TensorBox(config.ROWS, config.COLS, config.SWIZZLE),
        support=Support(least_capability=(9, 0)),
        arguments=("A_data", "D_map"),
    )
    rows, cols, swizzle = box
    config = kernel.config({"ROWS": rows, "COLS": cols, "SWIZZLE": swizzle, "BYTES": 4 * rows * cols})
    a, b = engine.upload(np.array([start], np.float32)), engine.upload(np.zeros((4, 44), np.float32))
    d = engine.upload(np.full(shape, -1, np.float32))
    run(engine, kernel, config, Problem(*shape, 4), a, b, d)
    return engine.download(d)


def stored_as_a_gpu_does(shape, start, box):
    """Array D after the store: the elements of the box that lie inside of D have arrived."""
    rows, cols, _ = box
    numbers = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols)
    places = box_as_it_lies(numbers, 0, 0, *box).astype(int)
    values = np.empty(rows * cols, np.float32)
    values[places] = np.arange(1, rows * cols + 1)
    expected = np.full(shape, -1, np.float32)
    for (r, c), value in np.ndenumerate(values.reshape(rows, cols)):
        if 0 <= start[0] + r < shape[0] and 0 <= start[1] + c < shape[1]:
            expected[start[0] + r, start[1] + c] = value
    return expected


def box_as_it_lies(matrix, row, col, rows, cols, swizzle):
    """Shared memory of a GPU after the copy: the box, zeros outside, 16-byte pieces exchanged in lines of 128 bytes."""
    box = np.zeros((rows, cols), np.float32)
    for r in range(rows):
        for c in range(cols):
            if 0 <= row + r < matrix.shape[0] and 0 <= col + c < matrix.shape[1]:
                box[r, c] = matrix[row + r, col + c]
    pieces = box.reshape(-1, 4)
    if swizzle == 0:
        return pieces.ravel()
    lying = np.empty_like(pieces)
    for index, piece in enumerate(pieces):
        line, place = divmod(index, 8)
        lying[line * 8 + (place ^ line % (swizzle // 16))] = piece
    return lying.ravel()


# Boxes (rows, cols, swizzle) and where they begin, in a matrix of 50 x 44: a GPU takes columns of whole 16 bytes.
BOXES = [
    (8, 4, 0),
    (16, 12, 0),
    (64, 64, 0),
    (3, 256, 0),
    (256, 4, 0),
    (64, 8, 32),
    (5, 8, 32),
    (64, 16, 64),
    (64, 32, 128),
    (7, 32, 128),
]
STARTS = [(0, 0), (1, 4), (40, 32), (50, 0), (50, 44)]
LOAD_STARTS = [*STARTS, (-2, -8), (-300, 44)]

# Each block sums its part of k for a tile of 16 x 16; the last of a tile adds the parts in their order.
SPLIT_K = """
#include "epilogue/ladder.cuh"
extern "C" __global__ void __launch_bounds__(256)
    split_k(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta, float* C,
            int ldc, float* workspace, unsigned* counters) {
    const int split = blockIdx.x % SPLIT_K, tile = blockIdx.x / SPLIT_K;
    const int tiles_n = (N + 15) / 16;
    const int row = tile / tiles_n * 16 + threadIdx.x / 16, col = tile % tiles_n * 16 + threadIdx.x % 16;
    float sum = 0;
    for (int k = split; k < K; k += SPLIT_K) sum += load(A, lda, M, K, row, k) * load(B, ldb, K, N, k, col);
    if (SPLIT_K > 1) {
        workspace[blockIdx.x * 256 + threadIdx.x] = sum;
        __threadfence();
        __syncthreads();
        __shared__ bool last;
        if (threadIdx.x == 0) last = atomicInc(&counters[tile], SPLIT_K - WRAPS) == SPLIT_K - 1;
        __syncthreads();
        if (!last) return;
        __threadfence();
        sum = 0;
        for (int s = 0; s < SPLIT_K; ++s) sum += workspace[(tile * SPLIT_K + s) * 256 + threadIdx.x];
    }
    store(C, ldc, M, N, row, col, alpha, sum, beta);
}
"""


def split_k_kernel(folder):
    """A kernel whose blocks share each tile of C between them. WRAPS=0 leaves its counters as they are at the end."""
    path = folder / "split_k.cu"
    path.write_text(SPLIT_K)
    return Kernel(
        rung=0,
        name=f"split_k {folder.name}",
        idea="",
        source=path,
        support=Support(vectorized=False),
        parameters=(Parameter("SPLIT_K", 4, (1, 4), ""), Parameter("WRAPS", 1, (1,), "", least=0)),
        tile=lambda config: Tile(16, 16, 1),
        block=lambda config: (256, 1, 1),
        arguments=(*RUNG_ARGUMENTS, "sums", "counters"),
        schedule=_split_k_schedule,
    )


def _split_k_schedule(problem, config, multiprocessors):
    blocks = -(-problem.m // 16) * -(-problem.n // 16) * config.SPLIT_K
    return Schedule(blocks, 4 * 256 * blocks if config.SPLIT_K > 1 else 0)


MATRICES = """
#include "ptx/load_matrix.cuh"
extern "C" __global__ void matrices(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                                    float beta, float* C, int ldc) {
    __shared__ __align__(16) float shared[64 * 4];
    for (int i = threadIdx.x; i < 64 * 4; i += 64) shared[i] = A[i];
    __syncthreads();
    float elements[4];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    load_matrices(elements, shared + (warp == 0 ? lane : 63 - lane) * 4);
    for (int matrix = 0; matrix < 4; ++matrix) C[(warp * 4 + matrix) * 32 + lane] = elements[matrix];
}
"""


def load_matrices(engine, folder):
    """Fragments that two warps get of 64 rows of four floats, 0, 1, 2 and so on: rows 0 to 31, and 63 down to 32."""
    path = folder / "matrices.cu"
    path.write_text(MATRICES)
    kernel = Kernel(
        rung=0,
        name=f"matrices {folder.name}",
        idea="",
        source=path,
        support=Support(vectorized=False),
        parameters=(),
        tile=lambda config: Tile(1 << 20, 1 << 20, 1),
        block=lambda config: (64, 1, 1),
    )
    a, c = (engine.upload(array) for array in (np.arange(256, dtype=np.float32)[None], np.zeros((1, 256), np.float32)))
    run(engine, kernel, kernel.config(), Problem(1, 4, 256), a, c, c)
    return engine.download(c).reshape(2, 4, 32)


def matrices_as_the_manual_has_them():
    """The fragment layout of ldmatrix, m8n8 of 16 bits, as 32-bit words: lane T has word T % 4 of row T / 4."""
    rows = np.arange(256, dtype=np.float32).reshape(64, 4)
    lanes = np.arange(32)
    return np.array(
        [[of[8 * matrix + lanes // 4, lanes % 4] for matrix in range(4)] for of in (rows[:32], rows[:31:-1])]
    )


# A and B lie in shared memory as they do here, 64 lines of 64 elements each: of A rows, or with COLUMNS_A its columns.
PRODUCT = """
#include <ptx/tensor_map.cuh>
#include <ptx/wgmma.cuh>
#if BFLOAT16
using Element = __nv_bfloat16;
#else
using Element = __half;
#endif
constexpr Major OF_A = COLUMNS_A ? Major::across_k : Major::along_k, OF_B = ROWS_B ? Major::across_k : Major::along_k;
extern "C" __global__ void product(int M, int N, int K, float alpha, const Element* A, int lda, const Element* B,
                                   int ldb, float beta, float* C, int ldc) {
    __shared__ __align__(1024) unsigned char As[64 * LINE_BYTES], Bs[64 * LINE_BYTES];
    for (int i = threadIdx.x; i < 64 * 8; i += 128) {
        *reinterpret_cast<uint4*>(As + swizzled(i / 8, i % 8)) = reinterpret_cast<const uint4*>(A)[i];
        *reinterpret_cast<uint4*>(Bs + swizzled(i / 8, i % 8)) = reinterpret_cast<const uint4*>(B)[i];
    }
    fence_async_shared();
    __syncthreads();
    float sums[32] = {};
    fence_sums(sums);
    for (int k = 0; k < 64; k += 16) {
        const MatrixDescriptor a = matrix_descriptor(As) + k * (COLUMNS_A ? LINE_BYTES : 2);
        const MatrixDescriptor b = matrix_descriptor(Bs) + k * (ROWS_B ? LINE_BYTES : 2);
        multiply_async<OF_A, OF_B, Element>(sums, a, b, k > 0);
    }
    commit_products();
    wait_products<0>(sums);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 32; ++i) {
        C[(warp * 16 + lane / 4 + i / 2 % 2 * 8) * ldc + i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[i];
    }
}
"""


def warpgroup_product(engine, folder, a, b, across_a, across_b):
    """A warpgroup's product of two 64 x 64 arrays of 16-bit elements: A and B's transpose, across k A's and B."""
    path = folder / "product.cu"
    path.write_text(PRODUCT)
    kernel = Kernel(
        rung=0,
        name=f"product {folder.name}",
        idea="",
        source=path,
        parameters=tuple(Parameter(name, 0, (0, 1), "", least=0) for name in ("COLUMNS_A", "ROWS_B")),
        tile=lambda config: Tile(64, 64, 64),
        block=lambda config: (128, 1, 1),
        support=Support(
            vectorized=False, factors=("float16", "bfloat16"), least_capability=(9, 0), architectures=("sm_90a",)
        ),
    )
    config = kernel.config({"COLUMNS_A": int(across_a), "ROWS_B": int(across_b)})
    of_a, of_b, c = (engine.upload(array) for array in (a, b, np.full((64, 64), np.nan, np.float32)))
    run(engine, kernel, config, Problem(64, 64, 64, a.dtype.name), of_a, of_b, c)
    return engine.download(c)
