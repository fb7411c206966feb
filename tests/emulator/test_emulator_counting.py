"""Counters on the emulator: requests, sectors, wavefronts and operations of small kernels with known answers."""

import numpy as np
import pytest

from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.counting import BlockCounter, LaunchOperands, Tally
from tilewright.kernels.kernel import Kernel, Parameter, Tile
from tilewright.kernels.source.products import from_source
from tilewright.kernels.support import Support, Variant

SIGNATURE = """(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
               float* C, int ldc)"""

SHARED = """
struct __align__(4 * WIDTH) Words { float x[WIDTH]; };
extern "C" __global__ void probe SIGNATURE {
    __shared__ __align__(16) float words[4096];
    for (int i = threadIdx.x; i < 4096; i += 32) words[i] = 0.0f;
    __syncthreads();
    const float* mine = words + (threadIdx.x / EACH) * STRIDE;
#if WIDTH == 1
    const float sum = *mine;
#elif WIDTH == 2
    const float2 two = *reinterpret_cast<const float2*>(mine);
    const float sum = two.x + two.y;
#else
    const float4 four = *reinterpret_cast<const float4*>(mine);
    const float sum = four.x + four.y + four.z + four.w;
#endif
    C[threadIdx.x] = sum;
}
"""


def kernel(tmp_path, source, threads=32, parameters=()):
    file = tmp_path / "probe.cu"
    file.write_text(source.replace("SIGNATURE", SIGNATURE))
    return Kernel(
        rung=0,
        name="probe",
        idea="",
        source=file,
        support=Support(vectorized=False),
        parameters=tuple(Parameter(name, 1, (1,), "", least=0) for name in parameters),
        tile=lambda config: Tile(1, threads, 1),
        block=lambda config: (threads, 1, 1),
    )


def operands(counter, m, n, k):
    upload = counter.engine.upload
    return LaunchOperands(*(upload(np.ones(shape, np.float32)) for shape in ((m, k), (k, n), (m, n))), Scalars())


def memory(one, config, m=1, n=32, k=1, blocks=None):
    counter = BlockCounter(one, one.config(config), Variant(edges=False, aligned=False))
    return counter.memory(Problem(m, n, k), operands(counter, m, n, k), blocks)


def sites(counts, pipe):
    return [site for site in counts.sites if site.pipe == pipe]


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("width", "stride", "each", "wavefronts", "least"),
    [
        (1, 1, 1, 1, 1),
        (1, 0, 1, 1, 1),  # one word for all: a broadcast
        (1, 2, 1, 2, 1),
        (1, 8, 1, 8, 1),
        (1, 32, 1, 32, 1),
        (1, 33, 1, 1, 1),  # the padded column
        (1, 32, 2, 16, 1),
        (2, 2, 1, 2, 2),  # 256 bytes are two wavefronts at the least
        (2, 2, 2, 1, 1),  # neighbours want the same: both halves go together
        (2, 8, 1, 8, 2),
        (4, 4, 1, 4, 4),
        (4, 0, 1, 2, 2),  # a half of the warp at a time even where all want the same
        (4, 4, 2, 2, 2),
        (4, 8, 1, 8, 4),
        (4, 32, 1, 32, 4),
    ],
)
def test_wavefronts_of_strided_loads(tmp_path, width, stride, each, wavefronts, least):
    one = kernel(tmp_path, SHARED, parameters=("WIDTH", "STRIDE", "EACH"))
    counts = memory(one, {"WIDTH": width, "STRIDE": stride, "EACH": each})
    (load,) = sites(counts, "shared_load")
    assert load.bytes == 4 * width
    assert load.merged[4] == load.merged[16] == Tally(1, wavefronts, least)


GLOBAL = """
extern "C" __global__ void probe SIGNATURE {
    C[threadIdx.x] = A[OFFSET + threadIdx.x * STRIDE];
}
"""


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("offset", "stride", "sectors"), [(0, 1, 4), (1, 1, 5), (8, 1, 4), (0, 2, 8), (0, 8, 32), (0, 100, 32), (3, 0, 1)]
)
def test_sectors_of_strided_loads(tmp_path, offset, stride, sectors):
    counts = memory(
        kernel(tmp_path, GLOBAL, parameters=("OFFSET", "STRIDE")), {"OFFSET": offset, "STRIDE": stride}, k=4096
    )
    (load,), (store,) = sites(counts, "global_load"), sites(counts, "global_store")
    assert (load.accesses, load.merged[4].requests, load.sectors) == (32, 1, sectors)
    assert (store.accesses, store.merged[4].requests, store.sectors) == (32, 1, 4)


FRAGMENTS = """
#include "ptx/wmma.cuh"
extern "C" __global__ void probe SIGNATURE {
    using namespace wmma;
    fragment<matrix_a, 16, 16, 8, precision::tf32, ROWS> a;
    fragment<matrix_b, 16, 16, 8, precision::tf32, ROWS> b;
    fragment<matrix_a, 16, 16, 16, __half, ROWS> halves;
    fragment<accumulator, 16, 16, 8, float> sums;
    load_matrix_sync(a, A, 64);
    load_matrix_sync(b, B, 64);
    load_matrix_sync(halves, (const __half*)A, 64);
    load_matrix_sync(sums, C, 64, BY);
    store_matrix_sync(C, sums, 64, BY);
}
"""


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("order", "loads", "stores"),
    [
        ("row", [(4, 32), (4, 16), (4, 32), (4, 32)], (4, 32)),
        ("col", [(4, 16), (4, 32), (4, 32), (8, 32)], (8, 32)),
    ],
)
def test_fragments_in_global_memory_are_loads_as_compilers_make_them(tmp_path, order, loads, stores):
    """Requests and sectors of what NVRTC makes for sm_90a: words, or of a row of sums two at once."""
    source = FRAGMENTS.replace("ROWS", f"{order}_major").replace("BY", f"mem_{order}_major")
    counts = memory(kernel(tmp_path, source), {}, m=64, n=64, k=64, blocks=[0])
    found = [(site.merged[4].requests, site.sectors) for site in sites(counts, "global_load")]
    assert found == loads
    assert [(site.merged[4].requests, site.sectors) for site in sites(counts, "global_store")] == [stores]
    assert not sites(counts, "shared_load")
    assert not counts.fragments


DIVERGENT = """
extern "C" __global__ void probe SIGNATURE {
    float sum = 0.0f;
    for (int k = 0; k < int(threadIdx.x % 4); ++k) sum += A[k * 64 + threadIdx.x];
    if (threadIdx.x < 40) C[threadIdx.x] = sum;
}
"""


def test_lanes_that_take_no_part_make_no_accesses(tmp_path):
    counts = memory(kernel(tmp_path, DIVERGENT, threads=64), {}, n=64, k=64 * 4)
    loads, (store,) = sites(counts, "global_load"), sites(counts, "global_store")
    assert sum(load.accesses for load in loads) == 64 * (0 + 1 + 2 + 3) // 4
    assert sum(load.merged[4].requests for load in loads) == 2 * 3, "a warp goes round three times"
    assert (store.accesses, store.merged[4].requests, store.sectors) == (40, 2, 5)


NEIGHBOURS = """
extern "C" __global__ void probe SIGNATURE {
    __shared__ __align__(16) float words[32 * 8];
    float* mine = words + threadIdx.x * 8;
    for (int i = 0; i < 8; ++i) mine[i] = 0.0f;
    __syncthreads();
    float sum = 0.0f;
#pragma GCC unroll 8
    for (int i = FIRST; i < FIRST + COUNT; ++i) sum += mine[i];
    C[threadIdx.x] = sum;
}
"""


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("first", "count", "of_8", "of_16"),
    [
        (0, 8, 4, 2),
        (0, 4, 2, 1),
        (0, 3, 2, 1),  # the fourth word of the 16 bytes comes along
        (1, 3, 2, 1),
        (0, 2, 1, 1),
        (1, 2, 2, 2),  # words 1 and 2 lie on no vector's boundary
        (2, 4, 2, 2),
        (1, 1, 1, 1),
    ],
)
def test_neighbouring_words_that_a_compiler_may_merge(tmp_path, first, count, of_8, of_16):
    counts = memory(kernel(tmp_path, NEIGHBOURS, parameters=("FIRST", "COUNT")), {"FIRST": first, "COUNT": count})
    requests = {
        width: sum(site.merged[width].requests for site in sites(counts, "shared_load")) for width in (4, 8, 16)
    }
    assert requests == {4: count, 8: of_8, 16: of_16}
    stores = {width: sum(site.merged[width].requests for site in sites(counts, "shared_store")) for width in (4, 8, 16)}
    assert stores == {4: 8, 8: 4, 16: 2}


def test_only_the_chosen_blocks_are_counted(tmp_path):
    one = kernel(tmp_path, GLOBAL, parameters=("OFFSET", "STRIDE"))
    every, some = (memory(one, {"OFFSET": 0}, n=128, k=64, blocks=blocks) for blocks in (None, [1, 3]))
    assert (every.blocks, some.blocks) == (4, 2)
    assert sum(site.accesses for site in every.sites) == 2 * sum(site.accesses for site in some.sites) == 4 * 64


OPERATIONS = """
extern "C" __global__ void probe SIGNATURE {
    const float a = A[0], b = B[0];
    float sum = a * b;           // a multiplication
    volatile float kept = sum;
    kept += a * b;  // a multiply-add
    kept += b;      // an addition
    kept = kept;
    sum = kept;
    sum = sum - b;  // an addition
    sum = sum + b;               // an addition
    sum = a * b + b * b + sum;   // a multiplication, a multiply-add, an addition
    sum *= a;
    if (sum != 0.0f && threadIdx.x < 8) sum = fmaf(sum, a, b);
    float4 four = make_float4(alpha * sum, 0.0f, 0.0f, 0.0f);
    four.x += beta * a;
    // An addition, and where it is chosen a multiplication that nothing uses but the addition: one of both.
    C[threadIdx.x] = four.x + (threadIdx.x < 8 ? 0.0f : beta * a);
}
"""


def test_operations(tmp_path):
    one = kernel(tmp_path, OPERATIONS)
    counter = BlockCounter(one, one.config(), Variant(edges=False, aligned=False))
    matrices = operands(counter, 1, 32, 1)
    for _ in range(2):  # counts do not add up from launch to launch
        assert counter.operations(Problem(1, 32, 1), matrices, None) == (3 * 32 + 8 + 24, 4 * 32, 4 * 32 + 8)
    # sum = 1, 2, 3, 5, 5, then 6 where it is multiplied and added once more; alpha = 1, beta = 0
    assert counter.engine.download(matrices.c)[0, [0, 7, 8]].tolist() == [6, 6, 5]


INLINE_PTX = """
extern "C" __global__ void probe SIGNATURE {
    __shared__ float copied[32];
    const unsigned to = __cvta_generic_to_shared(&copied[threadIdx.x]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(A));
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
    float sum = copied[threadIdx.x] * alpha + beta;
    asm("fma.rn.f32 %0, %0, %1, %2;" : "+f"(sum) : "f"(2.0f), "f"(alpha));
    C[threadIdx.x] = sum;
}
"""


@pytest.mark.further
def test_operations_next_to_inline_ptx_are_counted(tmp_path):
    """In registers that are floats, too."""
    file = tmp_path / "probe.cu"
    file.write_text(
        "// tilewright: block=32 grid=(ceil(N/32),M)\n" + INLINE_PTX.replace("SIGNATURE", SIGNATURE), encoding="utf-8"
    )
    one = from_source(file)
    counter = BlockCounter(one, one.config(), Variant(edges=False, aligned=False))
    matrices = operands(counter, 1, 32, 1)
    assert counter.operations(Problem(1, 32, 1), matrices, None).ffma == 2 * 32
    assert counter.engine.download(matrices.c).tolist() == [[3.0] * 32]
