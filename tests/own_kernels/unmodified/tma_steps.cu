// A producer warpgroup loads tiles by tensor maps, two others multiply them in the tensor cores, each
// half of the rows. C is column-major.
#include <cassert>
#include <cstdint>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bf16;

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

template <int BlockMajorSize, int BlockMinorSize>
__host__ static inline CUtensorMap create_tensor_map(bf16* gmem_ptr, int global_height, int global_width) {
    CUtensorMap tma_map;
    uint64_t shape[5] = {64, (uint64_t)global_height, (uint64_t)global_width / 64, 1, 1};
    uint64_t stride[5] = {sizeof(bf16) * global_width, 64 * sizeof(bf16), 0, 0, 0};
    uint32_t box[5] = {64, uint32_t(BlockMajorSize), uint32_t(BlockMinorSize / 64), 1, 1};
    uint32_t each[5] = {1, 1, 1, 1, 1};
    CUresult result = cuTensorMapEncodeTiled(
        &tma_map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, (void*)gmem_ptr, shape, stride, box, each,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    assert(result == CUDA_SUCCESS);
    return tma_map;
}

CUtensorMap d_tma_map_A;
CUtensorMap d_tma_map_B;

template <int ScaleD>
__device__ __forceinline__ void wgmma32(float d[2][8], bf16* sA, bf16* sB) {
    uint64_t desc_a = make_smem_desc(sA), desc_b = make_smem_desc(sB);
    asm volatile(
        "{\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, %18, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[0][4]), "+f"(d[0][5]), "+f"(d[0][6]),
          "+f"(d[0][7]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[1][4]), "+f"(d[1][5]),
          "+f"(d[1][6]), "+f"(d[1][7])
        : "l"(desc_a), "l"(desc_b), "n"(ScaleD));
}

__device__ static __forceinline__ void init_barrier(uint64_t* bar, int thread_count) {
    uint32_t bar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(bar_ptr), "r"(thread_count));
}

__device__ static __forceinline__ void expect_bytes(uint64_t* bar, uint32_t bytes) {
    uint32_t bar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(bar_ptr), "r"(bytes));
}

__device__ static inline void load_async(bf16* dst, void const* const map, uint64_t* bar, int col, int row) {
    uint64_t tma_ptr = reinterpret_cast<uint64_t>(map);
    uint32_t mbar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    uint32_t dst_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];"
                 :
                 : "r"(dst_ptr), "l"(tma_ptr), "r"(mbar_ptr), "n"(0), "r"(row), "r"(col / 64)
                 : "memory");
}

__device__ static __forceinline__ void wait(uint64_t* bar, int kPhaseBit) {
    uint32_t mbar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("{\n"
                 ".reg .pred                P1;\n"
                 "LAB_WAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n"
                 "@P1                       bra.uni DONE;\n"
                 "bra.uni                   LAB_WAIT;\n"
                 "DONE:\n"
                 "}\n" ::"r"(mbar_ptr), "r"(kPhaseBit)
                 : "memory");
}

__device__ static __forceinline__ void arrive(uint64_t* bar, uint32_t count = 1) {
    uint32_t mbar_ptr = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0], %1;\n" : : "r"(mbar_ptr), "r"(count) : "memory");
}

template <int BM, int BN, int BK, int QSIZE>
struct SMem {
    alignas(1024) bf16 A[BM * BK * QSIZE];
    alignas(1024) bf16 B[BK * BN * QSIZE];
    uint64_t full[QSIZE], empty[QSIZE];
};

template <int BM, int BN, int BK, int QSIZE>
__global__ void __launch_bounds__(384) matmulQueue(int M, int N, int K, bf16* C,
                                                   const __grid_constant__ CUtensorMap tensorMapA,
                                                   const __grid_constant__ CUtensorMap tensorMapB) {
    extern __shared__ __align__(1024) uint8_t smem[];
    SMem<BM, BN, BK, QSIZE>& s = *reinterpret_cast<SMem<BM, BN, BK, QSIZE>*>(smem);
    const int num_blocks_k = K / BK, num_block_n = blockIdx.x % (N / BN), num_block_m = blockIdx.x / (N / BN);
    const int wg_idx = threadIdx.x / 128, tid = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < QSIZE; ++i) {
            init_barrier(&s.full[i], 1);
            init_barrier(&s.empty[i], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();

    if (wg_idx == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;\n");
        if (tid == 0) {
            int p = 0, qidx = 0;
            for (int i = 0; i < num_blocks_k; ++i, ++qidx) {
                if (qidx == QSIZE) qidx = 0, p ^= 1;
                wait(&s.empty[qidx], p ^ 1);
                expect_bytes(&s.full[qidx], (BN * BK + BM * BK) * sizeof(bf16));
                load_async(&s.A[qidx * BK * BM], &tensorMapA, &s.full[qidx], i * BK, num_block_m * BM);
                load_async(&s.B[qidx * BK * BN], &tensorMapB, &s.full[qidx], i * BK, num_block_n * BN);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;\n");
        float d[BN / 16][8] = {};
        int p = 0, qidx = 0;
        for (int i = 0; i < num_blocks_k; ++i, ++qidx) {
            if (qidx == QSIZE) qidx = 0, p ^= 1;
            wait(&s.full[qidx], p);
            bf16* sA = &s.A[qidx * BK * BM + (wg_idx - 1) * 64 * 64];
            warpgroup_arrive();
            for (int panel = 0; panel < BK / 64; ++panel)
                for (int k = 0; k < 64; k += 16)
                    wgmma32<1>(d, sA + panel * BM * 64 + k, &s.B[qidx * BK * BN + panel * BN * 64 + k]);
            warpgroup_commit_batch();
            warpgroup_wait<0>();
            if (tid == 0) arrive(&s.empty[qidx]);
        }
        const int row = tid / 32 * 16 + tid % 32 / 4;
        bf16* block_C = C + num_block_n * BN * M + num_block_m * BM + (wg_idx - 1) * 64;
        for (int w = 0; w < BN / 16; ++w) {
            const int col = 16 * w + 2 * (tid % 4);
#define IDX(i, j) ((j) * M + (i))
            block_C[IDX(row, col)] = d[w][0];
            block_C[IDX(row, col + 1)] = d[w][1];
            block_C[IDX(row + 8, col)] = d[w][2];
            block_C[IDX(row + 8, col + 1)] = d[w][3];
            block_C[IDX(row, col + 8)] = d[w][4];
            block_C[IDX(row, col + 9)] = d[w][5];
            block_C[IDX(row + 8, col + 8)] = d[w][6];
            block_C[IDX(row + 8, col + 9)] = d[w][7];
#undef IDX
        }
    }
}

void run(int M, int N, int K, bf16* A, bf16* B, bf16* C) {
    constexpr int BM = 128, BN = 32, BK = 128, QSIZE = 3;
    if (!d_tma_map_A.opaque[0]) {
        d_tma_map_A = create_tensor_map<BM, BK>(A, M, K);
        d_tma_map_B = create_tensor_map<BN, BK>(B, N, K);
    }
    auto* kernel = matmulQueue<BM, BN, BK, QSIZE>;
    size_t size = sizeof(SMem<BM, BN, BK, QSIZE>);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, size);
    kernel<<<(M / BM) * (N / BN), 384, size>>>(M, N, K, C, d_tma_map_A, d_tma_map_B);
}
