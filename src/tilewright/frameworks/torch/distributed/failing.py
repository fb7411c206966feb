"""A launch that makes a GPU fail if a word of its memory is 0: all that the process asks of it then is an error."""

from functools import lru_cache
from typing import Any

from tilewright.runtime.plan import Slot, Step

SOURCE = """
extern "C" __global__ void fail_unless(const volatile int* ok) {
    if (*ok == 0) __trap();
}
"""

_NAME = "fail_unless"


def failing(engine: Any) -> Step:
    """The launch on the GPU of a cuda engine; the word's address is its A."""
    return Step(_code(engine)[0], (1, 1, 1), (1, 1, 1), 0, 0, bytes(8), (0,), (Slot(0, "pointer", "A"),))


@lru_cache
def _code(engine: Any) -> tuple[int, Any]:
    """Address of the function, and what keeps it."""
    from cuda.bindings import driver  # noqa: PLC0415 - slow to import
    from cuda.core import ObjectCode  # noqa: PLC0415

    from tilewright.runtime import nvrtc  # noqa: PLC0415
    from tilewright.runtime.driver import check  # noqa: PLC0415

    cubin = nvrtc.compile_source(SOURCE, f"{_NAME}.cu", _NAME, {}, engine.arch)
    with engine.current:
        kernel = ObjectCode.from_cubin(cubin.code, name=_NAME).get_kernel(cubin.entry)
        return int(check(driver.cuKernelGetFunction(kernel.handle))), kernel
