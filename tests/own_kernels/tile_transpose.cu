// Tiles of 32 x 32 come by a tensor map, swizzled, and go by another. One thread asks the copy engine for both.
// tilewright: grid=(ceil(cols/32),ceil(rows/32)) block=(32,8) reference=references.py:transpose
// tilewright: a=float32[rows,cols] b=out:float32[cols,rows] rows=100 cols=72
// tilewright: maps=from:a(32,32,swizzle=128B),to:b(32,32)
#include <cuda.h>
#include <stdint.h>

#define TILE_BYTES (32 * 32 * 4)

__global__ void tile_transpose(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
    __shared__ __align__(1024) float tile[32][32];
    __shared__ __align__(128) float turned[32][32];
    __shared__ uint64_t barrier;
    const unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
    const int x = threadIdx.x, row = blockIdx.y * 32, col = blockIdx.x * 32;
    const bool leads = x == 0 && threadIdx.y == 0;
    if (leads) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "n"(TILE_BYTES));
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
            ::"r"((unsigned)__cvta_generic_to_shared(tile)), "l"((uint64_t)&from), "r"(col), "r"(row), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile(
        "{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0; @!done bra AGAIN; }"
        ::"r"(bar) : "memory");
    for (int y = threadIdx.y; y < 32; y += 8) turned[x][y] = tile[y][(x / 4 ^ y % 8) * 4 + x % 4];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (leads) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"((uint64_t)&to), "r"(row), "r"(col), "r"((unsigned)__cvta_generic_to_shared(turned)) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
