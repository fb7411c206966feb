"""The XLA handler (xla_handler.cpp): launches of a plan inside an XLA program, on XLA's stream and in its memory.

It is built at first use with this machine's C++ compiler, against the headers of the JAX that is installed.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, cast

from tilewright.core.errors import EngineUnavailableError
from tilewright.runtime import extension
from tilewright.runtime.launcher import DRIVER
from tilewright.runtime.plan import Needs, Step

TARGET = "tilewright_product"
"""Name by which XLA calls the handler."""

_SOURCE = Path(__file__).with_suffix(".cpp")


class XlaHandler(Protocol):
    """Module that xla_handler.cpp compiles to. May be used from several threads."""

    HANDLER: Any
    """A capsule of the function that XLA calls.

    Its attributes are the plan's name, and alpha; its operands a, b and, where the plan has one, the bias; its results
    d and, where the plan needs it, scratch memory.
    """

    def keep(
        self, name: str, device: int, context: int, steps: tuple[Step, ...], needs: Needs, swapped: bool = False
    ) -> int:
        """Keep a plan as long as the process lives; one that is known by this name on this GPU stays.

        Args:
            name: what calls name it by. It must not stand for another plan, in this process or one that shares a cache
                of XLA's programs with it.
            device: the GPU's number.
            context: its CUcontext, made current for each launch.
            steps: what to launch, in order.
            needs: memory that the steps need besides the operands.
            swapped: whether the plan's A is b and its B is a.

        Returns:
            the bytes of scratch memory that calls must be given.

        Raises:
            TypeError, ValueError: the plan is none that can be launched.
        """

    def open(self, driver: str) -> None:
        """Use the CUDA driver whose library has this path or name.

        Raises:
            OSError: the library, or a function of it, is not there.
        """


@lru_cache
def load() -> XlaHandler:
    """The handler, which XLA then knows on GPUs.

    Raises:
        EngineUnavailableError: it cannot be built, or there is no CUDA driver; the message says what is missing.
    """
    import jax  # noqa: PLC0415 - imported already where there is a program of it
    import jaxlib  # noqa: PLC0415

    try:
        options = [f"-isystem{jax.ffi.include_dir()}"]
        built = extension.built("tilewright.runtime._xla_handler", _SOURCE, options, [jaxlib.__version__])
        handler = cast(XlaHandler, built)
        handler.open(DRIVER)
    except extension.NOT_BUILT as error:
        raise EngineUnavailableError(f"the XLA handler cannot be built or loaded: {error}") from error
    jax.ffi.register_ffi_target(TARGET, handler.HANDLER, platform="CUDA")
    return handler
