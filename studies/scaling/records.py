"""Records of products that several GPUs make, or that one makes of arrays it cannot hold, and the file of them."""

from pydantic import Field

from tilewright.bench.records import Facts, RunFile, Times

ALL_GATHER, REDUCE_SCATTER = "all_gather_matmul", "matmul_reduce_scatter"
SPLIT, OUT_OF_CORE, BLOCK = "split", "out_of_core", "block"
SCHEMES = (ALL_GATHER, REDUCE_SCATTER, SPLIT, OUT_OF_CORE, BLOCK)
"""How work is divided: the names of functions; rows of one product, by devices=; tiles, by memory_limit=; a block of a
Llama under parallelize_module, forward and backward."""


class Scaling(Facts):
    """One piece of work, by tilewright and by others, which took turns. Times are those of the slowest rank."""

    scheme: str
    devices: int
    what: str
    """The work: sizes of the whole product, as MxNxK, or of the block."""
    dtype: str
    time_us: Times
    product_us: Times | None = None
    """tilewright's product alone: what one GPU multiplies, with all of it in its memory. Of split, the whole product on
    one GPU. None where its memory does not hold that, and of a block."""
    peers_us: dict[str, Times] = Field(default_factory=dict)
    """Others, by name."""
    variants_us: dict[str, Times] = Field(default_factory=dict)
    """tilewright in other ways, and parts of what peers do, by name."""
    difference: float | None = None
    """Of the result from that of the first peer, or of the product alone, relative in the Frobenius norm."""
    memory_limit: int | None = None
    """Bytes."""
    pinned: bool | None = None
    """Whether the host's arrays are; None where they are on GPUs."""
    moved_bytes: int | None = None
    """Between host and GPU, both directions together."""

    @property
    def of_product(self) -> float | None:
        """The speed over that of the product alone."""
        return None if self.product_us is None else self.product_us.median / self.time_us.median

    @property
    def of_best_peer(self) -> float | None:
        """The best peer's time over ours."""
        return min((one.median for one in self.peers_us.values()), default=0.0) / self.time_us.median or None

    @property
    def link_gb_s(self) -> float | None:
        """Gigabytes a second that moved between host and GPU."""
        return None if self.moved_bytes is None else self.moved_bytes / self.time_us.median / 1e3

    def words(self) -> str:
        """All of it in a line."""
        parts = [f"{self.scheme}  {self.devices} GPUs  {self.what} {self.dtype}: {self.time_us.median:,.0f} us"]
        if self.product_us is not None:
            parts.append(f"product alone {self.product_us.median:,.0f} ({self.of_product:.3f})")
        parts += [f"{name} {one.median:,.0f}" for name, one in (self.peers_us | self.variants_us).items()]
        if self.link_gb_s is not None:
            parts.append(f"{self.link_gb_s:.1f} GB/s")
        if self.difference is not None:
            parts.append(f"differs by {self.difference:.1e}")
        return ", ".join(parts)


class Failure(Facts):
    """Work that was not measured."""

    case: str
    words: str


class ScalingRun(RunFile):
    """What one run measured, and where."""

    records: list[Scaling]
    failures: list[Failure] = Field(default_factory=list)
