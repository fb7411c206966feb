#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define WARP_SIZE 32
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_ALL() asm volatile("cp.async.wait_all;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n)                                                 \
  asm volatile("cp.async.wait_group %0;\n" ::"n"(n))
#define CP_ASYNC_CG(dst, src, bytes)                                           \
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), \
               "l"(src), "n"(bytes))
#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                      \
  asm volatile(                                                                \
      "ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"     \
      : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                 \
      : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                            \
  asm volatile(                                                                \
      "ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n"       \
      : "=r"(R0), "=r"(R1)                                                     \
      : "r"(addr))
#define HMMA16816(RD0, RD1, RD2, RD3, RA0, RA1, RA2, RA3, RB0, RB1)            \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "            \
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
               : "+f"(RD0), "+f"(RD1), "+f"(RD2), "+f"(RD3)                    \
               : "r"(RA0), "r"(RA1), "r"(RA2), "r"(RA3), "r"(RB0), "r"(RB1))

// 64 x 64 of C a block, 32 x 32 a warp, two stages.
template <const int BM = 64, const int BN = 64, const int BK = 32, const int A_PAD = 8, const int B_PAD = 8>
__global__ void __launch_bounds__(128)
    hgemm_mma_m16n8k16_stages(half *A, half *B, float *C, int M, int N, int K) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int NUM_K_TILES = K / BK;
  __shared__ half s_a[2][BM][BK + A_PAD];
  __shared__ half s_b[2][BK][BN + B_PAD];

  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int lane_id = tid % WARP_SIZE;
  const int warp_m = warp_id % 2;
  const int warp_n = warp_id / 2;

  float RC[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      RC[i][j][0] = RC[i][j][1] = RC[i][j][2] = RC[i][j][3] = 0;
    }
  }

  auto load_stage = [&](int k) {
    for (int i = 0; i < 2; ++i) {
      int chunk = tid + 128 * i;
      int a_m = chunk / (BK / 8), a_k = chunk % (BK / 8) * 8;
      int b_k = chunk / (BN / 8), b_n = chunk % (BN / 8) * 8;
      uint32_t a_ptr = __cvta_generic_to_shared(&s_a[k % 2][a_m][a_k]);
      uint32_t b_ptr = __cvta_generic_to_shared(&s_b[k % 2][b_k][b_n]);
      CP_ASYNC_CG(a_ptr, &A[(by * BM + a_m) * K + k * BK + a_k], 16);
      CP_ASYNC_CG(b_ptr, &B[(k * BK + b_k) * N + bx * BN + b_n], 16);
    }
  };

  load_stage(0);
  CP_ASYNC_COMMIT_GROUP();
  for (int k = 0; k < NUM_K_TILES; ++k) {
    if (k + 1 < NUM_K_TILES) load_stage(k + 1);
    CP_ASYNC_COMMIT_GROUP();
    CP_ASYNC_WAIT_GROUP(1);
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      uint32_t RA[2][4], RB[4][2];
      for (int i = 0; i < 2; ++i) {
        uint32_t lane_a = __cvta_generic_to_shared(
            &s_a[k % 2][warp_m * 32 + i * 16 + lane_id % 16][kk + (lane_id / 16) * 8]);
        LDMATRIX_X4(RA[i][0], RA[i][1], RA[i][2], RA[i][3], lane_a);
      }
      for (int j = 0; j < 4; ++j) {
        uint32_t lane_b = __cvta_generic_to_shared(&s_b[k % 2][kk + lane_id % 16][warp_n * 32 + j * 8]);
        LDMATRIX_X2_T(RB[j][0], RB[j][1], lane_b);
      }
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 4; ++j) {
          HMMA16816(RC[i][j][0], RC[i][j][1], RC[i][j][2], RC[i][j][3], RA[i][0], RA[i][1], RA[i][2],
                    RA[i][3], RB[j][0], RB[j][1]);
        }
      }
    }
    __syncthreads();
  }
  CP_ASYNC_WAIT_ALL();

  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      int m = by * BM + warp_m * 32 + i * 16 + lane_id / 4;
      int n = bx * BN + warp_n * 32 + j * 8 + (lane_id % 4) * 2;
      reinterpret_cast<float2 *>(&C[m * N + n])[0] = make_float2(RC[i][j][0], RC[i][j][1]);
      reinterpret_cast<float2 *>(&C[(m + 8) * N + n])[0] = make_float2(RC[i][j][2], RC[i][j][3]);
    }
  }
}

int main(int argc, char *argv[]) {
  const int M = 4096, N = 4096, K = 4096;
  half *A, *B;
  float *C;
  cudaMalloc(&A, M * K * sizeof(half));
  cudaMalloc(&B, K * N * sizeof(half));
  cudaMalloc(&C, M * N * sizeof(float));
  dim3 block(128);
  dim3 grid(N / 64, M / 64);
  hgemm_mma_m16n8k16_stages<><<<grid, block>>>(A, B, C, M, N, K);
  cudaDeviceSynchronize();
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  return 0;
}
