"""Times of products of several ranks: ways take turns, and a sample is the time of the slowest rank."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

import tilewright.torch
from studies.record import Measurement
from studies.scaling import out_of_core
from studies.scaling.block import Block, BlockSizes, parallel
from studies.scaling.records import ALL_GATHER, BLOCK, OURS, OUT_OF_CORE, PRODUCT, REDUCE_SCATTER, SPLIT, measurements
from tilewright.api.front import matmul
from tilewright.core.errors import LaunchError
from tilewright.distributed import all_gather_matmul, matmul_reduce_scatter
from tilewright.tools.bench.end_to_end import Context
from tilewright.tools.bench.records import Times

Work = Callable[[], Any]
_NCCL = "NCCL, then product"

ALLOWED = {"bfloat16": 2e-2, "float32": 2e-5}
"""Largest relative difference between results of two ways: sums of partial sums are rounded at every rank."""


class Scale(NamedTuple):
    """How large everything is, and how long it is timed."""

    device: str = "cuda"
    shapes: tuple[tuple[int, int, int], ...] = ((8192, 8192, 8192), (16384, 16384, 16384), (4096, 14336, 4096))
    """m, n and k of whole products."""
    down: tuple[int, int, int] = (4096, 4096, 14336)
    """Another one whose sums are scattered."""
    split: tuple[int, int, int] = (16384, 16384, 16384)
    block: BlockSizes = BlockSizes()
    samples: int = 7
    sample_s: float = 0.06
    warm_up_s: float = 0.3


H200 = Scale()
SMALL = Scale(
    "cpu",
    ((64, 64, 64),),
    (32, 64, 32),
    (128, 128, 64),
    BlockSizes(width=32, hidden=64, heads=4, kv_heads=2, tokens=16),
    2,
    0.0,
    0.0,
)
"""For tests."""
SCALES = {"cuda": H200, "emulator": SMALL}
"""By engine."""


class Case(NamedTuple):
    """A work: its name on the command line, and what measures all its ways."""

    name: str
    alone: bool
    """Whether one process does it, with all GPUs."""
    measure: Callable[[], list[Measurement]]


def cases(scale: Scale, size: int) -> Iterator[Case]:
    """All that is measured.

    Args:
        scale: how large.
        size: ranks, or GPUs.
    """
    for dtype in ("bfloat16", "float32"):
        for shape in scale.shapes:
            name = "x".join(map(str, shape))
            yield Case(f"{ALL_GATHER}:{name}:{dtype}", False, partial(_all_gather, scale, shape, dtype))
            yield Case(f"{REDUCE_SCATTER}:{name}:{dtype}", False, partial(_reduce_scatter, scale, shape, dtype))
        name = "x".join(map(str, scale.down))
        yield Case(f"{REDUCE_SCATTER}:{name}:{dtype}", False, partial(_reduce_scatter, scale, scale.down, dtype))
        yield Case(f"{BLOCK}:{dtype}", False, partial(_block, scale, dtype))
    on_gpu = scale.device == "cuda"
    for product in out_of_core.CASES if on_gpu else out_of_core.SMALL:
        measured = partial(out_of_core.measure, product, "cuda" if on_gpu else "emulator")
        yield Case(f"{OUT_OF_CORE}:{product.name}", True, measured)
    for dtype in ("bfloat16", "float32"):
        if on_gpu:
            name = "x".join(map(str, scale.split))
            yield Case(f"{SPLIT}:{name}:{dtype}", True, partial(_split, scale, scale.split, dtype, size))


def _all_gather(scale: Scale, shape: tuple[int, int, int], dtype: str) -> list[Measurement]:
    (m, n, k), size = shape, dist.get_world_size()
    shard, B = _normal(scale, dtype, m // size, k), _normal(scale, dtype, k, n // size)
    whole, result = shard.new_empty(m, k), shard.new_empty(m, n // size)
    group = dist.group.WORLD.group_name

    def by_nccl() -> Any:
        dist.all_gather_into_tensor(whole, shard)
        return torch.mm(whole, B, out=result)

    works: dict[str, Work] = {
        OURS: lambda: all_gather_matmul(shard, [B], 0, group, return_A=False)[1][0],
        PRODUCT: lambda: matmul(whole, B, out=result),
        _NCCL: by_nccl,
        "PyTorch's product alone": lambda: torch.mm(whole, B, out=result),
        f"{OURS}, with A": lambda: all_gather_matmul(shard, [B], 0, group, return_A=True)[1][0],
    }
    if scale.device == "cuda":
        fused = torch.ops.symm_mem.fused_all_gather_matmul
        works["PyTorch fused"] = lambda: fused(shard, [B], 0, group, return_A=False)[1][0]
    return _compared(scale, ALL_GATHER, shape, dtype, works, _NCCL, size)


def _reduce_scatter(scale: Scale, shape: tuple[int, int, int], dtype: str) -> list[Measurement]:
    (m, n, k), size = shape, dist.get_world_size()
    A, B = _normal(scale, dtype, m, k // size), _normal(scale, dtype, k // size, n)
    sums, result = A.new_empty(m, n), A.new_empty(m // size, n)
    group = dist.group.WORLD.group_name

    def by_nccl() -> Any:
        torch.mm(A, B, out=sums)
        dist.reduce_scatter_tensor(result, sums)
        return result

    works: dict[str, Work] = {
        OURS: lambda: matmul_reduce_scatter(A, B, "sum", 0, group),
        PRODUCT: lambda: matmul(A, B, out=sums),
        _NCCL: by_nccl,
        "PyTorch's product alone": lambda: torch.mm(A, B, out=sums),
    }
    if scale.device == "cuda":
        fused = torch.ops.symm_mem.fused_matmul_reduce_scatter
        works["PyTorch fused"] = lambda: fused(A, B, "sum", 0, group)
    return _compared(scale, REDUCE_SCATTER, shape, dtype, works, _NCCL, size)


def _split(scale: Scale, shape: tuple[int, int, int], dtype: str, size: int) -> list[Measurement]:
    m, n, k = shape
    a, b = _normal(scale, dtype, m, k), _normal(scale, dtype, k, n)
    alone, divided = a.new_empty(m, n), a.new_empty(m, n)
    works: dict[str, Work] = {
        OURS: lambda: matmul(a, b, out=divided, devices=list(range(size))),
        PRODUCT: lambda: matmul(a, b, out=alone),
        "PyTorch on one GPU": lambda: torch.mm(a, b, out=alone),
    }
    return _compared(scale, SPLIT, shape, dtype, works, PRODUCT, size)


def _block(scale: Scale, dtype: str) -> list[Measurement]:
    """Forward and backward; the gradients of both ways are compared."""
    torch.manual_seed(0)
    sizes = scale.block
    with torch.device(_device(scale)):
        block = Block(sizes).to(getattr(torch, dtype))
        x = torch.randn(1, sizes.tokens, sizes.width, dtype=getattr(torch, dtype), requires_grad=True)
    module = parallel(block, scale.device)

    def step() -> Any:
        module.zero_grad(set_to_none=True)
        x.grad = None
        module(x).square().mean().backward()
        return x.grad

    expected = step().clone()
    within: dict[str, Callable[[], Context]] = (
        {OURS: partial(tilewright.torch.enable, wait=True)} if scale.device == "cuda" else {}
    )
    with within.get(OURS, nullcontext)():
        difference = _difference(f"{BLOCK} {dtype}", dtype, step(), expected, 5)
    found = times(scale, {OURS: step, "PyTorch": step}, within)
    work = f"width {sizes.width}, {sizes.hidden} hidden, {sizes.tokens} tokens, forward and backward"
    return measurements(BLOCK, dist.get_world_size(), work, dtype, found, difference, torch=torch.__version__)


def times(scale: Scale, works: dict[str, Work], within: Mapping[str, Callable[[], Context]] = {}) -> dict[str, Times]:
    """Samples of several ways, which take turns: microseconds a run on the slowest rank.

    Args:
        scale: how long.
        works: the ways, by name.
        within: makes contexts in which some of them run.
    """
    counts = {}
    for name, work in works.items():
        with within.get(name, nullcontext)():
            began = time.perf_counter()
            once_s = _slowest(scale, _seconds(scale, work, 1))
            while _slowest(scale, time.perf_counter() - began) < scale.warm_up_s:
                once_s = min(once_s, _slowest(scale, _seconds(scale, work, 3)))
            counts[name] = max(1, math.ceil(scale.sample_s / max(once_s, 1e-6)))
    samples: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(scale.samples):
        for name, work in works.items():
            with within.get(name, nullcontext)():
                if name in within:
                    work()
                samples[name].append(1e6 * _slowest(scale, _seconds(scale, work, counts[name])))
    return {name: Times.of(taken) for name, taken in samples.items()}


def _seconds(scale: Scale, work: Work, count: int) -> float:
    """Seconds of one run among several back to back, on this rank; all ranks begin together."""
    if scale.device != "cuda":
        _barrier()
        start = time.perf_counter()
        for _ in range(count):
            work()
        return (time.perf_counter() - start) / count
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    _barrier()
    first.record()
    for _ in range(count):
        work()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / 1e3 / count


def _barrier() -> None:
    if dist.is_initialized():
        dist.barrier()
        if torch.cuda.is_available():
            torch.cuda.synchronize()


def _slowest(scale: Scale, seconds: float) -> float:
    """The most of all ranks."""
    if not dist.is_initialized():
        return seconds
    most = torch.tensor([seconds], dtype=torch.float64, device=_device(scale))
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return float(most)


def _device(scale: Scale) -> Any:
    return torch.device("cuda", torch.cuda.current_device()) if scale.device == "cuda" else torch.device("cpu")


def _normal(scale: Scale, dtype: str, rows: int, cols: int) -> Any:
    """Normal numbers, others on each rank."""
    generator = torch.Generator(_device(scale)).manual_seed(dist.get_rank() if dist.is_initialized() else 0)
    drawn = torch.empty(rows, cols, dtype=getattr(torch, dtype), device=_device(scale))
    return drawn.normal_(generator=generator)


def _difference(what: str, dtype: str, found: Any, expected: Any, times_allowed: float = 1) -> float:
    """Difference of two results, relative in the Frobenius norm.

    Raises:
        LaunchError: it is more than rounding explains, on any rank.
    """
    pairs = zip(found.flatten(0, -2).split(1024), expected.flatten(0, -2).split(1024), strict=True)
    sums = torch.zeros(2, dtype=torch.float64, device=found.device)
    for one, other in pairs:
        sums += torch.stack([(one.double() - other.double()).square().sum(), other.double().square().sum()])
    if dist.is_initialized():
        dist.all_reduce(sums)
    difference = math.sqrt(float(sums[0] / sums[1].clamp(min=1e-300)))
    if not difference <= times_allowed * ALLOWED[dtype]:
        raise LaunchError(f"{what}: results differ by {difference:.1e}")
    return difference


def _compared(
    scale: Scale, scheme: str, shape: Sequence[int], dtype: str, works: dict[str, Work], other: str, size: int
) -> list[Measurement]:
    """Times of all ways, and how far the result of ours is from another's."""
    work = "x".join(map(str, shape))
    difference = _difference(f"{scheme} {work} {dtype}", dtype, works[OURS](), works[other]())
    return measurements(scheme, size, work, dtype, times(scale, works), difference, torch=torch.__version__)
