"""What a GPU can hold, by compute capability. Pure data.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from dataclasses import dataclass

STATIC_SHARED_LIMIT = 48 * 1024
"""Bytes of statically declared shared memory that a block may have, on every GPU."""


@dataclass(frozen=True)
class Limits:
    """What one block may use on GPUs of one compute capability."""

    arch: str
    """The compiler's name for the machine code, as in 'sm_90a'."""
    shared_per_block: int
    """Bytes of shared memory, dynamic ones included, that a block may ask for."""
    threads_per_block: int = 1024
    block_z: int = 64
    """Largest extent of a block along z; along x and y it is threads_per_block."""


COMPUTE_CAPABILITIES: dict[tuple[int, int], Limits] = {
    (7, 5): Limits("sm_75", 64 * 1024),
    (8, 0): Limits("sm_80", 163 * 1024),
    (8, 6): Limits("sm_86", 99 * 1024),
    (8, 9): Limits("sm_89", 99 * 1024),
    (9, 0): Limits("sm_90a", 227 * 1024),
    (10, 0): Limits("sm_100a", 227 * 1024),
    (12, 0): Limits("sm_120a", 99 * 1024),
}


def limits(capability: tuple[int, int]) -> Limits:
    """Limits of a compute capability; of the nearest older one that is known where it is not listed.

    Raises:
        LookupError: the capability is older than every known one.
    """
    if capability in COMPUTE_CAPABILITIES:
        return COMPUTE_CAPABILITIES[capability]
    older = [known for known in COMPUTE_CAPABILITIES if known < capability]
    if not older:
        raise LookupError(f"compute capability {capability[0]}.{capability[1]} is older than 7.5, the oldest supported")
    known = COMPUTE_CAPABILITIES[max(older)]
    return Limits(f"sm_{capability[0]}{capability[1]}", known.shared_per_block)
