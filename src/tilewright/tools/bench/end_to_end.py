"""End to end: what a caller sees of `tilewright.matmul`, next to PyTorch's own call on the same tensors.

Two times of a call. The host's: how long the caller is kept, with a queue so short that it never waits for the GPU. And
the wall's: calls back to back until the last has ended, divided by their number, each call on other operands than the
last ones, which fill the L2 cache twice. Samples of both sides take turns, and medians are taken, so that drift hits
both alike.
"""

import importlib
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tilewright.api.front import matmul, prepare
from tilewright.core.dtypes import FLOAT8
from tilewright.core.errors import DtypeError, EngineUnavailableError, LaunchError
from tilewright.core.problem import FAST, Layout, Problem, Scalars, orders
from tilewright.kernels.kernel import Choice
from tilewright.tools.bench.records import EndToEnd, PerCall
from tilewright.tools.bench.verify import limit

QUEUE = 16
"""Calls between two waits where the host's time is taken: few, so that a full queue never blocks it."""

HOST_SAMPLES = 100
"""Bursts of calls whose median is the host's time."""

LEAST_SAMPLES = 5
"""Bursts of calls at least, where calls take long, however long."""

HOST_S = 1.0
"""Bursts end after about this long."""

WALL_S = 0.05
"""A timed sample of calls back to back lasts this long or longer."""

WALL_SAMPLES = 7

_MOST_SETS = 4096

Call = Callable[[], object]
"""Makes one call, on other operands each time."""

Context = AbstractContextManager[object]


@dataclass(frozen=True)
class Stopwatch:
    """How time is taken."""

    wait: Callable[[], None]
    """Returns when all work that was started has ended."""
    now: Callable[[], float] = time.perf_counter
    """Seconds."""

    def host_us(self, calls: Sequence[Call]) -> list[float]:
        """Microseconds that the host spends in a call, the median for each kind of call."""
        samples: list[list[float]] = [[] for _ in calls]
        started = self.now()
        for count in range(HOST_SAMPLES):
            if count >= LEAST_SAMPLES and self.now() - started > HOST_S:
                break
            for call, taken in zip(calls, samples, strict=True):
                taken.append(self.seconds(call, QUEUE, ended=False) / QUEUE)
        self.wait()
        return [1e6 * statistics.median(taken) for taken in samples]

    def wall_us(
        self,
        calls: Sequence[Call],
        within: Sequence[Callable[[], Context]] | None = None,
        samples: int = WALL_SAMPLES,
        untimed: int = 0,
    ) -> list[float]:
        """Microseconds that a call takes among others back to back, the median for each kind of call.

        Args:
            calls: of each kind, one to be repeated.
            within: for each kind, makes a context that its calls are made in; the first call in it is not timed.
            samples: turns of each kind.
            untimed: how often a sample's calls come before it, so that the GPU's clock is that of this kind's own
                work and not of the kind before.
        """
        kinds = list(zip(calls, within or [nullcontext] * len(calls), strict=True))
        counts = []
        for call, context in kinds:
            with context():
                counts.append(self._enough(call))
        sampled: list[list[float]] = [[] for _ in kinds]
        for _ in range(samples):
            for (call, context), count, taken in zip(kinds, counts, sampled, strict=True):
                with context():
                    if within:
                        call()
                    for _ in range(untimed):
                        self.seconds(call, count)
                    taken.append(self.seconds(call, count) / count)
        return [1e6 * statistics.median(taken) for taken in sampled]

    def blocks_us(
        self, call: Call, within: Sequence[Callable[[], Context]], turns: int, untimed: int, timed: int
    ) -> list[list[float]]:
        """In each kind of context, the microseconds that a call takes among others back to back, block by block.

        A switch from one context to another may slow down the calls that follow it, in a way that fades. Blocks are for
        the time of a call that stays in one context.

        Args:
            call: one to be repeated.
            within: make the contexts; each turn has one block in each of them, in random order.
            turns: blocks of each kind.
            untimed: calls at the start of a block.
            timed: calls in the rest of it.
        """
        blocks: list[list[float]] = [[] for _ in within]
        order = random.Random(0)  # the same in every run
        for _ in range(turns):
            for kind in order.sample(range(len(within)), len(within)):
                with within[kind]():
                    self.seconds(call, untimed)
                    blocks[kind].append(1e6 * self.seconds(call, timed) / timed)
        return blocks

    def _enough(self, call: Call) -> int:
        """Calls that last `WALL_S`."""
        count = 1
        while (taken := self.seconds(call, count)) < WALL_S:
            count = max(2 * count, math.ceil(min(1.1 * WALL_S / max(taken, 1e-9), 10) * count))
        return count

    def seconds(self, call: Call, count: int, ended: bool = True) -> float:
        """Seconds from the first call until the work of the last has ended, or until that has returned."""
        self.wait()
        start = self.now()
        for _ in range(count):
            call()
        if ended:
            self.wait()
        return self.now() - start


class Tensors(NamedTuple):
    """Operands of one call."""

    a: Any
    b: Any
    out: Any
    c: Any
    """None where beta is 0."""
    bias: Any
    """None where the problem has none."""


Bind = Callable[[Tensors, Any], Call]
"""Makes a call of its operands, and of the array that it writes to, None for a new one: all that takes time before the
call itself is done here."""


def torch_on_gpu(what: str) -> Any:
    """PyTorch, with a GPU.

    what: needs it, as the message has it.

    Raises:
        EngineUnavailableError: it is not installed, or sees no GPU.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise EngineUnavailableError(f"{what} needs PyTorch: pip install torch. {error}") from error
    if not torch.cuda.is_available():
        raise EngineUnavailableError(f"{what} needs a GPU, and PyTorch {torch.__version__} sees none")
    return torch


class TorchCalls:
    """PyTorch on a GPU, as the framework that calls are compared in. TF32 is off while calls are timed.

    Args:
        torch: the module.
        device: where tensors lie.
        cache_bytes: the size of the last-level cache that operands rotate through.
    """

    def __init__(self, torch: Any, device: str, cache_bytes: int) -> None:
        self.torch, self.device, self._cache_bytes = torch, device, cache_bytes
        self.name = f"PyTorch {torch.__version__}"

    @classmethod
    def on_gpu(cls) -> "TorchCalls":
        """PyTorch with its current GPU.

        Raises:
            EngineUnavailableError: PyTorch is not installed, or sees no GPU.
        """
        torch = torch_on_gpu("--end-to-end")
        return cls(torch, "cuda", torch.cuda.get_device_properties(0).L2_cache_size)

    def wait(self) -> None:
        """Return when all work that was started has ended."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def measure(
        self, problem: Problem, scalars: Scalars, choice: Choice | None, prepared: bool = False
    ) -> tuple[EndToEnd, EndToEnd]:
        """Times of calls that return a new result, and of calls with out=.

        Args:
            problem: what is computed; its matrices have no gaps, and its bias is a row.
            scalars: alpha and beta.
            choice: the kernel and config that matmul is told to take; None for what it picks.
            prepared: whether matmul is given b prepared.

        Raises:
            DtypeError: PyTorch has no product of these element types.
            LaunchError: the two results differ by more than the arithmetic explains.
        """
        with exact(self.torch):
            new, out = self._measure(problem, scalars, choice, prepared)
        if self.device == "cuda":
            self.torch.cuda.empty_cache()
        return new, out

    def _measure(self, problem: Problem, scalars: Scalars, choice: Choice | None, prepared: bool) -> list[EndToEnd]:
        stopwatch = Stopwatch(self.wait)
        sets = self.tensors(problem, scalars)
        binds = self.ours(problem, scalars, choice, prepared), self.own(problem, scalars)
        self._compare(problem, sets[0], *binds, choice)
        found = []
        for into in (False, True):
            both = [_rotating(bind, sets, into) for bind in binds]
            times = stopwatch.wall_us(both), stopwatch.host_us(both)  # the wall's first: it warms up
            wall_us, host_us = (PerCall(ours=ours, baseline=own) for ours, own in times)
            found.append(EndToEnd(framework=self.name, host_us=host_us, wall_us=wall_us))
        return found

    def tensors(self, problem: Problem, scalars: Scalars) -> list[Tensors]:
        """Sets of operands that fill the cache twice, one at least."""
        of_a, of_b, result = (getattr(self.torch, one) for one in (problem.dtype, problem.dtype_b, problem.result))
        count = (problem.batch,) if problem.batch != 1 else ()

        def uniform(layout: Layout, rows: int, cols: int, dtype: Any) -> Any:
            lines = self.torch.rand(*count, *layout.lines(rows, cols), device=self.device) * 2 - 1
            return (lines if layout.order == "row" else lines.transpose(-1, -2)).to(dtype)

        m, n, k = problem.m, problem.n, problem.k

        def one() -> Tensors:
            a, b = uniform(problem.a, m, k, of_a), uniform(problem.b, k, n, of_b)
            c = uniform(Layout(), m, n, result) if scalars.beta else None
            bias = (self.torch.rand(n, device=self.device) * 2 - 1).to(result) if problem.epilogue.bias else None
            return Tensors(a, b, self.torch.empty(*count, m, n, dtype=result, device=self.device), c, bias)

        first = one()
        size = sum(tensor.nbytes for tensor in first[:3])
        return [first, *(one() for _ in range(min(2 * self._cache_bytes // max(size, 1), _MOST_SETS - 1)))]

    def ours(self, problem: Problem, scalars: Scalars, choice: Choice | None, prepared: bool = False) -> Bind:
        """`matmul` as a caller writes it: with the arguments that it needs, and no others."""
        factors: dict[int, Any] = {}  # by a tensor's identity, so that calls with and without out= share a copy
        arithmetic = problem.arithmetic
        fast = arithmetic.precision == FAST
        settings: dict[str, Any] = {
            **(scalars.named if scalars != Scalars() else {}),
            "activation": problem.epilogue.activation,
            "out_dtype": problem.result if problem.result != problem.dtype else None,
            "fast_accumulate": fast or None,
            "precision": None if fast else arithmetic.precision,
            "batch_invariant": arithmetic.batch_invariant or None,
            "kernel": choice and choice.kernel,
            "config": choice and dict(choice.config),
        }
        asked = {name: value for name, value in settings.items() if value is not None}

        def bind(one: Tensors, out: Any) -> Call:
            arrays = {"out": out, "c": one.c, "bias": one.bias}
            b = factors.setdefault(id(one.b), prepare(one.b)) if prepared else one.b
            return partial(matmul, one.a, b, **{k: v for k, v in arrays.items() if v is not None}, **asked)

        return bind

    def own(self, problem: Problem, scalars: Scalars) -> Bind:
        """The framework's own calls for the same: mm, bmm, addmm or baddbmm, and then the activation.

        Raises:
            DtypeError: it has no product of these element types.
        """
        if problem.dtype in FLOAT8:
            return self._own_of_float8(problem, scalars)
        torch, (alpha, beta, _) = self.torch, scalars
        multiply, add = (torch.mm, torch.addmm) if problem.batch == 1 else (torch.bmm, torch.baddbmm)
        types: dict[str, Any] = {}
        if problem.result != problem.dtype:
            if problem.result != "float32":
                raise DtypeError(
                    f"PyTorch multiplies {problem.dtype} to that or to float32, got out_dtype {problem.result}"
                )
            types = {"out_dtype": torch.float32}
        new, in_place = self._activations(problem.epilogue.activation)

        def bind(one: Tensors, out: Any) -> Call:
            keywords = types if out is None else {**types, "out": out}
            after: list[Callable[[Any], Any]] = []
            if one.c is not None:
                product = partial(add, one.c, one.a, one.b, beta=beta, alpha=alpha, **keywords)
                if one.bias is not None:
                    after.append(lambda result: result.add_(one.bias))
            elif one.bias is not None:
                product = partial(add, one.bias, one.a, one.b, alpha=alpha, **keywords)
            else:
                product = partial(multiply, one.a, one.b, **keywords)
                if alpha != 1:
                    after.append(lambda result: result.mul_(alpha))
            if problem.epilogue.activation:
                after.append(new if out is None else in_place)
            return partial(_chain, product, after) if after else product

        return bind

    def _own_of_float8(self, problem: Problem, scalars: Scalars) -> Bind:
        """_scaled_mm, with scales of 1.

        Raises:
            DtypeError: it has no such product.
        """
        epilogue, (a, b) = problem.epilogue, orders("NT")
        if (problem.a.order, problem.b.order) != (a.order, b.order) or problem.batch != 1 or scalars != Scalars():
            raise DtypeError(f"PyTorch multiplies float8 along k alone (NT), got {problem.shape} {problem.case}")
        if epilogue.bias or epilogue.activation or problem.scaling.kind:
            raise DtypeError(f"calls of float8 products are timed without an epilogue and scales, got {problem.case}")
        torch, one_each = self.torch, self.torch.ones((), device=self.device)
        types = {"out_dtype": getattr(torch, problem.result), "use_fast_accum": problem.arithmetic.precision == FAST}

        def bind(one: Tensors, out: Any) -> Call:
            keywords = types if out is None else {**types, "out": out}
            return partial(torch._scaled_mm, one.a, one.b, one_each, one_each, **keywords)

        return bind

    def _activations(self, name: str | None) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """An activation that makes a new tensor, and one that updates its argument."""
        functional, in_place = self.torch.nn.functional, self.torch.ops.aten
        if name in ("relu", "silu"):
            return getattr(functional, name), self.torch.relu_ if name == "relu" else in_place.silu_
        approximate = "tanh" if name == "gelu_tanh" else "none"
        return partial(functional.gelu, approximate=approximate), partial(in_place.gelu_, approximate=approximate)

    def _compare(self, problem: Problem, one: Tensors, ours: Bind, own: Bind, choice: Choice | None) -> None:
        """Raise LaunchError unless both compute the same, with and without out=."""
        expected: Any = own(one, None)()
        expected = expected.double()
        precision = choice.kernel.support.precision if choice else problem.arithmetic.precision
        allowed = limit(problem, precision) + limit(problem)
        for name, bind, out in (("matmul", ours, None), ("matmul with out", ours, one.out), ("PyTorch", own, one.out)):
            result: Any = bind(one, out)()
            result = result.double()
            difference = float((result - expected).norm() / expected.norm().clamp(min=1e-30))
            if not difference <= 2 * allowed:
                which = f"{problem.shape} {problem.case}"
                raise LaunchError(f"{name} differs from {self.name} on {which} by {difference:.1e}")


@contextmanager
def exact(torch: Any) -> Iterator[None]:
    """In a `with` block, PyTorch multiplies float32 in float32, not TF32.

    Where it does so already nothing is set: allow_tf32 = False would be "ieee" for good.
    """
    settings = torch.backends.cuda.matmul
    if not settings.allow_tf32:
        yield
        return
    settings.allow_tf32 = False
    try:
        yield
    finally:
        settings.allow_tf32 = True


def _chain(product: Callable[[], Any], after: Sequence[Callable[[Any], Any]]) -> Any:
    result = product()
    for step in after:
        result = step(result)
    return result


def _rotating(bind: Bind, sets: Sequence[Tensors], into: bool) -> Call:
    """Calls on one set after the other, with out= or without."""
    following = itertools.cycle([bind(one, one.out if into else None) for one in sets])
    return lambda: next(following)()
