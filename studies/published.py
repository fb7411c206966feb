"""Speeds that the sources of the ladder published. Pure data; GFLOP/s, by rung, 0 being cuBLAS.

A6000 (4092x4092x4092): "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance", 2022.
GH200 (4096x4096x4096): notes that repeat that worklog, 2025. It holds the same Hopper chip as the H200 for float32.
RTX 3060: "WorkLog: Optimizing GEMM", by m x n x k; the fastest of 10 runs after a warm-up.
FastCuda: the FastCuda GEMM guide, which gives versions and tiles.
fast.cu: Hopper kernels for bfloat16, their author's figures on an H100 SXM.
"""

from typing import NamedTuple

A6000_GIBS = {"dram": 750, "shared": 12080}
"""Bandwidths that it quotes, GiB/s."""

A6000 = {0: 23249.6, 1: 309.0, 2: 1986.5, 3: 2980.3, 4: 8474.7, 5: 15971.7, 6: 18237.3, 9: 19721.0, 10: 21779.3}
A6000_GBS = {1: 15.0, 2: 110.0}
"""Bandwidth of global memory in the first worklog's profiler, 10^9 bytes a second, before and after coalescing."""
GH200 = {0: 50058.0, 1: 502.5, 2: 6352.2, 3: 9174.1, 4: 17040.9, 5: 25933.0, 6: 31420.8, 10: 41496.0}

SGEMM_CUDA_ON_H200 = {
    0: 51300.0,
    1: 499.0,
    2: 6252.0,
    3: 9108.0,
    4: 16964.0,
    5: 25876.0,
    6: 31371.0,
    9: 31196.0,
    10: 36334.0,
    12: 20276.0,
}
"""The public code of the first worklog at 4096x4096x4096, built with nvcc 13.0 and measured on one H200, 2026-11-20."""

RTX3060 = {
    "8192x8192x4096": {0: 5538.0, 1: 692.4, 3: 946.5, 4: 1583.3, 5: 2783.6},
    "4096x4096x8192": {0: 7910.0, 1: 682.7, 3: 944.0, 4: 1578.4, 5: 2777.5},
}

CUBLAS_ON_A6000 = {
    128: "32x32, sliced along k",
    256: "64x32, sliced along k, then a second kernel that adds up the slices (split-K)",
    512: "32x32, sliced along k",
    1024: "128x64",
    2048: "128x64",
    4096: "128x64",
}
"""Tiles of the kernel that cuBLAS ran for a square product of each size, as the first worklog reports them."""
CUBLAS_KERNELS_ON_A6000 = 16
"""Different kernels that the first worklog found at sizes up to 4096."""


class Version(NamedTuple):
    """A version of FastCuda's kernel, and the preset that has its tiles here."""

    name: str
    preset: str
    adds: str
    needs: str


FASTCUDA = (
    Version("V1", "naive:fastcuda_v1", "blocks of 16x16, x along columns", "any GPU"),
    Version("V2", "shared_tiled:fastcuda_v2", "32x32 tiles in shared memory, padded by a column", "any GPU"),
    Version(
        "V3", "vectorized:fastcuda_v3", "registers for 4x4 results a thread, float4; tiles 64x64, 16 deep", "any GPU"
    ),
    Version(
        "V4",
        "double_buffered:fastcuda_v4",
        "warp tiles, two buffers, prefetch; 8x8 a thread, tiles 128x128, 8 deep",
        "any GPU",
    ),
    Version(
        "V5", "wmma_tf32:fastcuda_v5", "tensor cores in TF32; 4 warps, tiles 64x64, 8 deep", "compute capability 8.0"
    ),
    Version(
        "V6",
        "wmma_f16:fastcuda_v6",
        "tensor cores in FP16, sums in FP32; 4 warps, tiles 64x64, 16 deep",
        "compute capability 7.0; here 7.5, the oldest that NVRTC 13 compiles for",
    ),
)


class Step(NamedTuple):
    """A step of fast.cu that has a rung's idea, and all those before it."""

    idea: str
    gflops: dict[str, float]
    """By m x n x k. Those at 8192 are of its README, and one run."""


FAST_CU = {
    20: Step("tensor cores and TMA, one warpgroup", {"4096x4096x4096": 423e3, "8192x8192x8192": 488.5e3}),
    21: Step("a producer, and consumers that multiply", {"4096x4096x4096": 610e3, "8192x8192x8192": 635.4e3}),
    22: Step("persistent blocks, barriers of PTX", {"4096x4096x4096": 704e3, "8192x8192x8192": 777.5e3}),
    23: Step("clusters of two, multicast", {"4096x4096x4096": 734e3, "8192x8192x8192": 799.1e3}),
    24: Step("tiles along a Hilbert curve, after stores by TMA: 758,000 without it", {"4096x4096x4096": 764e3}),
    26: Step("stores by TMA, tiles along a Hilbert curve", {"4096x4096x4096": 764e3, "8192x8192x8192": 807.7e3}),
}
"""By rung. At 8192 the first three have tiles of 192x192, the second and third three consumers of them."""

CUBLAS_OF_FAST_CU = {"8192x8192x8192": 797.8e3}
FAST_CU_ON_H200 = 801e3
"""Its last step at 8192x8192x8192, measured on one H200, November 2026."""
