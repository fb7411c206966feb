"""Every constraint of every kernel is broken once, and its message read."""

import random

import numpy as np
import pytest

from tilewright.core.errors import ConfigError
from tilewright.kernels import GROUPED, KERNELS, LADDER, find

ODD = (1, 2, 3, 7, 24, 96, 256, 512)
DRAWS = 3000

# For kernels: overrides that break a constraint, and words of its message. Of others violations are drawn.
VIOLATIONS = {
    "naive": [
        ({"BLOCK_X": 64}, "BLOCK_X*BLOCK_Y must be at most 1024"),
        ({"X_ALONG_N": 2}, "X_ALONG_N must be 0 or 1"),
    ],
    "coalesced": [({"BLOCK": 33}, "BLOCK*BLOCK must be at most 1024")],
    "shared_tiled": [
        ({"TILE": 33}, "TILE*TILE must be at most 1024"),
        ({"PAD": 200}, "8*TILE*(TILE+PAD) must be at most 49152 bytes"),
    ],
    "thread_tiled_1d": [
        ({"TN": 2}, "TM or TN must be 1"),
        ({"TM": 7}, "BM must be a multiple of TM"),
        ({"TM": 1, "TN": 5}, "BN must be a multiple of TN"),
        ({"TM": 2, "BK": 32}, "(BM/TM)*(BN/TN) must be at most 1024"),
        ({"BM": 32, "BN": 128}, "BM*BK must be a multiple of threads"),
        ({"BM": 128, "BN": 32}, "BN*BK must be a multiple of threads"),
        ({"BK": 128}, "the tiles of A and B must take at most 49152 bytes"),
        ({"SPREAD": 2}, "SPREAD must be 0 or 1"),
    ],
    "thread_tiled_2d": [
        ({"TM": 7}, "BM must be a multiple of TM"),
        ({"TN": 7}, "BN must be a multiple of TN"),
        ({"TM": 4, "TN": 2}, "(BM/TM)*(BN/TN) must be at most 1024"),
        ({"BM": 32, "BK": 1}, "BM*BK must be a multiple of threads"),
        ({"BN": 32, "BK": 1}, "BN*BK must be a multiple of threads"),
        ({"BK": 64}, "the tiles of A and B must take at most 49152 bytes"),
    ],
    "vectorized": [
        ({"TM": 7}, "BM must be a multiple of TM"),
        ({"TN": 7}, "BN must be a multiple of TN"),
        ({"TM": 2, "TN": 4}, "(BM/TM)*(BN/TN) must be at most 1024"),
        ({"TM": 2}, "TM must be a multiple of 4"),
        ({"TN": 2}, "TN must be a multiple of 4"),
        ({"BK": 6}, "BK must be a multiple of 4"),
        ({"BM": 32, "BN": 256}, "BM*BK must be a multiple of 4*threads"),
        ({"BM": 256, "BN": 32}, "BN*BK must be a multiple of 4*threads"),
        ({"BK": 64}, "the tiles of A and B must take at most 49152 bytes"),
    ],
    "warptiled": [
        ({"BM": 48}, "BM must be a multiple of WM"),
        ({"BN": 96}, "BN must be a multiple of WN"),
        ({"BM": 512, "BN": 512}, "(BM/WM)*(BN/WN)*32 must be at most 1024"),
        ({"WNITER": 32}, "WN/WNITER must be a multiple of TN"),
        ({"BN": 96, "WN": 96}, "WN/WNITER/TN must divide 32"),
        ({"WNITER": 8}, "WM must be a multiple of 32*TM*TN/(WN/WNITER)"),
        ({"TM": 2}, "TM must be a multiple of 4"),
        ({"TN": 2}, "TN must be a multiple of 4"),
        ({"BK": 6}, "BK must be a multiple of 4"),
        ({"BK": 4}, "BM*BK must be a multiple of 4*threads"),
        ({"BM": 256, "BN": 64, "BK": 4}, "BN*BK must be a multiple of 4*threads"),
        ({"BK": 128}, "the tiles of A and B must take at most 49152 bytes"),
    ],
}
WARP_TILES = VIOLATIONS["warptiled"][:-1]
VIOLATIONS["double_buffered"] = [
    *WARP_TILES,
    ({"BK": 64}, "two tiles of A and of B must take at most 49152 bytes"),
]
VIOLATIONS["async_copy"] = [
    *WARP_TILES,
    ({"BK": 12, "BM": 128, "BN": 256}, "BK must be 4, 8, 16 or 32"),
    ({"WM": 4, "BM": 4, "BN": 32, "WN": 32, "WNITER": 1, "TM": 4, "TN": 1}, "WM must be a multiple of 8"),
    ({"STAGES": 20}, "STAGES tiles of A and of B must take at most 232448 bytes"),
]
FRAGMENTS = [
    ({"BM": 96}, "BM must be a multiple of WM"),
    ({"BN": 80}, "BN must be a multiple of WN"),
    ({"BM": 96, "WM": 24}, "WM must be a multiple of 16"),
    ({"BN": 96, "WN": 24}, "WN must be a multiple of 16"),
    ({"MIN_BLOCKS": 5}, "MIN_BLOCKS*(BM/WM)*(BN/WN)*32 must be at most 1024"),
    ({"BK": 128}, "the tiles of A and B, and the results, must each take at most 49152 bytes"),
]
VIOLATIONS["tma_packed"] = [
    ({"BM": 48}, "BM must be a multiple of 4*TM"),
    ({"BN": 96}, "BN must be a multiple of 8*TN"),
    ({"BM": 256, "BN": 256, "TM": 4}, "32*(BM/(4*TM))*(BN/(8*TN)) must be at most 1024"),
    ({"BM": 64, "BN": 256, "TM": 4, "TN": 4}, "BM must be a multiple of threads/8"),
    ({"TM": 2, "BM": 64}, "TM must be a multiple of 4"),
    ({"TN": 2, "BN": 64}, "TN must be a multiple of 4"),
    ({"BK": 15}, "BK must be a multiple of 2"),
    ({"BM": 512, "MIN_BLOCKS": 1}, "BM, BN and BK must be at most 256"),
    ({"BK": 60}, "MIN_BLOCKS times BK*((1+A_BUFFERS)*BM+2*BN) floats, or K_SLICES*BM*BN if more, must fit"),
    ({"BK": 34}, "BK must be a multiple of 2, above 32 of 4"),
    ({"MIN_BLOCKS": 3}, "MIN_BLOCKS*threads*(TM*TN+2*(TM+TN)) must be at most 65536"),
]
VIOLATIONS["tma_transposed"] = [
    ({"BM": 48}, "BM must be a multiple of 4*TM"),
    ({"BN": 96}, "BN must be a multiple of 8*TN"),
    ({"BN": 32}, "BN must be a multiple of 8*TN"),
    ({"BM": 32, "BN": 64}, "K_SLICES*32*(BM/(4*TM))*(BN/(8*TN)) must be 128 or 256 threads"),
    ({"TM": 2}, "TM must be a multiple of 4"),
    ({"TN": 2}, "TN must be a multiple of 4"),
    ({"TM": 4, "BM": 32}, "TM must be a multiple of 8"),
    ({"BK": 52}, "BK must be a multiple of 8 and of 4*K_SLICES"),
    ({"BK": 40}, "BM and BN must be multiples of threads/8; of threads/4 if BK is not a multiple of 32"),
    ({"BM": 128, "BN": 64, "BK": 40, "UNROLL": 4}, "BM and BN must be multiples of threads/8"),
    ({"A_BUFFERS": 3}, "A_BUFFERS must be 1 or 2"),
    ({"COPIED": 4}, "COPIED must be from 0 to 3"),
    ({"UNROLL": 24}, "UNROLL must be a multiple of 4 that divides BK/K_SLICES"),
    ({"UNROLL": 2}, "UNROLL must be a multiple of 4 that divides BK/K_SLICES"),
    ({"BM": 32, "BN": 512, "K_SLICES": 1}, "BM, BN and BK must be at most 256"),
    ({"BUNDLE": 2, "MIN_BLOCKS": 1}, "MIN_BLOCKS must be a multiple of BUNDLE"),
    ({"BUNDLE": 2, "WORKERS": 0}, "BUNDLE must be 1 where WORKERS is 0"),
    ({"BM": 64, "BN": 64, "K_SLICES": 4, "BK": 128}, "MIN_BLOCKS times BK*((1+A_BUFFERS)*BM+2*BN) floats, or K_SLICES"),
    (
        {"BM": 128, "BN": 256, "TM": 16, "TN": 16, "MIN_BLOCKS": 1},
        "MIN_BLOCKS*threads*(TM*TN+2*(TM+TN)) must be at most 65536",
    ),
]
VIOLATIONS["split_k"] = [
    ({"BM": 24}, "BM must be a multiple of 4*TM"),
    ({"BN": 96}, "BN must be a multiple of 8*TN"),
    ({"TM": 2}, "TM must be a multiple of 4"),
    ({"TN": 2}, "TN must be a multiple of 4"),
    ({"BK": 6, "K_SLICES": 2}, "BK must be a multiple of 2*K_SLICES"),
    ({"BK": 48, "K_SLICES": 3}, "TM must be a multiple of K_SLICES"),
    ({"BM": 256, "BN": 256, "TM": 4, "TN": 4, "MIN_BLOCKS": 1}, "32*K_SLICES*(BM/(4*TM))*(BN/(8*TN)) must be"),
    ({"BK": 12}, "BM, BN and BK must be such that the block's threads copy equally much of every tile"),
    ({"STAGES": 20}, "MIN_BLOCKS times STAGES*BK*(BM+BN+4) floats, or K_SLICES*BM*BN if more, must fit"),
    ({"BM": 128, "BN": 256, "TN": 16, "TM": 8}, "MIN_BLOCKS*threads*(TM*TN+2*(TM+TN)) must be at most 65536"),
]
VIOLATIONS["skinny"] = [
    ({"THREADS_N": 24}, "THREADS_M and THREADS_N must divide 32 or be multiples of it"),
    ({"THREADS_M": 8}, "THREADS_M or THREADS_N must be 1"),
    ({"GROUPS": 40, "TM": 1, "TN": 1}, "GROUPS*max(THREADS_M,THREADS_N,32) must be at most 1024"),
    ({"DEPTH": 6}, "DEPTH must be a multiple of 4"),
    ({"AHEAD": 2}, "AHEAD must be 0 or 1"),
    ({"TN": 16, "MIN_BLOCKS": 4}, "TM*TN+DEPTH*"),
]
VIOLATIONS["wmma_tf32"] = [
    *FRAGMENTS,
    ({"BK": 12}, "BK must be a multiple of 8"),
    ({"BM": 64, "BN": 256, "BK": 8}, "BM*BK must be a multiple of 4*threads"),
    ({"BM": 256, "BN": 64, "BK": 8}, "BN*BK must be a multiple of 4*threads"),
]
VIOLATIONS["wmma_f16"] = [
    *FRAGMENTS,
    ({"BK": 8}, "BK must be a multiple of 16"),
    ({"BM": 64, "BN": 256, "BK": 16}, "BM*BK must be a multiple of 8*threads"),
    ({"BM": 256, "BN": 64, "BK": 16}, "BN*BK must be a multiple of 8*threads"),
]
WARPGROUPS = [
    ({"BM": 96}, "BM must be a multiple of 64"),
    ({"BN": 96}, "BN must be a multiple of 64"),
    ({"BN": 320}, "BN must be at most 256"),
]
VIOLATIONS["wgmma"] = [
    *WARPGROUPS,
    ({"BN": 192}, "BM*BN must be at most 16384"),
    ({"BM": 192, "BN": 256}, "the tiles of A and B must take at most 49152 bytes"),
    ({"MIN_BLOCKS": 3}, "MIN_BLOCKS*BM*BN must be at most 32768"),
]
VIOLATIONS["wgmma_tma"] = [
    *WARPGROUPS,
    ({"BN": 192}, "BM*BN must be at most 16384"),
    ({"STAGES": 1}, "STAGES must be at least 2"),
    ({"STAGES": 8}, "STAGES tiles of A and of B, and their barriers, must take at most 232448 bytes"),
]
VIOLATIONS["specialised"] = [
    ({"BM": 192}, "BM must be 128 or 256"),
    *WARPGROUPS[1:],
    ({"BM": 256}, "BM*BN must be at most 32768"),
    ({"STAGES": 1}, "STAGES must be at least 2"),
    ({"STAGES": 5}, "STAGES tiles of A and of B, and their barriers, must take at most 232448 bytes"),
]
VIOLATIONS["persistent"] = VIOLATIONS["specialised"]
VIOLATIONS["clusters"] = [*VIOLATIONS["specialised"], ({"CLUSTER_M": 3}, "CLUSTER_M must be 1, 2, 4 or 8")]
VIOLATIONS["rasterized"] = VIOLATIONS["clusters"]
VIOLATIONS["pingpong"] = [
    *WARPGROUPS,
    ({"BM": 320, "BN": 64, "STAGES": 2}, "BM must be at most 256"),
    ({"BN": 256, "STAGES": 2}, "BM*BN must be at most 24576"),
    ({"STAGES": 1}, "STAGES must be at least 2"),
    ({"CLUSTER_M": 3}, "CLUSTER_M must be 1, 2, 4 or 8"),
    ({"STAGES": 8}, "STAGES tiles of A and of B, and their barriers, must take at most 232448 bytes"),
]
VIOLATIONS["tma_store"] = [
    *VIOLATIONS["pingpong"][:-1],
    ({"STAGES": 7}, "STAGES tiles of A and of B, results and barriers must take at most 232448 bytes"),
]
VIOLATIONS["wgmma_int8"] = [
    WARPGROUPS[0],
    ({"BN": 320}, "BM and BN must be at most 256"),
    ({"BM": 320, "BN": 64, "STAGES": 2}, "BM and BN must be at most 256"),
    ({"BN": 40, "CLUSTER_M": 1}, "BN must be a multiple of 16"),
    ({"BN": 80, "CLUSTER_M": 4}, "BN must be a multiple of 8*CLUSTER_M"),
    ({"BN": 256, "STAGES": 2}, "BM*BN must be at most 24576"),
    *VIOLATIONS["pingpong"][-3:-1],
    ({"STAGES": 6}, "STAGES tiles of A and of B, and their barriers, must take at most 232448 bytes"),
]
OF_PARTS = "STAGES tiles of A and of B of three parts, and their barriers, must take at most 232448 bytes"
VIOLATIONS["split"] = [
    *WARPGROUPS,
    ({"STAGES": 1}, "STAGES must be at least 2"),
    ({"STAGES": 4}, OF_PARTS),
]
VIOLATIONS["promoted"] = [
    *WARPGROUPS,
    ({"BM": 128, "STAGES": 2}, "BM*BN must be at most 12288"),
    ({"STAGES": 1}, "STAGES must be at least 2"),
    ({"STAGES": 4}, OF_PARTS),
    ({"PROMOTE": 48}, "PROMOTE must be 16, 32 or a multiple of 64"),
]
VIOLATIONS["interleaved"] = [
    ({"BM": 64}, "BM must be 128"),
    *WARPGROUPS[1:],
    ({"STAGES": 1}, "STAGES must be at least 2"),
    ({"STAGES": 3}, OF_PARTS),
    ({"PROMOTE": 96}, "PROMOTE must be 16, 32 or a multiple of 64"),
]
SUMS_OF_16_BITS = "BM*BN/128 over the consumers of a tile must be at most 192 (with CONSUMERS=3 100)"
TMA_STORE_STAGES = "with TMA_STORE_STAGES above 0, BN/SPLITS must be a multiple of 64"
SWAP_AB = "SWAP_AB must be 0 or 1"
VIOLATIONS["gemm_sm90"] = [
    ({"BM": 192}, "BM must be a multiple of 64 rows for each consumer of a tile, at most 256"),
    ({"BN": 100}, "BN must be a multiple of 8, at most 256"),
    ({"PINGPONG": 1}, SUMS_OF_16_BITS),
    ({"BM": 256, "STAGES": 2}, SUMS_OF_16_BITS),
    ({"BM": 192, "BN": 208, "CONSUMERS": 3}, SUMS_OF_16_BITS),
    ({"CLUSTER_M": 3}, "CLUSTER_M must be 1, 2, 4 or 8 and CLUSTER_N 1, 2 or 4"),
    ({"SPLITS": 3}, "SPLITS must be 1, or with PINGPONG=0 be 2, 4 or 8"),
    ({"SPLITS": 2, "BM": 256, "BN": 64}, "with SPLITS above 1, BM must be 64 rows for each consumer"),
    ({"SPLITS": 4, "BN": 80}, "with SPLITS above 1, BN must be a multiple of 8*SPLITS"),
    ({"SPLITS": 2, "STAGES": 2}, "with SPLITS above 1, BN must be a multiple of 8*SPLITS, and BM*BN float32 sums fit"),
    ({"TMA_STORE_STAGES": 3, "BN": 128}, TMA_STORE_STAGES),
    ({"TMA_STORE_STAGES": 1, "BN": 72}, TMA_STORE_STAGES),
    ({"TMA_STORE_STAGES": 3, "BN": 72, "SWAP_AB": 1}, TMA_STORE_STAGES),
    ({"SWAP_AB": 2}, SWAP_AB),
    ({"CONSUMERS": 4, "BN": 64}, "CONSUMERS must be 2, or with PINGPONG=0 be 1 or 3"),
    ({"CONSUMERS": 1, "PINGPONG": 1, "BN": 64}, "CONSUMERS must be 2, or with PINGPONG=0 be 1 or 3"),
    ({"STAGES": 1}, "STAGES must be at least 2"),
    ({"BN": 200, "STAGES": 6}, "STAGES tiles of A and of B, and their barriers, must take at most 232448 bytes"),
]
SUMS_AND_A = (
    "BM*BN/128 over the consumers of a tile and BM/4, of A, together must be at most 192 (with CONSUMERS=3 100)"
)
VIOLATIONS["gemm_tf32_nn"] = [
    *(
        (overrides, words)
        for overrides, words in VIOLATIONS["gemm_sm90"]
        if words not in (SUMS_OF_16_BITS, TMA_STORE_STAGES, SWAP_AB)
    ),
    ({"BM": 256, "BN": 168, "STAGES": 2}, SUMS_AND_A),
    ({"BM": 192, "BN": 176, "CONSUMERS": 3}, SUMS_AND_A),
]
VIOLATIONS["gemm_fp16x3"] = [
    ({"BM": 192}, "BM must be a multiple of 64 rows for each consumer of a tile, at most 256"),
    ({"BN": 100}, "BN must be a multiple of 8, at most 256"),
    ({"BN": 96}, "BN must be a multiple of 64: columns of a scale"),
    ({"BN": 256, "STAGES": 2}, "BM*BN/128 over the consumers of a tile and BN/2 together must be at most 192"),
    ({"CLUSTER_N": 8}, "CLUSTER_M must be 1, 2, 4 or 8 and CLUSTER_N 1, 2 or 4"),
    ({"SPLITS": 2, "PINGPONG": 1}, "SPLITS must be 1, or with PINGPONG=0 be 2, 4 or 8"),
    ({"SPLITS": 2, "BM": 256, "BN": 64}, "with SPLITS above 1, BM must be 64 rows for each consumer"),
    ({"SPLITS": 4, "BN": 80}, "with SPLITS above 1, BN must be a multiple of 8*SPLITS"),
    ({"STAGES": 1}, "STAGES must be at least 2"),
    ({"STAGES": 4}, "STAGES tiles of A and of B, and their barriers, must take at most 232448 bytes"),
]
VIOLATIONS["gemm_mma_bf16x6"] = [
    ({"WM": 48}, "WM must be 16, 32 or 64"),
    ({"WN": 128, "WM": 16}, "WN must be 16, 32 or 64"),
    ({"BM": 96}, "BM must be a multiple of WM"),
    ({"BN": 48}, "BN must be a multiple of WN"),
    ({"BK": 48}, "BK must be 16, 32 or 64"),
    ({"WN": 64}, "WM*WN/32 must be at most 64"),
    ({"PROMOTE": 64}, "PROMOTE must be 16, 32 or 64, and divide BK"),
    ({"BM": 64, "BN": 64}, "(BM/WM)*(BN/WN)*32 must be at least 128"),
    ({"WM": 32}, "(BM/WM)*(BN/WN)*32 must be at most 256"),
    ({"BM": 16, "BN": 128, "WM": 16, "WN": 16, "BK": 16}, "BM*BK and BN*BK must be multiples of 8*threads"),
    ({"STAGES": 1}, "STAGES must be at least 2"),
    ({"STAGES": 5}, "STAGES*3 tiles of A and of B must take at most"),
]
VIOLATIONS["gemm_mma"] = [
    ({"BM": 192}, "BM and BN must be powers of two"),
    ({"WORKERS": 1}, "GROUP_M must be 1 where WORKERS is not 0"),
    ({"BK": 16, "GROUP_M": 1, "STAGES": 2, "WORKERS": 4}, "WORKERS*threads*(WM*WN/32+88) must be at most 65536"),
    ({"GROUP_M": 1, "WORKERS": 3, "STAGES": 4}, "WORKERS times STAGES tiles of A and of B, and 16 bytes, must fit"),
]
VIOLATIONS["gemm_mma_fp8"] = [
    ({"BK": 64}, "BK must be 128"),
    ({"WN": 64}, "WM*WN/32 must be at most 64"),
    ({"STAGES": 8}, "STAGES*1 tiles of A and of B must take at most"),
]
VIOLATIONS["small_m_bf16x6"] = [
    ({"BM": 96}, "BM must be 128, or a multiple of 8 up to 64"),
    ({"BN": 96}, "BN must be 64, 128 or 192"),
    ({"BK": 64}, "BK must be 32, 64 or 128, at most 4096/BM"),
    ({"K_SLICES": 2, "STAGES": 2}, "STAGES must be more than K_SLICES"),
    ({"SPLITS": 3}, "SPLITS must be 1, 2, 4 or 8"),
    ({"BN": 192, "STAGES": 2}, "BN/64*K_SLICES, the warpgroups that multiply, must be 1 or 2"),
    ({"BM": 64, "BN": 64, "MIN_BLOCKS": 2}, "MIN_BLOCKS must be 1, or with one warpgroup that multiplies"),
    ({"STAGES": 6}, "STAGES tiles of A and of B must fit into a multiprocessor's shared memory"),
]
VIOLATIONS["small_m_fp16x3"] = [
    *VIOLATIONS["small_m_bf16x6"][:-1],
    ({"STAGES": 8}, "STAGES tiles of A and of B must fit into a multiprocessor's shared memory"),
]
VIOLATIONS["conflict_free"] = [
    *VIOLATIONS["vectorized"],
    ({"BN": 96, "TN": 12}, "TN must be a power of two"),
]
VIOLATIONS["padded"] = VIOLATIONS["vectorized"]
VIOLATIONS["autotuned"] = VIOLATIONS["vectorized"]

VIOLATIONS["gemm_int8"] = VIOLATIONS["gemm_int8_nn"] = VIOLATIONS["grouped_int8"] = [
    ({"BN": 40}, "BN must be at most 24 or a multiple of 16, the columns of an instruction for integers")
]

CASES = [(name, overrides, words) for name, cases in VIOLATIONS.items() for overrides, words in cases]


@pytest.mark.first(101)
@pytest.mark.parametrize(("name", "overrides", "words"), CASES)
def test_a_broken_constraint_is_named_with_its_reason(name, overrides, words):
    with pytest.raises(ConfigError) as caught:
        find(name).config(overrides)
    assert words in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("kernel", (*KERNELS, *GROUPED), ids=lambda kernel: kernel.name)
def test_each_constraint_is_broken_by_some_config(kernel):
    """By one of those above, or else by a drawn one."""
    unbroken = set(kernel.constraints)
    for overrides, words in VIOLATIONS.get(kernel.name, ()):
        matching = [sentence for sentence in kernel.constraints if sentence.startswith(words)]
        assert len(matching) == 1, f"{overrides}: {words}"
        unbroken -= set(matching)
    source = random.Random(kernel.name)
    for _ in range(DRAWS if unbroken else 0):
        drawn = {one.name: source.choice((one.default, one.default, *one.values, *ODD)) for one in kernel.parameters}
        try:
            kernel.config(drawn)
        except ConfigError as error:
            unbroken -= {sentence for sentence in unbroken if sentence in str(error)}
        if not unbroken:
            break
    assert not unbroken, f"if there is a config that breaks it, add it to VIOLATIONS, above, for {kernel.name}"


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_defaults_and_presets_hold(kernel):
    configs = [kernel.config()]
    configs += [kernel.config(overrides) for overrides in kernel.presets.values()]
    assert all(1 <= kernel.threads(config) <= 1024 for config in configs)


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_an_override_must_name_a_parameter_and_be_a_positive_integer(kernel):
    name = kernel.parameters[0].name
    with pytest.raises(ConfigError, match=f"did you mean '{name}'"):
        kernel.config({name.lower(): 8})
    with pytest.raises(ConfigError, match=f"{name} must be an integer, got 'x'"):
        kernel.config({name: "x"})
    with pytest.raises(ConfigError, match=f"{name} must be at least 1, got 0"):
        kernel.config({name: 0})
    default = kernel.config()
    assert [type(value) for value in kernel.config({name: np.int64(default[name])}).values()] == [int] * len(default)
