"""KernelForm: one of several kernels that are compiled from one source, each for factors of its own.

Sources: "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", Henry, Tang and
Heinecke, 2019, for parts of bfloat16; "Recovering single precision accuracy from Tensor Cores while surpassing the FP32
theoretical peak performance", Ootomo and Yokota, 2022, for those of float16, and for sums that threads take over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tilewright.core.dtypes import FLOAT8, INT8, ITEM_BYTES, RESULTS, results_of
from tilewright.core.problem import FAST
from tilewright.kernels.split import Split
from tilewright.kernels.support import EVERYTHING, Support

FLOAT16S = ("float16", "bfloat16")

_SPLITS = {"bf16x6": Split("bfloat16", 3), "bf16x3": Split("bfloat16", 2), "fp16x3": Split("float16", 2, scaled=True)}
"""Parts of float32 factors, by the precision of their products. Two parts of bfloat16 hold 16 bits: half the products
of three, and 2**-17 of each is left."""


def idea_of_terms(precision: str, where: str) -> str:
    """The idea of a kernel whose products are made of parts of this precision."""
    dtype, parts, scaled = _SPLITS[precision]
    words = {2: "two", 3: "three", 6: "six"}
    products = words[parts * (parts + 1) // 2]
    kind = f"scaled {dtype}" if scaled else dtype
    return f"float32 factors as {words[parts]} {kind} parts each: {products} products on {where}"


@dataclass(frozen=True, kw_only=True)
class KernelForm:
    """The factors that a kernel multiplies, and how: from this and its parameters' defaults all else follows."""

    name: str
    idea: str
    factors: tuple[str, ...] = ("float32",)
    precision: str | None = None
    """As `Support.precision` has it."""
    block_scales: bool = False
    """Whether factors have scales of blocks, which threads multiply sums by."""
    presets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    portfolio: Sequence[Mapping[str, int]] = ()
    """As `Kernel.portfolio` has it."""

    @cached_property
    def split(self) -> Split | None:
        """The parts that float32 factors are split into, if they are."""
        return _SPLITS.get(self.precision or "")

    @cached_property
    def parts(self) -> int:
        """Matrices that each factor is split into; 1: it is multiplied as it is, or rounded to TF32."""
        return self.split.parts if self.split else 1

    @cached_property
    def item_bytes(self) -> int:
        """Bytes of an element that tensor cores multiply."""
        return ITEM_BYTES[self.split.dtype if self.split else self.factors[0]]

    @cached_property
    def float8(self) -> bool:
        """Whether factors are float8, with scales."""
        return self.factors == FLOAT8

    @cached_property
    def integers(self) -> bool:
        """Whether factors are integers of 8 bits, with scales unless results are their sums."""
        return self.factors == INT8

    @cached_property
    def promotes(self) -> bool:
        """Whether sums of tensor cores begin anew, and threads add them up in float32: of parts, and of float8 factors,
        for which tensor cores keep 13 bits of a sum's mantissa; and of integers whose blocks have scales."""
        return self.split is not None or self.block_scales or (self.float8 and self.precision != FAST)

    @cached_property
    def constants(self) -> dict[str, int]:
        """Macros that say which form a source is compiled as."""
        scales = 2 if self.block_scales else int(self.float8 or self.integers)
        return {
            "SPLIT_PARTS": self.parts,
            "SCALED": int(self.split is not None and self.split.scaled),
            "FACTOR_SCALES": scales,
        }

    @cached_property
    def support(self) -> Support:
        """The problems that the kernel supports, on any GPU that the source is for."""
        scales = self.block_scales
        results = RESULTS if self.integers and scales else results_of(self.factors[0])
        return replace(EVERYTHING, factors=self.factors, results=results, precision=self.precision, block_scales=scales)
