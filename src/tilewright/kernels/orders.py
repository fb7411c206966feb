"""The orders of sums (`Sums.order`) of batch-invariant products: of each kind, the first that a GPU runs."""

FLOAT32 = ("fma 64/4",)
"""4 slices of 16 of every 64 k: on an H200, over all m, the order whose fastest configs come nearest to the fastest of
all on CUDA cores."""

TF32 = ("wgmma 8", "mma 8", *FLOAT32)

EXACT = "exact"
"""The order of sums of integers, which are the same in any."""

NARROW = ("wgmma 16", "mma 16", "wmma 16, 32 at a time")
"""Orders of products of 16-bit factors."""
