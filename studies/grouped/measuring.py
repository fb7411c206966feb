"""Grouped products next to PyTorch's.

Layers of mixtures of experts, with experts that get equally many rows and with a few that get most. grouped_matmul,
torch._grouped_mm and a loop of torch.mm take turns on the same bfloat16 tensors. The loop is given the sizes of groups
beforehand, as no program is whose router runs on the GPU. Calls are captured in CUDA graphs, so that the GPU's time is
measured; the host's time in a call is measured separately. The matrices of a layer are many times as large as the L2
cache.
"""

import math
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from studies.record import Measurement
from tilewright.api.front import grouped_matmul
from tilewright.core.problem import Arithmetic, Problem
from tilewright.kernels.library.grouped_sm90 import KERNEL
from tilewright.runtime.base import Engine
from tilewright.tools.bench.end_to_end import Call, Stopwatch, torch_on_gpu
from tilewright.tools.bench.verify import limit

OURS, THEIRS, LOOP = "tilewright.grouped_matmul", "torch._grouped_mm", "loop of torch.mm"
SAMPLES = 15
REPLAY_US = 4000.0
"""A timed replay of a graph lasts about this long or longer."""
ROWS = (512, 8192, 32768)
SPREADS = ("even", "skewed")
ORDERS = ("NN", "NT")
"""Orders of a and of each matrix of b: NT has the weights as a linear layer keeps them."""


class Layer(NamedTuple):
    """A layer of experts: each has k x n weights."""

    name: str
    groups: int
    n: int
    k: int


LAYERS = (
    Layer("Mixtral up", 8, 14336, 4096),
    Layer("Mixtral down", 8, 4096, 14336),
    Layer("DeepSeek up", 64, 2048, 7168),
    Layer("DeepSeek down", 64, 7168, 2048),
)


def sizes_of(spread: str, rows: int, groups: int) -> list[int]:
    """Rows of each group. Skewed: the share of the i-th busiest is as 1/i, and the busiest are spread over the groups.

    They are multiples of nothing, and of few rows many groups have none.
    """
    if spread == "even":
        return [rows * (i + 1) // groups - rows * i // groups for i in range(groups)]
    step = next(step for step in range(groups // 2 + 1, 2 * groups) if math.gcd(step, groups) == 1)
    shares = [1 / (1 + i * step % groups) for i in range(groups)]
    ends = [round(rows * sum(shares[: i + 1]) / sum(shares)) for i in range(groups)]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


Timer = Callable[[Sequence[Call]], list[float]]
"""Times several calls in turns: for each the median of microseconds."""


def ways_of(torch: Any, a: Any, b: Any, sizes: Sequence[int], presets: bool) -> dict[str, Call]:
    """Calls that make a product, by name."""
    offsets = torch.tensor(sizes, device=a.device).cumsum(0).to(torch.int32)
    calls: dict[str, Call] = {
        OURS: partial(grouped_matmul, a, b, offsets),
        THEIRS: partial(torch._grouped_mm, a, b, offs=offsets),
    }
    parts = [(rows, matrix) for rows, matrix in zip(a.split(list(sizes)), b, strict=True) if len(rows)]

    def loop() -> Any:
        result = a.new_empty(a.shape[0], b.shape[2])
        for (rows, matrix), out in zip(parts, result.split([len(rows) for rows, _ in parts]), strict=True):
            torch.mm(rows, matrix, out=out)
        return result

    calls[LOOP] = loop
    for name, config in KERNEL.presets.items() if presets else ():
        calls[f"{KERNEL.name}:{name}"] = partial(grouped_matmul, a, b, offsets, config=config)
    return calls


def measure(
    torch: Any, layer: Layer, a: Any, b: Any, spread: str, timer: Timer, host_us: Timer, presets: bool
) -> list[Measurement]:
    """Verify and time the ways to make one product.

    Args:
        torch: PyTorch.
        layer, spread: what is multiplied.
        a, b: rows x k and groups x k x n elements, b in any order.
        timer: times calls on the GPU.
        host_us: times the host in calls of ours and of torch._grouped_mm.
        presets: whether every preset of our kernel is a way of its own.
    """
    sizes = sizes_of(spread, a.shape[0], layer.groups)
    calls = ways_of(torch, a, b, sizes, presets)
    errors = _errors(a, b, sizes, calls)
    times = dict(zip(calls, timer(list(calls.values())), strict=True))
    hosts = dict(zip((OURS, THEIRS), host_us([calls[OURS], calls[THEIRS]]), strict=True))
    dtype = str(a.dtype).removeprefix("torch.")
    problem = Problem(a.shape[0], layer.n, layer.k, Arithmetic(dtype, dtype), layer.groups, grouped=True)
    what = {"layer": layer.name, "groups": layer.groups, "rows": a.shape[0], "n": layer.n, "k": layer.k}
    what |= {"spread": spread, "layout": "NT" if b.stride(1) == 1 else "NN", "dtype": dtype}
    found = []
    for name, us in times.items():
        facts = {"tflops": problem.gflops(us) / 1e3, "host_us": hosts.get(name)}
        found.append(Measurement(what=what, way=name, us=us, error=errors[name], limit=limit(problem), facts=facts))
    return found


def _errors(a: Any, b: Any, sizes: Sequence[int], calls: dict[str, Call]) -> dict[str, float | None]:
    """Relative Frobenius error of each way's result; None where it holds NaN or infinity."""
    results: dict[str, Any] = {name: call() for name, call in calls.items()}
    squares, whole = dict.fromkeys(calls, 0.0), 0.0
    begin = 0
    for matrix, rows in zip(b, sizes, strict=True):
        exact = a[begin : begin + rows].double() @ matrix.double()
        whole += float((exact**2).sum())
        for name, result in results.items():
            squares[name] += float(((result[begin : begin + rows].double() - exact) ** 2).sum())
        begin += rows
    return {name: math.sqrt(square / whole) if math.isfinite(square) else None for name, square in squares.items()}


def gpu_us(torch: Any, stopwatch: Stopwatch, samples: int, calls: Sequence[Call]) -> list[float]:
    """Times of calls, by replays of CUDA graphs of many of them, which take turns."""
    graphs: list[tuple[Any, int]] = []
    for call, us in zip(calls, stopwatch.wall_us(calls, samples=1), strict=True):
        graph, count = torch.cuda.CUDAGraph(), max(math.ceil(REPLAY_US / us), 1)
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        graphs.append((graph, count))
    times = stopwatch.wall_us([graph.replay for graph, _ in graphs], samples=samples)
    return [us / count for us, (_, count) in zip(times, graphs, strict=True)]


def cases(torch: Any, device: str, layers: Sequence[Layer]) -> Iterator[tuple[Layer, Any, Any]]:
    """Layers with normal rows and weights, whose products are about 1 in size."""
    for layer in layers:
        torch.manual_seed(0)
        b = torch.empty(layer.groups, layer.k, layer.n, dtype=torch.bfloat16, device=device)
        for matrix in b:
            matrix.copy_(torch.randn(layer.k, layer.n, device=device) / math.sqrt(layer.k))
        for order in ORDERS:
            lying = b if order == "NN" else b.mT.contiguous().mT
            for rows in ROWS:
                yield layer, torch.randn(rows, layer.k, device=device).bfloat16(), lying


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--samples", type=int, default=SAMPLES, help="timed samples of each way")
    parser.add_argument("--presets", action="store_true", help="time every preset of our kernel too")


def measurements(engine: Engine, samples: int, presets: bool) -> Iterator[Measurement]:
    """Every way to make every product."""
    torch = torch_on_gpu("the comparison")
    stopwatch = Stopwatch(torch.cuda.synchronize)
    timer = partial(gpu_us, torch, stopwatch, samples)
    for layer, a, b in cases(torch, "cuda", LAYERS):
        for spread in SPREADS:
            yield from measure(torch, layer, a, b, spread, timer, stopwatch.host_us, presets)
