"""PyTorch with tilewright next to PyTorch alone: compiled calls, linear layers, training steps."""

import multiprocessing
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn import functional

import tilewright.torch
from studies.frameworks import comparisons as kinds
from studies.frameworks.comparisons import check_difference, check_same, compared
from studies.frameworks.models import TASKS, Sizes, training
from studies.record import Measurement
from tilewright.api.front import matmul
from tilewright.frameworks.torch.arrays import numpy_name
from tilewright.tools.bench.end_to_end import WALL_SAMPLES, Context, Stopwatch, exact

enable = partial(tilewright.torch.enable, wait=True)

NAME = f"PyTorch {torch.__version__}"

HOST_BOUND_SAMPLES = 31
"""Turns where the host is the busier: its times vary by several percent from one to the next."""

_ALLOWED = 1e-5
"""Largest difference between results of two ways."""

_MEMORY_STEPS = 3
"""Steps of a training whose memory is measured. The optimizer makes its state in the first."""


def _gpu_bytes() -> int:
    """Memory of the current GPU that is not free, whoever allocated it."""
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


class Scale(NamedTuple):
    """How large everything is."""

    device: str = "cuda"
    used_bytes: Callable[[], int] = _gpu_bytes
    """Function that returns the memory of the device in use; another process must be able to import it."""
    peak_bytes: Callable[[], int] = torch.cuda.max_memory_allocated
    """Function that returns the most that PyTorch's allocator had given out, to be imported likewise."""
    calls: tuple[int, ...] = (64, 256, 1024)
    """Sizes of the squares that are compiled."""
    tokens: tuple[int, ...] = (1024, 2048, 4096, 8192)
    """Rows of a linear layer's input."""
    features: int = 4096
    """Columns of a linear layer's input, and of its result."""
    sizes: Sizes = Sizes()
    short: int = 32
    """Tokens of the short sequence."""
    steps: int = 20
    """Steps of a training whose losses are compared."""
    models: tuple[str, ...] = tuple(TASKS)
    """Names of what is trained."""
    in_bf16: tuple[str, ...] = ("GPT-2", "Llama")
    """Models that are trained in bfloat16."""
    left: str = "GPT-2"
    """Model that is trained in float64, which is left to PyTorch, to find the cost of enable() itself."""
    turns: int = 9
    """Blocks of steps of that training with enable(), and as many without."""
    untimed: int = 100
    """Steps at the begin of a block that are not timed, until the switch has no effect of its own any more."""
    timed: int = 150
    """Steps of a block that are timed."""
    backend: str = "inductor"


H200 = Scale()


def comparisons(scale: Scale = H200) -> Iterator[Measurement]:
    """Compare what is in float32, one after the other; products are not rounded to TF32.

    Raises:
        LaunchError: results or losses differ by more than rounding explains.
    """
    with exact(torch):
        stopwatch = _stopwatch(scale)
        for size in scale.calls:
            yield from _compiled_call(scale, stopwatch, size)
        for tokens in scale.tokens:
            yield from _layer(scale, stopwatch, tokens)
        for name in scale.models:
            for compiled in (False, True):
                yield from _training(scale, stopwatch, name, compiled)
        yield from _nothing_is_faster(scale, stopwatch)


def trainings_in_bf16(scale: Scale = H200) -> Iterator[Measurement]:
    """Compare training steps of models in bfloat16.

    Raises:
        LaunchError: losses differ by more than rounding explains.
    """
    stopwatch = _stopwatch(scale)
    for name in scale.in_bf16:
        for compiled in (False, True):
            step, difference = _checked_step(scale, name, compiled, torch.bfloat16, 3e-2)
            us = _routed_and_alone(stopwatch, step)
            kind = kinds.BF16_COMPILED if compiled else kinds.BF16
            yield from compared(NAME, kind, name, us, {"loss_difference": difference})


def _stopwatch(scale: Scale) -> Stopwatch:
    return Stopwatch(torch.cuda.synchronize if scale.device == "cuda" else lambda: None)


def _compiled_call(scale: Scale, stopwatch: Stopwatch, size: int) -> list[Measurement]:
    a, b = (torch.randn(size, size, device=scale.device) for _ in "ab")
    torch._dynamo.reset()
    ours = torch.compile(lambda a, b: matmul(a, b), fullgraph=True, backend=scale.backend)
    stock = torch.compile(lambda a, b: torch.mm(a, b), fullgraph=True, backend=scale.backend)
    check_same(f"compiled, {size}", ours(a, b).double(), stock(a, b).double(), _ALLOWED)
    with torch.no_grad():
        us = stopwatch.host_us([lambda: ours(a, b), lambda: stock(a, b)])
    return compared(NAME, kinds.COMPILED_CALL, str(size), us)


def _layer(scale: Scale, stopwatch: Stopwatch, tokens: int) -> Iterator[Measurement]:
    features = scale.features
    shapes = (tokens, features), (features, features), (features,)
    wanted = x, w, bias = tuple(torch.randn(shape, device=scale.device).requires_grad_() for shape in shapes)
    dy = torch.randn(tokens, features, device=scale.device)

    def stock() -> Any:
        return torch.autograd.grad(functional.linear(x, w, bias), wanted, dy)

    def ours() -> Any:
        return torch.autograd.grad(matmul(x, w.T, bias=bias), wanted, dy)

    expected, found = stock(), ours()
    with enable():
        for one, other, exact in zip(found, stock(), expected, strict=True):
            for way, result in (("", one), (" by enable()", other)):
                check_same(f"gradient of a layer{way}, {tokens} tokens", result.double(), exact.double(), _ALLOWED)
    within: list[Callable[[], Context]] = [enable, nullcontext, nullcontext]
    enabled, by_matmul, alone = stopwatch.wall_us([stock, ours, stock], within)
    what = f"{tokens} tokens"
    yield from compared(NAME, kinds.LAYER, what, (enabled, alone))
    yield from compared(NAME, kinds.LAYER_BY_MATMUL, what, (by_matmul, alone))


def _training(scale: Scale, stopwatch: Stopwatch, name: str, compiled: bool) -> Iterator[Measurement]:
    step, difference = _checked_step(scale, name, compiled, torch.float32, 1e-4)
    ours, alone = ({}, {}) if compiled else _memories(scale, name)
    us, kind = _routed_and_alone(stopwatch, step), kinds.COMPILED if compiled else kinds.EAGER
    yield from compared(NAME, kind, name, us, ours | {"loss_difference": difference}, alone)
    step = _step(scale, name, compiled, scale.sizes._replace(batch=1, length=scale.short))
    step()  # compiles
    us = _routed_and_alone(stopwatch, step, HOST_BOUND_SAMPLES)
    yield from compared(NAME, kinds.SHORT_COMPILED if compiled else kinds.SHORT, name, us)


def _checked_step(
    scale: Scale, name: str, compiled: bool, dtype: torch.dtype, allowed: float
) -> tuple[Callable[[], Any], float]:
    """A training step, and by how much its losses differ from PyTorch's alone."""
    torch._dynamo.reset()
    alone, step = (_step(scale, name, compiled, scale.sizes, dtype) for _ in range(2))
    stock = [float(alone()) for _ in range(scale.steps)]
    with enable():
        ours = [float(step()) for _ in range(scale.steps)]
    difference = max(abs(one - other) / abs(other) for one, other in zip(ours, stock, strict=True))
    check_difference(f"losses of {name} in {numpy_name(dtype)}", difference, allowed)
    return step, difference


def _memories(scale: Scale, name: str) -> list[dict[str, float]]:
    """Memory with tilewright and alone, in processes of their own: nothing that ran before holds memory or code."""
    found = []
    for routed in (True, False):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            found.append(process.submit(_memory, scale, name, routed).result())
    return found


def _memory(scale: Scale, name: str, routed: bool) -> dict[str, float]:
    """MiB of a GPU that a model and its training steps take in this process, which has used the GPU for nothing else;
    nobody else may allocate meanwhile. peak_mib and held_mib: see `compared`. The CUDA context is not part of it."""
    before = scale.used_bytes()  # makes the context
    with exact(torch), enable() if routed else nullcontext():
        step = _step(scale, name, False, scale.sizes)
        for _ in range(_MEMORY_STEPS):
            float(step())
        return {"peak_mib": scale.peak_bytes() / 2**20, "held_mib": (scale.used_bytes() - before) / 2**20}


def _routed_and_alone(stopwatch: Stopwatch, step: Callable[[], Any], samples: int = WALL_SAMPLES) -> list[float]:
    return stopwatch.wall_us([step, step], [enable, nullcontext], samples)


def _step(
    scale: Scale, name: str, compiled: bool, sizes: Sizes, dtype: torch.dtype = torch.float32
) -> Callable[[], Any]:
    """A training step of a model, the same whenever it is made."""
    torch.manual_seed(1)
    with torch.device(scale.device):
        task = TASKS[name](sizes)
    task.model.to(dtype)
    model = torch.compile(task.model, fullgraph=True, backend=scale.backend) if compiled else None
    return training(task, model)


def _nothing_is_faster(scale: Scale, stopwatch: Stopwatch) -> list[Measurement]:
    """A short sequence keeps the host busy. The control is of the blocks that switch nothing."""
    short = scale.sizes._replace(batch=1, length=scale.short)
    step = _step(scale, scale.left, False, short, torch.float64)
    within: list[Callable[[], Context]] = [enable, nullcontext]
    enabled, alone = stopwatch.blocks_us(step, within, scale.turns, scale.untimed, scale.timed)
    us = map(statistics.median, (enabled, alone))
    control = {"fastest_us": min(alone), "slowest_us": max(alone)}
    return compared(NAME, kinds.NOTHING_IS_FASTER, f"{scale.left} in float64", us, alone=control)
