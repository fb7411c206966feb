// Products of groups that have different numbers of rows: a has a matrix for each, and all of b lie one behind the other.
// Each group has tensor maps of its own behind pointers: first those of a, then those of b. Tiles behind a group's end are
// loaded as zeros and not stored.
// tilewright: grid=(ceil(cols/32),3,groups) block=128 groups=2 cols=36 depth=136 reference=references.py:grouped_product
// tilewright: a0=bfloat16[40,depth] a1=bfloat16[72,depth] b=bfloat16[groups,cols,depth]
// tilewright: c0=out:float32[40,cols] c1=out:float32[72,cols]
// tilewright: maps=factors[0]:a0(32,64,swizzle=128B),factors[1]:a1(32,64,swizzle=128B),factors[groups:2*groups]:b(32,64,swizzle=128B),results[0]:c0(32,32),results[1]:c1(32,32)
#include <cuda.h>
#include <cuda_bf16.h>
#include <stdint.h>

#define SIDE 32
#define DEPTH 64
#define STAGES 2

__device__ unsigned address(const void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

__device__ void load(void* tile, const CUtensorMap* map, int col, int row, uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(address(tile)), "l"((uint64_t)map), "r"(col), "r"(row), "r"(address(barrier)) : "memory");
}

__device__ void wait(uint64_t* barrier, int phase) {
    asm volatile(
        "{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra AGAIN; }"
        ::"r"(address(barrier)), "r"(phase) : "memory");
}

// Pieces of 16 bytes are exchanged from row to row.
__device__ float element(const __nv_bfloat16* tile, int row, int k) {
    return __bfloat162float(tile[row * DEPTH + (k / 8 ^ row % 8) * 8 + k % 8]);
}

__global__ void grouped_product(const CUtensorMap* factors, const CUtensorMap* __restrict__ results, int groups, int depth) {
    __shared__ __align__(1024) __nv_bfloat16 a[STAGES][SIDE * DEPTH], b[STAGES][SIDE * DEPTH];
    __shared__ __align__(128) float c[SIDE][SIDE];
    __shared__ uint64_t full[STAGES];
    const int row = blockIdx.y * SIDE, col = blockIdx.x * SIDE, steps = (depth + DEPTH - 1) / DEPTH;
    const int group = blockIdx.z;
    const bool leads = threadIdx.x == 0;
    const auto start = [&](int step) {
        const int stage = step % STAGES;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     ::"r"(address(&full[stage])), "n"(2 * 2 * SIDE * DEPTH));
        load(a[stage], &factors[group], step * DEPTH, row, &full[stage]);
        load(b[stage], factors + groups + group, step * DEPTH, col, &full[stage]);
    };
    if (leads) {
        for (int i = 0; i < STAGES; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&full[i])));
        asm volatile("fence.mbarrier_init.release.cluster;");
        for (int step = 0; step < min(steps, STAGES); ++step) start(step);
    }
    __syncthreads();
    float sums[8] = {};
    const int r = threadIdx.x / 4, first = threadIdx.x % 4 * 8;
    for (int step = 0; step < steps; ++step) {
        wait(&full[step % STAGES], step / STAGES % 2);
        for (int k = 0; k < DEPTH; ++k)
            for (int i = 0; i < 8; ++i) sums[i] += element(a[step % STAGES], r, k) * element(b[step % STAGES], first + i, k);
        __syncthreads();  // all have read the stage
        if (leads && step + STAGES < steps) start(step + STAGES);
    }
    for (int i = 0; i < 8; ++i) c[r][first + i] = sums[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (leads) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"((uint64_t)&results[group]), "r"(col), "r"(row), "r"(address(c)) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
