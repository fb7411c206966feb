"""The compiled launcher (launcher.cpp): a call of `matmul` whose plan exists, in one call of C++.

It is built at first use with this machine's C++ compiler, unless the package was installed with it built.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, cast

from tilewright.runtime import extension
from tilewright.runtime.plan import Memory, Step

DRIVER = "libcuda.so.1"
"""The library of the CUDA driver."""

_MODULE = "tilewright.runtime._launcher"
_SOURCE = Path(__file__).with_suffix(".cpp")


class Sequence(Protocol):
    """Steps in several streams that are ready to be started (sequence.h). Not from several threads at once."""

    def run(self, bases: tuple[int, ...], stream: int, number: int, before: int, end: int, /) -> None:
        """Start all steps, in their order.

        Args:
            bases: addresses of the bases, in the order of their names; the first is 0.
            stream: handle of stream 0.
            number: what is added to the numbers of counters, less than 2^32.
            before: handle of an event that stream 0 waits for first; 0 for none.
            end: handle of an event that stream 0 records last.

        Raises:
            LaunchError: the driver refuses a step; those before it have been started.
        """


Planned = tuple[
    tuple[Step, ...], tuple[int, int, int], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None, bool
]
"""`steps`, `needs`, `new` and `lent` of `Launcher.remember`."""


class Launcher(Protocol):
    """Plans, by the arrays that they were made for. Its length is their number; from 4096 on it forgets them all.

    May be used from several threads.
    """

    def call(
        self,
        a: Any,
        b: Any,
        c: Any,
        out: Any,
        bias: Any,
        alpha: float,
        beta: float,
        options: Hashable | None,
        scale_a: Any = None,
        scale_b: Any = None,
        /,
    ) -> Any:
        """Launch the plan of these arrays on the stream that is current in their library.

        Returns:
            `out`, or the new result; `MISS`, with nothing launched, where there is no plan for such arrays, no memory
            for its launches, or anything is not as usual (a tensor subclass, a gradient to record, an `out` that may
            overlap an operand).

        Raises:
            LaunchError: the driver refuses.
            MemoryError, or what the library raises: there is no memory for the result.
        """

    def remember(
        self,
        a: Any,
        b: Any,
        c: Any,
        out: Any,
        bias: Any,
        options: Hashable | None,
        *,
        steps: tuple[Step, ...],
        needs: tuple[int, int, int],
        context: int,
        memory: Callable[[int, tuple[int, int, int]], Memory],
        new: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None,
        scaled: bool,
        swapped: bool = False,
        cached: int = 0,
        lent: bool = False,
        plan: Callable[..., Planned | None] | None = None,
        scale_a: Any = None,
        scale_b: Any = None,
    ) -> bool:
        """Keep a plan for calls with arrays like these: their types, shapes, strides, device, addresses modulo 16.

        Args:
            a, b, c, out, bias: the arrays of the call that it was made for; None where there was none. A grouped
                product has its offsets for a bias.
            options: what else it was made for; hashable. None stands for no options.
            steps: what to launch, in order; none where the result has no elements.
            needs: memory that the steps need besides the operands (`Needs`).
            context: the GPU's CUcontext, made current for each launch.
            memory: gives what of that memory no library lends, for a launch on a stream, called as
                memory(stream's handle, needs) while the context is current. It is asked again for the stream only if
                that captures or needs grow.
            new: makes a result, as new[0](*new[1], **new[2]) while the context is current; None where `out` is given.
            scaled: whether beta is not 0.
            swapped: whether the plan's A is b and its B is a.
            cached: address of a copy that outlives the calls (`Plan.cached`), of an operand that the options stand for.
            lent: whether that memory, but for counters, is asked of the arrays' library in each call, and given back at
                once: where the library is PyTorch and the stream is not being captured.
            plan: plans calls that differ from this one in sizes alone, where all arrays are matrices with several rows
                and columns, but for a bias: called as plan(m, n, k, lda, ldb, ldc, ldd), with 0 for a c or an out that
                there is not. `call` asks it where it finds no plan, and keeps what it returns; it misses where that is
                None, or an error. It is not asked in a capture, nor of calls with scales.
            scale_a, scale_b: scales of a and b, None for none: the plan's are swapped where it is.

        Returns:
            whether the plan was kept; False where `call` would not find it, as for arrays of other libraries.

        Raises:
            TypeError, ValueError: the plan is none that can be launched.
        """

    def forget(self) -> None:
        """Drop all plans, and what is known of the memory of streams."""

    def __len__(self) -> int: ...


class LauncherModule(Protocol):
    """Module that launcher.cpp compiles to."""

    MISS: object
    """Answer of `call` where the plan is not known."""
    SOURCE: str
    """Digest of the sources that it was compiled from."""
    API: object
    """A capsule with what other modules launch by (arrays.h)."""

    def Launcher(self, driver: str, device_type: int = 2) -> Launcher:  # noqa: N802 - it is a class
        """A launcher without plans.

        Args:
            driver: path or name of the CUDA driver's library.
            device_type: DLPack's number for where its arrays lie: a GPU.

        Raises:
            OSError: the library, or a function of it, is not there.
        """

    def Sequence(  # noqa: N802 - it is a class
        self,
        driver: str,
        context: int,
        names: tuple[str, ...],
        steps: tuple[tuple[Any, ...], ...],
        streams: tuple[int, ...],
        events: tuple[int, ...],
        /,
    ) -> "Sequence":
        """Steps, ready to be started; see `sequence.sequence`.

        Args:
            driver: as for a launcher.
            context, streams, events: as `sequence.sequence` takes them.
            names: of all bases.
            steps: each with the name of its type before all else.

        Raises:
            OSError: the library, or a function of it, is not there.
            TypeError, ValueError: the steps are none that can be started.
        """


@lru_cache
def load() -> LauncherModule | None:
    """The launcher's module; None where it is not built, and cannot be: no C++ compiler, or no headers of Python."""
    return cast(LauncherModule | None, extension.loaded(_MODULE, _SOURCE))
