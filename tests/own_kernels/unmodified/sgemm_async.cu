// Two buffers of tiles, each with a barrier that waits for its copies.
#include <algorithm>
#include <cassert>
#include <cooperative_groups.h>
#include <cublas_v2.h>
#include <cuda/barrier>
#include <cuda_runtime.h>

namespace {
template <const int BM, const int BN, const int BK, const int NUM_THREADS, typename T>
__device__ void load(int N, int K, const float *A, const float *B, float *As, float *Bs, T &barrier) {
  // A is transposed on its way, so an element at a time.
  for (uint i = threadIdx.x; i < BM * BK; i += NUM_THREADS) {
    cuda::memcpy_async(&As[(i % BK) * BM + i / BK], &A[(i / BK) * K + i % BK],
                       cuda::aligned_size_t<sizeof(float)>(sizeof(float)), barrier);
  }
  for (uint i = threadIdx.x * 4; i < BK * BN; i += NUM_THREADS * 4) {
    cuda::memcpy_async(&Bs[i], &B[(i / BN) * N + i % BN], cuda::aligned_size_t<sizeof(float4)>(sizeof(float4)),
                       barrier);
  }
}
} // namespace

template <const int BM, const int BN, const int BK, const int TM, const int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
    sgemm_two_barriers(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
  auto block = cooperative_groups::this_thread_block();
  __shared__ cuda::barrier<cuda::thread_scope::thread_scope_block> frontBarrier;
  __shared__ cuda::barrier<cuda::thread_scope::thread_scope_block> backBarrier;
  auto front = &frontBarrier;
  auto back = &backBarrier;
  if (block.thread_rank() == 0) {
    init(&frontBarrier, block.size());
    init(&backBarrier, block.size());
  }
  __syncthreads();
  __shared__ float As[2][BM * BK];
  __shared__ __align__(16) float Bs[2][BK * BN];
  A += blockIdx.y * BM * K;
  B += blockIdx.x * BN;
  C += blockIdx.y * BM * N + blockIdx.x * BN;
  const uint row = threadIdx.x / BN * TM, col = threadIdx.x % BN;
  float sums[TM] = {0.0};
  int at = 0;
  load<BM, BN, BK, NUM_THREADS>(N, K, A, B, As[0], Bs[0], *front);
  for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
    if (bkIdx + BK < K) {
      load<BM, BN, BK, NUM_THREADS>(N, K, A + bkIdx + BK, B + (bkIdx + BK) * N, As[1 - at], Bs[1 - at], *back);
    }
    front->arrive_and_wait();
    for (uint k = 0; k < BK; ++k) {
      for (uint i = 0; i < TM; ++i) sums[i] += As[at][k * BM + row + i] * Bs[at][k * BN + col];
    }
    at = 1 - at;
    std::swap(front, back);
    __syncthreads(); // before the tiles change
  }
  for (uint i = 0; i < TM; ++i) {
    C[(row + i) * N + col] = alpha * sums[i] + beta * C[(row + i) * N + col];
  }
}
