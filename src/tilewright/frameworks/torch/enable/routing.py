"""enable(): PyTorch's own products by tilewright, where that is expected to be at least as fast.

    model(x)        F.linear, @, matmul, ...
        autograd, autocast, vmap        PyTorch's, untouched: they end in mm, addmm, bmm and baddbmm
            aten::mm on CUDA            here: decisions.py says by whom; from then on shortcut.py knows
                tilewright              the compiled launcher
                PyTorch's kernel        as before

The kernels of these four operators, and of their forms with `out`, are replaced in PyTorch's dispatcher, for CUDA
tensors. All that multiplies ends there: modules, functions, the backward pass, and what torch.compile makes, since
inductor calls the same operators with `out`. So nothing is compiled anew, and enable() and disable() act on what is
compiled already too, except on CUDA graphs and on products of inductor's own (max_autotune).
"""

import logging
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import ContextDecorator
from functools import lru_cache
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tilewright.api import front
from tilewright.api import gpu as on_gpu
from tilewright.api.arrays.libraries import library_of
from tilewright.api.request import PLAIN, Request, check_batch_invariant
from tilewright.core.errors import CompileError, LibraryError, ProblemError, TilewrightError
from tilewright.core.problem import precision_of
from tilewright.frameworks.torch.enable.decisions import (
    IEEE,
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
from tilewright.runtime import launcher
from tilewright.runtime.background import BackgroundJob, background
from tilewright.runtime.launcher import Launcher

_LOADING_S = 0.25
"""Seconds for which enable() waits for the shortcut: enough to load it, where it has been built before."""

_KEY = "CUDA"
"""Key of PyTorch's dispatcher for the kernels of tensors on a GPU."""

_Kernel = Callable[..., Any]

_set_grad_enabled = torch._C._set_grad_enabled  # torch.set_grad_enabled makes an object for it

_precision: Any = getattr(torch._C, "_get_fp32_precision_getter", None)  # torch.backends asks it too, more slowly


class Routes:
    """Kernels to replace PyTorch's with, and the decisions that they made, which outlive the replacement."""

    def __init__(self, key: str, expected: Expect, precision: str | None, batch_invariant: bool = False) -> None:
        """Make them; `install` puts them in place.

        Args:
            key: of the dispatcher: CUDA, or CPU in tests.
            expected: gives the speedup of a problem.
            precision, batch_invariant: as `enable` takes them.

        Raises:
            LibraryError: this PyTorch cannot call a kernel that was replaced.
        """
        if not hasattr(torch.library, "get_kernel") or _precision is None:
            raise LibraryError(f"enable() needs PyTorch 2.9 or newer, this is {torch.__version__}")
        self.decisions = {name: Decisions() for name in ("mm", "addmm", "bmm", "baddbmm")}
        self.expected, self.options = expected, _options_by(precision, batch_invariant)
        self.waits = True
        """Whether products wait for compilers; what is batch-invariant always does."""
        self._key = key
        self._library: Any = None
        self._kernels: dict[str, _Kernel] = {}
        self._module: ShortcutModule | None = None
        self._shortcut: Shortcut | None = None
        self._built: BackgroundJob | None = None
        """Job that builds the shortcut, until that is made."""
        self._in_calls: list[Any] = []
        self._launcher: Launcher | None = None
        if not torch._C._dispatch_has_kernel_for_dispatch_key("aten::mm", key):
            return  # this PyTorch was built without CUDA
        for name in self.decisions:
            make = _added if "add" in name else _plain
            for variant in (name, f"{name}.out"):
                stock = torch.library.get_kernel(f"aten::{variant}", key).call_boxed
                self._kernels[variant] = make(stock, self.decisions[name], self)

    @property
    def installed(self) -> bool:
        """Whether they are in place."""
        return self._library is not None

    def install(self, waits: bool = True) -> None:
        """Replace PyTorch's kernels; waits: whether products, and this, wait for compilers."""
        self.waits = waits or self.options.batch_invariant
        if self._kernels and self._shortcut is None:
            self._built = background.start("shortcut", load_shortcut, in_process=False)  # the compiler is a program
            if self._built.wait(None if self.waits else _LOADING_S):
                self._make_shortcut()
        self._replace()

    def _make_shortcut(self) -> None:
        """Make the shortcut, where this machine can have one; PyTorch's kernels are in place."""
        self._built, self._module = None, load_shortcut()
        if self._module is not None:
            self._shortcut = self._module.Shortcut(self._key, tuple(self._kernels))

    def shorten(self) -> None:
        """Called in each call that Python gets: put the shortcut in place where it has been built by now.

        No other thread does that: the dispatcher may be changed while no other call is in it.
        """
        if self._built is not None and self._built.ended and _lock.acquire(blocking=False):
            try:
                if self.installed and self._built is not None:
                    # The call that this is in returns through a kernel which is removed here.
                    self._in_calls = [torch.library.get_kernel(f"aten::{one}", self._key) for one in self._kernels]
                    self.remove()
                    self._make_shortcut()
                    self._replace()
            finally:
                _lock.release()

    def _replace(self) -> None:
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

    def count(self) -> None:
        """Add to the decisions the calls that took the shortcut."""
        for decision, ours, calls in self._shortcut.counts() if self._shortcut is not None else ():
            decision.count(ours, calls)

    def decided(self, decision: Decision) -> None:
        """Called once a call's route is known: PyTorch's kernel, or the compiled launcher. Calls like it take the
        shortcut from now on; nothing happens where there is none."""
        if self._module is None:
            return
        if not decision.ours:
            self._module.leave(decision)
            return
        if decision.role not in ADDENDS:
            return
        if self._launcher is not on_gpu.fast and (built := launcher.load()) is not None:
            self._launcher = on_gpu.fast
            self._module.launch_by(self._launcher, built.API, torch.Tensor)
        self._module.take(decision, ADDENDS[decision.role], decision.asks)


def _options_by(precision: str | None, batch_invariant: bool) -> Options:
    """Requests of float32 products, by the precision that PyTorch is set to in each call: "ieee" is taken as "none".

    While PyTorch may round their factors to TF32, they may be rounded here too, but stay with PyTorch where a stricter
    precision was asked for. Batch-invariant ones then keep that.
    """
    own, tf32 = (Request(precision=one, batch_invariant=batch_invariant).key for one in (precision_of(precision), TF32))
    rounded = tf32 if precision in (None, TF32) else batch_invariant and own
    by = {"none": own, TF32: rounded}
    return Options(lambda: _precision("cuda", "matmul"), by, batch_invariant)


def _plain(stock: _Kernel, decisions: Decisions, routes: Routes) -> _Kernel:
    """A kernel for a @ b."""

    def multiply(keys: Any, a: Any, b: Any, *, out: Any = None) -> Any:
        routes.shorten()
        kind = a.shape, a.stride(), b.shape, b.stride(), a.dtype, out if out is None else (out.shape, out.stride())
        decision = decisions.get(kind)
        if decision is None:
            decision = decisions.keep(kind, decide(OperatorCall(a, b, None, out), routes.expected, routes.options))
        if decision.ours and (result := _ours(decision, routes, a, b, None, out, None, 1.0, 0.0)) is not None:
            return result
        decision.count(ours=False)
        result = stock(keys, a, b) if out is None else stock(keys, a, b, out=out)
        if not decision.ours:
            routes.decided(decision)
        return result

    return multiply


def _added(stock: _Kernel, decisions: Decisions, routes: Routes) -> _Kernel:
    """A kernel for beta * addend + alpha * a @ b."""

    def multiply(keys: Any, addend: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
        routes.shorten()
        target = None if out is None else (out.shape, out.stride())
        kind = a.shape, a.stride(), b.shape, b.stride(), a.dtype, addend.shape, addend.stride(), beta, target
        decision = decisions.get(kind)
        if decision is None:
            decision = decisions.keep(
                kind, decide(OperatorCall(a, b, addend, out, beta), routes.expected, routes.options)
            )
        if decision.ours:
            c = addend if decision.role == "c" else None
            if decision.role == "expanded":
                c = addend.expand(*a.shape[:-1], b.shape[-1]).contiguous()
            bias = addend if decision.role == "bias" else None
            result = _ours(decision, routes, a, b, c, out, bias, alpha, 0.0 if c is None else beta)
            if result is not None:
                return result
        decision.count(ours=False)
        if out is None:
            result = stock(keys, addend, a, b, beta=beta, alpha=alpha)
        else:
            result = stock(keys, addend, a, b, beta=beta, alpha=alpha, out=out)
        if not decision.ours:
            routes.decided(decision)
        return result

    return multiply


def _ours(
    decision: Decision, routes: Routes, a: Any, b: Any, c: Any, out: Any, bias: Any, alpha: Any, beta: Any
) -> Any:
    """The product by tilewright; None where PyTorch has to compute it after all."""
    request = decision.asked() if decision.asks else None
    if request is False or decision.awaits(routes.waits):
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
            result = _first(decision, arrays, alpha, beta, request, routes.waits)
        else:
            routes.decided(decision)
    finally:
        if records:
            _set_grad_enabled(True)
    if result is not None:
        decision.count(ours=True)
    return result


def _first(
    decision: Decision, arrays: dict[str, Any], alpha: Any, beta: Any, asked: Request | None, waits: bool
) -> Any:
    """The product of a kind that the compiled launcher does not know; waits: for compilers."""
    request = asked or PLAIN
    invariant, a = request.batch_invariant, arrays["a"]
    if not invariant and a.is_cuda and torch.cuda.is_current_stream_capturing():
        _log_capture()
        return None  # its code may not be loaded yet, which cannot be done into a graph
    if not waits and a.is_cuda and not (job := on_gpu.start_engine(a.device.index)).ended:
        decision.awaited = job
        return None
    check = None if waits else on_gpu.check_loaded
    try:
        result = front.multiply(request, library_of("a", a), arrays, alpha, beta, asked, check=check)
    except on_gpu.AwaitedError as error:
        decision.awaited = error.job
        return None
    except TilewrightError as error:
        if invariant:
            raise  # PyTorch's own product would break the promise
        decision.miss()
        if not isinstance(error, ProblemError):
            decision.refuse(str(error))
        return None
    decision.miss()
    return result


@lru_cache
def _log_capture() -> None:
    """Say once that a graph has PyTorch's kernels."""
    logging.getLogger("tilewright.torch").info(
        "a CUDA graph was captured with kernels of PyTorch, since products in it had not run under enable() before: "
        "call tilewright.torch.warm first"
    )


_lock = threading.Lock()
_Asked = tuple[str | None, bool]
"""The precision that was asked for, and whether products are to be batch-invariant."""
_Switched = tuple[_Asked, bool]
"""What was asked for, and whether products wait for compilers."""
_routes: dict[_Asked, Routes] = {}
"""One of them at most is installed."""


def _switch(to: _Switched | None) -> _Switched | None:
    """Replace PyTorch's kernels by those that were asked for, or at None give them back; what was so before."""
    with _lock:
        before = next(((asked, routes.waits) for asked, routes in _routes.items() if routes.installed), None)
        if before != to and before is not None:
            _routes[before[0]].remove()
        if before != to and to is not None:
            asked, waits = to
            if asked not in _routes:
                _routes[asked] = Routes(_KEY, expect, *asked)
            _routes[asked].install(waits)
        return before


class Enabled(ContextDecorator):
    """Context that enable() returns: leaving it restores the routes from before."""

    def __init__(self, asked: _Switched) -> None:
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

    Matrix products are meant (mm, addmm, bmm, baddbmm, and what is made of them: matmul, @, linear, torch.nn.Linear),
    also backward, under autocast, and in what torch.compile made. What is expected comes from tables: see
    `tilewright.select.speedup.expected_speedup`. It is decided once for each combination of shapes, strides and element
    type, for all GPUs of the process. All else stays with PyTorch.

    No product waits for a compiler: background threads compile what it needs, and PyTorch computes products of its kind
    until that is there (`report` counts them as waiting for a compiler), or for good where it does not compile. So a
    run's first results may have other bits than later ones, and two runs change over at different products, also under
    torch.use_deterministic_algorithms: give wait=True where bits must not depend on that. `warm` compiles all that a
    model needs before it runs. Into a CUDA graph nothing is compiled: what has not run here by then is captured with
    PyTorch's kernel, and a line of the log "tilewright.torch" says so once. The path in C++ that known products take
    is built in the background too, against the PyTorch that is installed; without a C++ compiler Python routes.

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
    are float64, integers, and an `out` that PyTorch resizes; products of one-dimensional tensors (mv, dot); and what is
    no matrix product, such as its fused attention.
    "tf32", where PyTorch says so, is followed; a precision given here counts before it.

    Args:
        precision: what float32 products promise, as `tilewright.matmul` takes it. None follows PyTorch's settings.
        batch_invariant: whether a row of a product must not depend on how many there are, nor on the others. Such
            products wait for compilers.
        wait: whether products wait for compilers.

    Raises:
        ProblemError: the precision is unknown, or batch_invariant or wait is no bool.
        LibraryError: this PyTorch is older than 2.9.
    """
    check_batch_invariant(batch_invariant)
    precision_of(precision)
    if type(wait) is not bool:
        raise ProblemError(f"wait must be True or False, got {wait!r}")
    return Enabled(((precision, batch_invariant), wait or batch_invariant))


def warm(model: Callable[..., Any], inputs: Any) -> None:
    """Compile what the products of a model need under enable(), in parallel; returns when all is ready.

    For a process that is to be fast from its first step, and before a CUDA graph is captured. The model is run a few
    times, while PyTorch computes what is not compiled yet, and where its result wants a gradient the backward pass too;
    no gradient is stored, and PyTorch's random numbers go on as if it had not run. What else a model changes when it
    runs (buffers of a batch norm) is changed. One that torch.compile made is compiled as it runs here. Where enable()
    is in force, its options count, else those of enable() without arguments.

        tilewright.torch.enable()
        tilewright.torch.warm(model, x)

    Args:
        model: a module, or another function of tensors on a GPU. Other shapes of inputs are other kinds of products.
        inputs: a tensor, a tuple or list of arguments, or a dict of named ones.

    Raises:
        CompileError: a kernel does not compile. The products that need it are left to PyTorch.
    """
    asked = next((asked for asked, routes in _routes.items() if routes.installed), (None, False))
    with Enabled((asked, False)):
        routes = _routes[asked]
        for _ in range(_MOST_RUNS):
            _run(model, inputs)
            awaited = [one.awaited for kinds in routes.decisions.values() for one in kinds.values() if one.awaited]
            if not awaited:
                break
            background.wait()
            for job in awaited:
                if isinstance(job.error, CompileError):
                    raise job.error
        background.wait()
        routes.shorten()


_MOST_RUNS = 8
"""Runs of `warm`: the engine is loaded, code compiled, plans made; calls of a kind may differ in alignment."""


def _run(model: Callable[..., Any], inputs: Any) -> None:
    """Run a model, forward and, where its result wants a gradient, backward."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices):
        if isinstance(inputs, Mapping):
            result = model(**inputs)
        else:
            result = model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)
        found = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor) and one.requires_grad]
        wanted = [one for one in getattr(model, "parameters", tuple)() if one.requires_grad]
        wanted += [one for one in tree_leaves(inputs) if isinstance(one, torch.Tensor) and one.requires_grad]
        if found and wanted:
            torch.autograd.grad(found, wanted, [torch.ones_like(one) for one in found], allow_unused=True)


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
    ruled_out = any(precision is None for precision, _ in _routes) and _precision("cuda", "matmul") == IEEE
    found = Report.of(decisions, _why_empty, ruled_out)
    if reset:
        for _, decision in decisions:
            decision.calls = decision.stock_calls = decision.awaiting_calls = 0
    return found


def _why_empty() -> str:
    """Why no product was routed."""
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU, and products of tensors on the CPU stay with PyTorch"
    if not _routes:
        return "enable() has not been called"
    return "no product of CUDA tensors was called while enable() was in force, or since the last reset"
