"""Limits of GPUs by compute capability, and rates of them by product. Pure data.

Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; NVIDIA's data sheets and
architecture white papers of each product. Where another source is used, the line says which.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.core.dtypes import INT8
from tilewright.core.errors import GpuNotFoundError, nearest

STATIC_SHARED_LIMIT = 48 * 1024
"""Bytes of statically declared shared memory that a block may have, on every GPU."""

FLOAT8_CAPABILITY = (8, 9)
"""The oldest compute capability with tensor cores for float8 factors."""

CLUSTER_LIMIT = 8
"""Blocks that a cluster may have, on every GPU that has clusters."""

_CLUSTERED = (18, 18, 18, 16, 16, 16, 16, 14)
"""Multiprocessors of each part of one H200 that a cluster has to fit into: by their times, 31 clusters of 4 blocks run
at once, and 15 of 8. Others have other parts switched off, and run 30 of 4; a launch asks the driver."""


def clusters(multiprocessors: int, blocks: int) -> int:
    """Clusters of this many blocks that are expected to run at a time, one block a multiprocessor."""
    if blocks <= 2:
        return multiprocessors // blocks
    return max(sum(part // blocks for part in _CLUSTERED) * multiprocessors // sum(_CLUSTERED), 1)


@dataclass(frozen=True)
class Limits:
    """Limits of one block on GPUs of one compute capability."""

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

OLDEST = min(COMPUTE_CAPABILITIES)
"""The oldest compute capability that kernels are compiled for."""


def capability_of(text: str) -> tuple[int, int]:
    """A compute capability from text, as records have it: '9.0'.

    Raises:
        ValueError: the text is none.
    """
    major, minor = map(int, text.split("."))
    return major, minor


def limits(capability: tuple[int, int]) -> Limits:
    """Limits of a compute capability; of the nearest older one that is known where it is not listed.

    Raises:
        LookupError: the capability is older than every known one.
    """
    if capability in COMPUTE_CAPABILITIES:
        return COMPUTE_CAPABILITIES[capability]
    older = [known for known in COMPUTE_CAPABILITIES if known < capability]
    if not older:
        asked, oldest = (f"{major}.{minor}" for major, minor in (capability, OLDEST))
        raise LookupError(f"compute capability {asked} is older than {oldest}, the oldest supported")
    known = COMPUTE_CAPABILITIES[max(older)]
    return Limits(f"sm_{capability[0]}{capability[1]}", known.shared_per_block)


@dataclass(frozen=True)
class Multiprocessor:
    """Capacities and rates of one multiprocessor of a compute capability."""

    threads: int
    blocks: int
    shared_bytes: int
    """Shared memory of all its resident blocks together."""
    lanes: int
    """FP32 multiply-adds a clock."""
    reserved_shared_bytes: int = 1024
    """Shared memory that the system takes of each resident block."""
    shared_granularity: int = 128
    """Bytes in whose multiples a block gets shared memory."""
    registers: int = 65536
    partitions: int = 4
    """Parts that warps, and so registers, are spread over; each issues one warp's instruction a clock."""
    register_granularity: int = 256
    """Registers in whose multiples a warp gets them."""
    registers_per_thread: int = 255
    half_products: int = 0
    """Multiply-adds a clock that its tensor cores make of half or bfloat16 factors, summed in FP32. GeForce products
    make half as many: `Gpu.multiprocessor` has them."""
    tf32_products: int = 0
    """Multiply-adds a clock that its tensor cores make of TF32 factors; 0 where they make none."""
    l1_lines: int = 3
    """Lines that the L1 cache looks up in a clock. No data sheet has it. It follows from the naive kernel at 4092,
    whose warps touch 33 lines at each k: 3 on an H200, 1 on an RTX A6000."""

    @property
    def float8_products(self) -> int:
        """Multiply-adds a clock of float8 factors, on GPUs with such tensor cores: compute capability 8.9 on."""
        return 2 * self.half_products


MULTIPROCESSORS: dict[tuple[int, int], Multiprocessor] = {
    (7, 0): Multiprocessor(2048, 32, 96 * 1024, 64, reserved_shared_bytes=0, shared_granularity=256, half_products=512),
    (7, 5): Multiprocessor(1024, 16, 64 * 1024, 64, reserved_shared_bytes=0, shared_granularity=256, half_products=512),
    (8, 0): Multiprocessor(2048, 32, 164 * 1024, 64, half_products=1024, tf32_products=512),
    (8, 6): Multiprocessor(1536, 16, 100 * 1024, 128, half_products=512, tf32_products=256, l1_lines=1),
    (8, 9): Multiprocessor(1536, 24, 100 * 1024, 128, half_products=512, tf32_products=256),
    (9, 0): Multiprocessor(2048, 32, 228 * 1024, 128, half_products=2048, tf32_products=1024),
    (10, 0): Multiprocessor(2048, 32, 228 * 1024, 128, half_products=4096, tf32_products=2048),
    (10, 3): Multiprocessor(2048, 32, 228 * 1024, 128, half_products=4096, tf32_products=2048),
    (12, 0): Multiprocessor(1536, 24, 100 * 1024, 128, half_products=512, tf32_products=256),
    (12, 1): Multiprocessor(1536, 24, 100 * 1024, 128, half_products=512, tf32_products=256),
}


@lru_cache
def _multiprocessor(capability: tuple[int, int], geforce: bool) -> Multiprocessor:
    """The multiprocessor of a GPU; tensor cores of GeForce products sum up in FP32 at half the rate."""
    sm = MULTIPROCESSORS[capability]
    return replace(sm, half_products=sm.half_products // 2, tf32_products=sm.tf32_products // 2) if geforce else sm


@dataclass(frozen=True)
class Gpu:
    """A product: how many multiprocessors it has, and how fast it computes and moves data at its boost clock."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    clock_mhz: int
    dram_gbs: float
    """Bandwidth of its memory, 10^9 bytes a second."""
    l2_bytes: int
    l2_bytes_per_clock: int
    """Bytes that all multiprocessors together read from the L2 cache in one clock. NVIDIA states the number for V100
    and A100 (47 bytes a multiprocessor). Of an H200's, `tilewright info --measure` read 48 a multiprocessor, and rung
    20 loads its tiles at that rate; other Hopper GPUs, B200 and B300 are taken to be like it. Elsewhere it is an
    estimate of 20 a multiprocessor. tests/core/test_gpus.py compares the numbers with the records."""
    names: str
    """A regular expression for what the driver calls it."""

    @property
    def multiprocessor(self) -> Multiprocessor:
        """Capacities and rates of each of the GPU's multiprocessors."""
        return _multiprocessor(_nearest(self.capability), "GeForce" in self.names)

    @property
    def tflops(self) -> float:
        """Peak of FP32 arithmetic, 10^12 operations a second, a multiply-add being two."""
        return 2 * self.multiprocessors * self.multiprocessor.lanes * self.clock_mhz / 1e6

    def peak_tflops(self, arithmetic: str) -> float:
        """Peak in an arithmetic: 'float32', or in tensor cores 'tf32', 'float16', 'bfloat16', a float8 type (of which
        'fast' is too), 'int8', 'uint8' (of which a B300 makes fewer than is said here), or 'bf16x6', where each product
        is made of six of bfloat16.

        Where the tensor cores do not have it, the FP32 lanes do it.
        """
        sm = self.multiprocessor
        products = {"float32": 0, "tf32": sm.tf32_products}.get(arithmetic, sm.half_products)
        if arithmetic.startswith("float8") or arithmetic == "fast":
            products = sm.float8_products if self.capability >= FLOAT8_CAPABILITY else 0
        if arithmetic in INT8:  # GeForce products make these at the full rate
            products = 2 * MULTIPROCESSORS[_nearest(self.capability)].half_products if self.capability >= (7, 5) else 0
        if made_of := re.fullmatch(r"(?:bf|fp)16x(\d)", arithmetic):
            products //= int(made_of[1])
        return self.tflops * max(products, sm.lanes) / sm.lanes


_MB = 1024 * 1024

GPUS: tuple[Gpu, ...] = (
    Gpu("V100", (7, 0), 80, 1530, 900, 6 * _MB, 2048, r"Tesla V100-.*"),
    Gpu("T4", (7, 5), 40, 1590, 320, 4 * _MB, 800, r"(Tesla )?T4"),
    Gpu("A100 40GB", (8, 0), 108, 1410, 1555, 40 * _MB, 5120, r"A100.*40GB.*"),
    Gpu("A100 80GB", (8, 0), 108, 1410, 2039, 40 * _MB, 5120, r"A100.*80GB.*"),
    Gpu("RTX A6000", (8, 6), 84, 1800, 768, 6 * _MB, 1680, r"RTX A6000"),
    Gpu("RTX 3060", (8, 6), 28, 1777, 360, 3 * _MB, 560, r"GeForce RTX 3060"),
    Gpu("RTX 3090", (8, 6), 82, 1695, 936, 6 * _MB, 1640, r"GeForce RTX 3090"),
    Gpu("L4", (8, 9), 58, 2040, 300, 48 * _MB, 1160, r"L4"),
    Gpu("L40S", (8, 9), 142, 2520, 864, 96 * _MB, 2840, r"L40S"),
    Gpu("RTX 4090", (8, 9), 128, 2520, 1008, 72 * _MB, 2560, r"GeForce RTX 4090"),
    Gpu("H100 PCIe", (9, 0), 114, 1755, 2000, 50 * _MB, 5472, r"H100 PCIe"),
    Gpu("H100", (9, 0), 132, 1980, 3350, 50 * _MB, 6336, r"H100( 80GB HBM3| SXM.*)?"),
    # L2 as the driver reports it (62914560 bytes): that of the white paper's full GH100, with six stacks of memory.
    Gpu("H200", (9, 0), 132, 1980, 4800, 60 * _MB, 6336, r"H200( NVL)?"),
    # L2 of the full GH100: it has six stacks too, the H100 five.
    Gpu("GH200", (9, 0), 132, 1980, 4000, 60 * _MB, 6336, r"GH200.*"),
    Gpu("B200", (10, 0), 148, 1965, 8000, 126 * _MB, 7104, r"B200"),
    # Multiprocessors and bandwidth: "Inside NVIDIA Blackwell Ultra". The clock is that of 75 TFLOP/s in FP32 (data
    # sheet of HGX B300, which has eight). The L2 is taken to be the B200's.
    Gpu("B300", (10, 3), 160, 1831, 8000, 126 * _MB, 7680, r"G?B300.*"),
    # NVIDIA RTX Blackwell GPU Architecture, and the product pages; the L2 of the RTX 5060 and 5060 Ti is that of their
    # chip, GB206.
    Gpu("RTX 5060", (12, 0), 30, 2497, 448, 32 * _MB, 600, r"GeForce RTX 5060"),
    Gpu("RTX 5060 Ti", (12, 0), 36, 2572, 448, 32 * _MB, 720, r"GeForce RTX 5060 Ti"),
    Gpu("RTX 5070", (12, 0), 48, 2512, 672, 48 * _MB, 960, r"GeForce RTX 5070"),
    Gpu("RTX 5070 Ti", (12, 0), 70, 2452, 896, 48 * _MB, 1400, r"GeForce RTX 5070 Ti"),
    Gpu("RTX 5080", (12, 0), 84, 2617, 960, 64 * _MB, 1680, r"GeForce RTX 5080"),
    Gpu("RTX 5090", (12, 0), 170, 2407, 1792, 96 * _MB, 3400, r"GeForce RTX 5090"),
    # Multiprocessors and bandwidth: DGX Spark Hardware Overview. L2: NVIDIA at Hot Chips 2025, as are the 31 TFLOP/s in
    # FP32, which the clock follows from.
    Gpu("GB10", (12, 1), 48, 2523, 273, 24 * _MB, 960, r"GB10"),
)


@lru_cache
def find_gpu(device_name: str, capability: tuple[int, int]) -> Gpu:
    """The product that the driver calls so, or that is listed so; for another name, the middle one of its capability.

    A capability of which no product is listed gets one of the nearest older capability, under its own name.
    """
    name = device_name.removeprefix("NVIDIA ").strip()
    for gpu in GPUS:
        if gpu.capability == capability and (name == gpu.name or re.fullmatch(gpu.names, name)):
            return gpu
    known = _nearest(capability)
    alike = sorted((gpu for gpu in GPUS if gpu.capability == known), key=lambda gpu: gpu.tflops)
    return replace(alike[len(alike) // 2], name=name or alike[len(alike) // 2].name, capability=capability)


def gpu_named(name: str) -> Gpu:
    """A listed product by its name here or its driver's, or by a part of one listed name; case and spaces do not count.

    A whole name wins over being a part of others: 'H100' is one, though 'H100 PCIe' has it in it.

    Raises:
        GpuNotFoundError: no listed name has this in it, and the message gives the nearest; or several have, and the
            message gives them all.
    """
    given = re.sub(r"^nvidia\s+", "", name.strip(), flags=re.IGNORECASE)
    wanted = _plain(given)
    for gpu in GPUS:
        if _plain(gpu.name) == wanted or re.fullmatch(gpu.names, given, re.IGNORECASE):
            return gpu
    found = [gpu for gpu in GPUS if wanted and wanted in _plain(gpu.name)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(gpu.name for gpu in found)
        raise GpuNotFoundError(f"{name!r} is part of {len(found)} GPUs' names: give one of {names}")
    raise GpuNotFoundError(f"no GPU is called {name!r}{nearest(name, [gpu.name for gpu in GPUS])}")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _nearest(capability: tuple[int, int]) -> tuple[int, int]:
    """The capability itself where it is known, else the nearest older one, else the oldest."""
    older = [known for known in MULTIPROCESSORS if known <= capability]
    return max(older) if older else min(MULTIPROCESSORS)
