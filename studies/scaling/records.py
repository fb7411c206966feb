"""Measurements of products that several GPUs make, or that one makes of arrays that do not fit its memory."""

from collections.abc import Mapping

from studies.record import Measurement
from tilewright.tools.bench.records import Times

ALL_GATHER, REDUCE_SCATTER = "all_gather_matmul", "matmul_reduce_scatter"
SPLIT, OUT_OF_CORE, BLOCK = "split", "out_of_core", "block"
SCHEMES = (ALL_GATHER, REDUCE_SCATTER, SPLIT, OUT_OF_CORE, BLOCK)
"""How work is divided: the names of functions; rows of one product, by devices=; tiles, by memory_limit=; a block of a
Llama under parallelize_module, forward and backward."""

OURS, PRODUCT = "tilewright", "product alone"
"""Ways of every work: tilewright's, and its product alone, which is what one GPU multiplies with all of it in its
memory; of split, the whole product on one GPU."""


def is_peer(way: str) -> bool:
    """Whether a way does all of the work, and is not tilewright's: others are parts, which are done alone."""
    return not way.startswith(OURS) and "alone" not in way


def measurements(
    scheme: str,
    devices: int,
    work: str,
    dtype: str,
    times: Mapping[str, Times],
    difference: float,
    memory: str = "",
    **facts: int | str | None,
) -> list[Measurement]:
    """All ways of one work, which took turns. Times are those of the slowest rank.

    Args:
        scheme, devices, dtype: how it is divided, among how many GPUs, and its element type.
        work: sizes of the whole product, as MxNxK, or of the block.
        times: by way.
        difference: of our result from that of the first peer, or of the product alone, relative in the Frobenius norm.
        memory: of arrays on the host, 'pinned' or 'not pinned'.
        facts: of ours: the version of torch. Of arrays on the host: memory_limit, and moved_bytes, between host and
            GPU.
    """
    what: dict[str, str | int] = {"scheme": scheme, "devices": devices, "work": work, "dtype": dtype}
    what |= {"memory": memory} if memory else {}
    found = []
    for way, time in times.items():
        error, more = (difference, facts) if way == OURS else (None, {})
        spread = {"min_us": time.min, "samples": time.samples, "spread": time.spread}
        found.append(Measurement(what=what, way=way, us=time.median, error=error, facts=spread | more))
    return found
