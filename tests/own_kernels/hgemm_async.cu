// Half precision on tensor cores by mma.sync: tiles come by cp.async, STAGES - 1 steps ahead; a warp multiplies WM x WN of a
// block's BM x BN. M, N and K are multiples of the tile's.
// tilewright: block=BM//WM*(BN//WN)*32 grid=(N/BN,M/BM) shared=STAGES*(BM*(BK+8)+BK*(BN+8))*2
// tilewright: BM=64:64,128 BN=64:64,128 BK=32:32,64 WM=32:32,64 WN=32:32,64 STAGES=2:2,3,4
#include <cuda_fp16.h>

#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define CP_ASYNC_CG(dst, src, bytes) \
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                  \
  asm volatile(                                                            \
      "ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
      : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                             \
      : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                  \
  asm volatile(                                                      \
      "ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n" \
      : "=r"(R0), "=r"(R1)                                           \
      : "r"(addr))
#define HMMA16816(RD0, RD1, RD2, RD3, RA0, RA1, RA2, RA3, RB0, RB1)                 \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "                 \
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"  \
               : "+f"(RD0), "+f"(RD1), "+f"(RD2), "+f"(RD3)                         \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1))

template <const int BM, const int BN, const int BK, const int WM, const int WN, const int STAGES>
__global__ void __launch_bounds__(BM / WM * (BN / WN) * 32)
    hgemm_mma(const half *A, const half *B, float *C, int M, int N, int K) {
  constexpr int THREADS = BM / WM * (BN / WN) * 32;
  constexpr int A_LINE = BK + 8, B_LINE = BN + 8;
  extern __shared__ __align__(128) half smem[];
  half *s_a = smem;
  half *s_b = smem + STAGES * BM * A_LINE;

  const int bx = blockIdx.x, by = blockIdx.y;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int warp_m = warp % (BM / WM) * WM, warp_n = warp / (BM / WM) * WN;
  const int steps = K / BK;

  float sums[WM / 16][WN / 8][4];
#pragma unroll
  for (int i = 0; i < WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0;

  auto load_stage = [&](int k) {
    half *to_a = s_a + k % STAGES * BM * A_LINE;
    half *to_b = s_b + k % STAGES * BK * B_LINE;
#pragma unroll
    for (int chunk = tid; chunk < BM * BK / 8; chunk += THREADS) {
      int m = chunk / (BK / 8), kk = chunk % (BK / 8) * 8;
      uint32_t to = __cvta_generic_to_shared(&to_a[m * A_LINE + kk]);
      CP_ASYNC_CG(to, &A[(by * BM + m) * K + k * BK + kk], 16);
    }
#pragma unroll
    for (int chunk = tid; chunk < BK * BN / 8; chunk += THREADS) {
      int kk = chunk / (BN / 8), n = chunk % (BN / 8) * 8;
      uint32_t to = __cvta_generic_to_shared(&to_b[kk * B_LINE + n]);
      CP_ASYNC_CG(to, &B[(k * BK + kk) * N + bx * BN + n], 16);
    }
  };

#pragma unroll
  for (int k = 0; k < STAGES - 1; ++k) {
    if (k < steps) load_stage(k);
    CP_ASYNC_COMMIT_GROUP();
  }
  for (int k = 0; k < steps; ++k) {
    if (k + STAGES - 1 < steps) load_stage(k + STAGES - 1);
    CP_ASYNC_COMMIT_GROUP();
    CP_ASYNC_WAIT_GROUP(STAGES - 1);
    __syncthreads();
    const half *from_a = s_a + k % STAGES * BM * A_LINE;
    const half *from_b = s_b + k % STAGES * BK * B_LINE;
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      uint32_t a[WM / 16][4], b[WN / 8][2];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i) {
        uint32_t at = __cvta_generic_to_shared(&from_a[(warp_m + i * 16 + lane % 16) * A_LINE + kk + lane / 16 * 8]);
        LDMATRIX_X4(a[i][0], a[i][1], a[i][2], a[i][3], at);
      }
#pragma unroll
      for (int j = 0; j < WN / 8; ++j) {
        uint32_t at = __cvta_generic_to_shared(&from_b[(kk + lane % 16) * B_LINE + warp_n + j * 8]);
        LDMATRIX_X2_T(b[j][0], b[j][1], at);
      }
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j)
          HMMA16816(sums[i][j][0], sums[i][j][1], sums[i][j][2], sums[i][j][3], a[i][0], a[i][1], a[i][2], a[i][3],
                    b[j][0], b[j][1]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
      int m = by * BM + warp_m + i * 16 + lane / 4;
      int n = bx * BN + warp_n + j * 8 + lane % 4 * 2;
      reinterpret_cast<float2 *>(&C[m * N + n])[0] = make_float2(sums[i][j][0], sums[i][j][1]);
      reinterpret_cast<float2 *>(&C[(m + 8) * N + n])[0] = make_float2(sums[i][j][2], sums[i][j][3]);
    }
}
