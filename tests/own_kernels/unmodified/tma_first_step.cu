// One warpgroup: a thread starts the copies of both tiles, all wait for them at libcu++'s barriers. C is column-major.
#include <cassert>
#include <cuda.h>
#include <cuda/barrier>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bf16;
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;

__device__ static inline uint64_t encode(uint64_t x) { return (x & 0x3FFFF) >> 4; }

__device__ uint64_t make_smem_desc(bf16* ptr) {
    uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(ptr));
    return encode(addr) | encode(16) << 16 | encode(1024) << 32 | 1llu << 62;  // swizzled by 128 bytes
}

__device__ void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ void warpgroup_commit_batch() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int N>
__device__ void warpgroup_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}

template <int ScaleD, int ScaleA, int ScaleB, int TransA, int TransB>
__device__ void wgmma32(float d[2][8], bf16* sA, bf16* sB) {
    uint64_t desc_a = make_smem_desc(sA), desc_b = make_smem_desc(sB);
    asm volatile(
        "{\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, %18, %19, %20, %21, %22;\n"
        "}\n"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[0][4]), "+f"(d[0][5]), "+f"(d[0][6]),
          "+f"(d[0][7]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[1][4]), "+f"(d[1][5]),
          "+f"(d[1][6]), "+f"(d[1][7])
        : "l"(desc_a), "l"(desc_b), "n"(int32_t(ScaleD)), "n"(int32_t(ScaleA)), "n"(int32_t(ScaleB)),
          "n"(int32_t(TransA)), "n"(int32_t(TransB)));
}

template <int BM, int BN, int BK>
__global__ void __launch_bounds__(128) matmulFirst(int M, int N, int K, bf16* C, const CUtensorMap* tensorMapA,
                                                   const CUtensorMap* tensorMapB, int* DB) {
    __shared__ alignas(1024) bf16 sA[BM * BK];
    __shared__ alignas(1024) bf16 sB[BK * BN];
    float d[BN / 16][8];
    memset(d, 0, sizeof(d));
    const int num_blocks_k = K / BK, num_block_n = blockIdx.x % (N / BN), num_block_m = blockIdx.x / (N / BN);
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier barA;
    __shared__ barrier barB;
    if (threadIdx.x == 0) {
        init(&barA, blockDim.x);
        init(&barB, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();

    barrier::arrival_token tokenA, tokenB;
    for (int i = 0; i < num_blocks_k; ++i) {
        if (threadIdx.x == 0) {
            cde::cp_async_bulk_tensor_2d_global_to_shared(&sA[0], tensorMapA, i * BK, num_block_m * BM, barA);
            tokenA = cuda::device::barrier_arrive_tx(barA, 1, sizeof(sA));
            cde::cp_async_bulk_tensor_2d_global_to_shared(&sB[0], tensorMapB, i * BK, num_block_n * BN, barB);
            tokenB = cuda::device::barrier_arrive_tx(barB, 1, sizeof(sB));
        } else {
            tokenA = barA.arrive();
            tokenB = barB.arrive();
        }
        barA.wait(std::move(tokenA));
        barB.wait(std::move(tokenB));
        __syncthreads();

        warpgroup_arrive();
        for (int k = 0; k < BK; k += 16) wgmma32<1, 1, 1, 0, 0>(d, &sA[k], &sB[k]);
        warpgroup_commit_batch();
        warpgroup_wait<0>();
    }

    const int tid = threadIdx.x, row = tid / 32 * 16 + tid % 32 / 4;
    bf16* block_C = C + num_block_n * BN * M + num_block_m * BM;
    for (int w = 0; w < BN / 16; ++w) {
        const int col = 16 * w + 2 * (tid % 4);
#define IDX(i, j) ((j) * M + (i))
        for (int i = 0; i < 8; ++i) block_C[IDX(row + i / 2 % 2 * 8, col + i / 4 * 8 + i % 2)] = d[w][i];
#undef IDX
    }
}
