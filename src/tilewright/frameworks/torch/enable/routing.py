"""enable(): PyTorch's own products by tilewright, where that is expected to be at least as fast.

    model(x)        F.linear, @, matmul, ...
        autograd, autocast, vmap        PyTorch's, untouched: they end in mm, addmm, bmm, baddbmm and _int_mm
            aten::mm on CUDA            here: decisions.py says by whom; from then on shortcut.py knows
                tilewright              the compiled launcher
                PyTorch's kernel        as before

The kernels of these five operators, and of their forms with `out`, are replaced in PyTorch's dispatcher, for CUDA
tensors. All that multiplies ends there: modules, functions, the backward pass, and what torch.compile makes, since
inductor calls the same operators with `out`. So nothing is compiled anew, and enable() and disable() act on what is
compiled already too, except on CUDA graphs and on products of inductor's own (max_autotune).
"""

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ContextDecorator, nullcontext
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import torch

from tilewright.api import front
from tilewright.api import gpu as on_gpu
from tilewright.api.arrays.libraries import library_of
from tilewright.api.request import PLAIN, Request, check_batch_invariant
from tilewright.core.errors import LibraryError, ProblemError, TilewrightError
from tilewright.core.problem import precision_of
from tilewright.frameworks.torch.enable.decisions import (
    IEEE,
    LOG,
    TF32,
    Decision,
    Decisions,
    Expect,
    OperatorCall,
    Options,
    Report,
    decide,
    expect,
)
from tilewright.frameworks.torch.enable.shortcut import ADDENDS, Shortcut, ShortcutModule
from tilewright.frameworks.torch.enable.shortcut import load as load_shortcut
from tilewright.runtime import background, launcher
from tilewright.runtime.launcher import Launcher

_KEY = "CUDA"
"""Key of PyTorch's dispatcher for the kernels of tensors on a GPU."""

INTEGERS = "_int_mm"
"""Operator of int8 factors, with int32 results."""

_Kernel = Callable[..., Any]
_Result = TypeVar("_Result")

_set_grad_enabled = torch._C._set_grad_enabled  # torch.set_grad_enabled makes an object for it

_precision: Any = getattr(torch._C, "_get_fp32_precision_getter", None)  # torch.backends asks it too, more slowly


_attaching = threading.RLock()


def _may_register() -> bool:
    """Whether kernels may be registered: on the main thread alone, while none of autograd's runs."""
    return threading.current_thread() is threading.main_thread()


class Routes:
    """Kernels to replace PyTorch's with, and the decisions that they made, which outlive the replacement."""

    def __init__(
        self, key: str, expected: Expect, precision: str | None, batch_invariant: bool = False, wait: bool = False
    ) -> None:
        """Make them; `install` puts them in place.

        Args:
            key: of the dispatcher: CUDA, or CPU in tests.
            expected: gives the speedup of a problem.
            precision, batch_invariant, wait: as `enable` takes them.

        Raises:
            LibraryError: this PyTorch cannot call a kernel that was replaced.
        """
        if not hasattr(torch.library, "get_kernel") or _precision is None:
            raise LibraryError(f"enable() needs PyTorch 2.9 or newer, this is {torch.__version__}")
        self.decisions = {name: Decisions() for name in ("mm", "addmm", "bmm", "baddbmm", INTEGERS)}
        self._key = key
        self._library: Any = None
        self._kernels: dict[str, _Kernel] = {}
        self._stock: dict[str, Any] = {}
        self._shortcut: Shortcut | None = None
        self._module: ShortcutModule | None = None
        self._building: Future[ShortcutModule | None] | None = None
        self._known: Launcher | None = None
        if not torch._C._dispatch_has_kernel_for_dispatch_key("aten::mm", key):
            return  # this PyTorch was built without CUDA
        never_waits = not (wait or batch_invariant)
        route = Route(expected, _options_by(precision, batch_invariant), self._decided, never_waits)
        for name, decisions in self.decisions.items():
            make = _added if "add" in name else partial(_plain, name == INTEGERS)
            for variant in (name, f"{name}.out"):
                self._stock[variant] = torch.library.get_kernel(f"aten::{variant}", key)
                self._kernels[variant] = make(self._stock[variant].call_boxed, decisions, route)
        if never_waits:
            self._building = background.start(load_shortcut, load_shortcut, within=False)
        else:
            self._attach(load_shortcut())

    @property
    def installed(self) -> bool:
        """Whether they are in place."""
        return self._library is not None

    @property
    def waiting(self) -> bool:
        """Whether PyTorch's kernel stood in for ours in the last call of some kind."""
        return any(one.pending for kinds in self.decisions.values() for one in tuple(kinds.values()))

    def install(self) -> None:
        """Replace PyTorch's kernels."""
        self._library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Warning only once for all operators")
            for variant, kernel in self._kernels.items():
                self._library.impl(variant, kernel, self._key, with_keyset=True)
        if self._shortcut is not None:
            self._shortcut.install()

    def remove(self) -> None:
        """Give PyTorch its kernels back."""
        if self._shortcut is not None:
            self._shortcut.remove()
        self._library._destroy()
        self._library = None

    def _decided(self, decision: Decision) -> None:
        """Have calls like those that are given take the shortcut; nothing happens where there is none."""
        if self._building is not None and self._building.done() and _may_register():
            self._attach(self._building.result())
            return  # this call has not come by the shortcut
        module = self._module
        if module is None:
            return
        if not decision.ours:
            module.leave(decision)
            return
        if decision.role not in ADDENDS:
            return
        if self._known is not on_gpu.fast and (built := launcher.load()) is not None:
            self._known = on_gpu.fast
            module.launch_by(self._known, built.API, torch.Tensor)
        module.take(decision, ADDENDS[decision.role], decision.asks)

    def _attach(self, module: ShortcutModule | None) -> None:
        """Take the shortcut from now on, where it could be built."""
        with _attaching:
            self._building, self._module = None, module
            if module is None or self._shortcut is not None:
                return
            self._shortcut = module.Shortcut(self._key, self._stock)
            if self.installed:
                self._shortcut.install()

    def count(self) -> None:
        """Add to the decisions the calls that took the shortcut."""
        for decision, ours, calls in self._shortcut.counts() if self._shortcut is not None else ():
            decision.count(ours, calls)


class Route(NamedTuple):
    """How calls find their way."""

    expected: Expect
    options: Options
    decided: Callable[[Decision], None]
    """Called once a call's route is known: PyTorch's kernel, or the compiled launcher."""
    never_waits: bool
    """Whether PyTorch's kernel runs while code is compiled."""


def _options_by(precision: str | None, batch_invariant: bool) -> Options:
    """Requests of float32 products, by the precision that PyTorch is set to in each call: "ieee" is taken as "none".

    While PyTorch may round their factors to TF32, they may be rounded here too, but stay with PyTorch where a stricter
    precision was asked for. Batch-invariant ones then keep that.
    """
    own, tf32 = (Request(precision=one, batch_invariant=batch_invariant).key for one in (precision_of(precision), TF32))
    rounded = tf32 if precision in (None, TF32) else batch_invariant and own
    by = {"none": own, TF32: rounded}
    return Options(lambda: _precision("cuda", "matmul"), by, batch_invariant)


def _plain(integers: bool, stock: _Kernel, decisions: Decisions, route: Route) -> _Kernel:
    """A kernel for a @ b."""

    def multiply(keys: Any, a: Any, b: Any, *, out: Any = None) -> Any:
        kind = a.shape, a.stride(), b.shape, b.stride(), a.dtype, out if out is None else (out.shape, out.stride())
        decision = decisions.get(kind)
        if decision is None:
            call = OperatorCall(a, b, None, out, integers=integers)
            decision = decisions.keep(kind, decide(call, route.expected, route.options))
        if decision.ours and (result := _ours(decision, route, a, b, None, out, None, 1.0, 0.0)) is not None:
            return result
        decision.count(ours=False)
        result = stock(keys, a, b) if out is None else stock(keys, a, b, out=out)
        if not decision.ours:
            route.decided(decision)
        return result

    return multiply


def _added(stock: _Kernel, decisions: Decisions, route: Route) -> _Kernel:
    """A kernel for beta * addend + alpha * a @ b."""

    def multiply(keys: Any, addend: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
        target = None if out is None else (out.shape, out.stride())
        kind = a.shape, a.stride(), b.shape, b.stride(), a.dtype, addend.shape, addend.stride(), beta, target
        decision = decisions.get(kind)
        if decision is None:
            call = OperatorCall(a, b, addend, out, beta)
            decision = decisions.keep(kind, decide(call, route.expected, route.options))
        if decision.ours:
            c = addend if decision.role == "c" else None
            if decision.role == "expanded":
                c = addend.expand(*a.shape[:-1], b.shape[-1]).contiguous()
            bias = addend if decision.role == "bias" else None
            result = _ours(decision, route, a, b, c, out, bias, alpha, 0.0 if c is None else beta)
            if result is not None:
                return result
        decision.count(ours=False)
        if out is None:
            result = stock(keys, addend, a, b, beta=beta, alpha=alpha)
        else:
            result = stock(keys, addend, a, b, beta=beta, alpha=alpha, out=out)
        if not decision.ours:
            route.decided(decision)
        return result

    return multiply


def _ours(decision: Decision, route: Route, a: Any, b: Any, c: Any, out: Any, bias: Any, alpha: Any, beta: Any) -> Any:
    """The product by tilewright; None where PyTorch has to compute it after all."""
    request = decision.asked() if decision.asks else None
    if request is False or (decision.pending and decision.is_pending):
        return None
    # Autograd calls this with gradients enabled, and has recorded what it needs.
    records = torch.is_grad_enabled()
    if records:
        _set_grad_enabled(False)
    try:
        result = on_gpu.miss
        if on_gpu.fast is not None:
            result = on_gpu.fast.call(a, b, c, out, bias, alpha, beta, request)
        if result is on_gpu.miss:
            arrays = {"a": a, "b": b, "c": c, "out": out, "bias": bias}
            result = _first(decision, route, arrays, alpha, beta, request)
        else:
            route.decided(decision)
    finally:
        if records:
            _set_grad_enabled(True)
    if result is not None:
        decision.count(ours=True)
    return result


def _first(
    decision: Decision, route: Route, arrays: dict[str, Any], alpha: Any, beta: Any, asked: Request | None
) -> Any:
    """The product of a kind that the compiled launcher does not know; None where its code is being compiled."""
    request = asked or PLAIN
    invariant, a = request.batch_invariant, arrays["a"]
    if not invariant and a.is_cuda and torch.cuda.is_current_stream_capturing():
        _log_capture()
        return None  # its code may not be loaded yet, which cannot be done into a graph
    try:
        if route.never_waits and a.is_cuda:
            background.require({("engine", a.device.index): partial(on_gpu.open_engine, a.device.index)})
        with background.never_waiting() if route.never_waits else nullcontext():
            result = front.multiply(request, library_of("a", a), arrays, alpha, beta, asked)
        decision.miss()
        return result
    except background.PendingCode as pending:
        decision.pending = pending.work
        return None
    except TilewrightError as error:
        if invariant:
            raise  # PyTorch's own product would break the promise
        if not isinstance(error, ProblemError):
            decision.refuse(str(error))
        return None


@lru_cache
def _log_capture() -> None:
    """Say once what a graph has."""
    LOG.info(
        "a CUDA graph captured PyTorch's kernel of a product that had not run under enable() before: "
        "call tilewright.torch.warm before the capture"
    )


_lock = threading.Lock()
_Asked = tuple[str | None, bool, bool]
"""The precision that was asked for, whether products are to be batch-invariant, and whether they wait for compilers."""
_routes: dict[_Asked, Routes] = {}
"""One of them at most is installed."""


def _switch(to: _Asked | None) -> _Asked | None:
    """Replace PyTorch's kernels by those that were asked for, or at None give them back; what was so before."""
    with _lock:
        before = next((asked for asked, routes in _routes.items() if routes.installed), None)
        if before != to and before is not None:
            _routes[before].remove()
        if before != to and to is not None:
            if to not in _routes:
                _routes[to] = Routes(_KEY, expect, *to)
            _routes[to].install()
        return before


class Enabled(ContextDecorator):
    """Context that enable() returns: leaving it restores the routes from before."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._before = _switch(asked)

    def __call__(self, function: Any) -> Any:
        _switch(self._before)  # as a decorator, it is to act while the function runs
        return super().__call__(function)

    def _recreate_cm(self) -> "Enabled":
        return Enabled(self._asked)

    def __enter__(self) -> "Enabled":
        return self

    def __exit__(self, *_: object) -> None:
        _switch(self._before)


def enable(precision: str | None = None, *, batch_invariant: bool = False, wait: bool = False) -> Enabled:
    """From now on, let tilewright multiply CUDA tensors of PyTorch where it is expected to be at least as fast.

    Matrix products are meant (mm, addmm, bmm, baddbmm, what is made of them: matmul, @, linear, torch.nn.Linear; and
    torch._int_mm), also backward, under autocast, and in what torch.compile made. What is expected comes from tables:
    see `tilewright.select.speedup.expected_speedup`. It is decided once for each combination of shapes, strides and
    element type, for all GPUs of the process. All else stays with PyTorch.

    What PyTorch says of float32 products counts in every call: `torch.backends.cuda.matmul.fp32_precision`, which
    `allow_tf32` and `torch.set_float32_matmul_precision` write too, and which follows that of `torch.backends.cudnn`
    and `torch.backends` while it is "none", its default:

    - "tf32": without a precision given here, or with "tf32", they may be rounded to TF32, as `matmul` does with
      precision="tf32", where that is expected to be at least as fast as cuBLAS in TF32. With another precision given
      here they stay with PyTorch.
    - "none": they have float32's precision, by tensor cores where that is faster. On random inputs of 768 to 6144
      their errors are 0.2 to 0.55 of those of cuBLAS's float32.
    - "ieee", which PyTorch has where somebody set it, as by allow_tf32 = False to rule TF32 out, is taken as "none":
      enable("ieee") computes them on CUDA cores alone. `report` says so, and once a line of the log
      "tilewright.torch".

        tilewright.torch.enable()               # until disable()

        with tilewright.torch.enable():         # here
            model(x)

        @tilewright.torch.enable()              # while the function runs
        def step(x): ...

    It is one switch for the process, all threads included; what the last call asks for counts.

    With batch_invariant, all products of float32, float16 and bfloat16 run here, however fast they are, as `matmul`
    does with batch_invariant=True: a row has the same bits in every batch. What cannot run here raises. Left to PyTorch
    are float64, integers (torch._int_mm runs here where it is faster: its sums are exact anyhow), and an `out` that
    PyTorch resizes; products of one-dimensional tensors (mv, dot); and what is no matrix product, such as its fused
    attention.
    "tf32", where PyTorch says so, is followed; a precision given here counts before it.

    No product waits for a compiler: PyTorch's kernel runs until the code of ours is there, which other threads compile
    meanwhile. So the first steps of a model may have other bits than later ones, and two runs change over at different
    steps, also under torch.use_deterministic_algorithms; with `wait` they do not. What does not compile is left to
    PyTorch, and `report` says why. `tilewright.torch.warm` compiles all that a step needs before it returns.
    Batch-invariant products wait in any case. Nothing is compiled into a CUDA graph: what did not run here before has
    PyTorch's kernel there, which a line of the log "tilewright.torch" says once.

    Args:
        precision: what float32 products promise, as `tilewright.matmul` takes it. None follows PyTorch's settings.
        batch_invariant: whether a row of a product must not depend on how many there are, nor on the others.
        wait: whether a product waits for the code that it is expected to be fastest by.

    Raises:
        ProblemError: the precision is unknown, or batch_invariant or wait is no bool.
        LibraryError: this PyTorch is older than 2.9.
    """
    check_batch_invariant(batch_invariant)
    if not isinstance(wait, bool):
        raise ProblemError(f"wait must be True or False, got {wait!r}")
    precision_of(precision)
    return Enabled((precision, batch_invariant, wait or batch_invariant))


def warm(step: Callable[..., _Result], *arguments: Any, **keywords: Any) -> _Result:
    """Run a step of a program under `enable()`, compile all that its products need, and run it again.

    From then on nothing of it is compiled, and a CUDA graph may be captured. Compilers run on all cores but one.

        tilewright.torch.enable()
        tilewright.torch.warm(model, inputs)

    Args:
        step: the model, or a function, as one that trains for a step; called again while code was compiled for it.
        arguments, keywords: of the calls.

    Returns:
        what the last call returned.

    Raises:
        LibraryError: `enable()` is not in force.
    """
    routes = next((one for one in _routes.values() if one.installed), None)
    if routes is None:
        raise LibraryError("warm() runs a step under enable(), which is not in force")
    result = step(*arguments, **keywords)
    for _ in range(_MOST_RUNS):  # what is compiled when a step ends may still have no plan
        if not (background.finish() or routes.waiting):
            break
        result = step(*arguments, **keywords)
    return result


_MOST_RUNS = 8
"""Further runs of `warm`: a step may have new shapes in each."""


def disable() -> None:
    """Give PyTorch all of its products back."""
    _switch(None)


def report(*, reset: bool = False) -> Report:
    """Account of the calls that ran here and in PyTorch while products were routed, by operator and shape; print it to
    see a table, or why it is empty.

    Calls of Python are counted: a CUDA graph counts once, where it is captured.

    Args:
        reset: whether to count from 0 again.
    """
    decisions: list[tuple[str, Decision]] = []
    for routes in tuple(_routes.values()):
        routes.count()
        decisions += [(name, one) for name, kinds in routes.decisions.items() for one in kinds.counted()]
    ruled_out = any(precision is None for precision, _, _ in _routes) and _precision("cuda", "matmul") == IEEE
    found = Report.of(decisions, _why_empty, ruled_out)
    if reset:
        for _, decision in decisions:
            decision.calls = decision.stock_calls = decision.waiting_calls = 0
    return found


def _why_empty() -> str:
    """Why no product was routed."""
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU, and products of tensors on the CPU stay with PyTorch"
    if not _routes:
        return "enable() has not been called"
    return "no product of CUDA tensors was called while enable() was in force, or since the last reset"
