"""Tensor cores by themselves: products of what shared memory or registers hold, again and again (bare_products.cu)."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import ml_dtypes  # noqa: F401 - teaches NumPy the names of bfloat16 and float8
import numpy as np
from numpy.typing import NDArray

from tilewright.core.dtypes import ELEMENT_TYPES, INT8, ITEM_BYTES
from tilewright.kernels import warpgroups
from tilewright.runtime.base import Work

if TYPE_CHECKING:
    from tilewright.runtime.cuda import CudaEngine
    from tilewright.runtime.nvrtc import Cubin

SOURCE = Path(__file__).with_suffix(".cu")
REPEATS = 2000
"""Stages that a launch multiplies, about a millisecond."""
_ENTRY = "bare_products"
_WARPGROUPS = 2
_THREADS = _WARPGROUPS * warpgroups.THREADS
_OF_A: dict[str, int] = {"shared memory": 0, "registers": 1, "registers, loaded for each stage": 2}


def drawn(random: np.random.Generator, dtype: str, rows: int, cols: int) -> NDArray[Any]:
    """Elements of a matrix: integers of 8 bits of all values alike, others normally distributed."""
    if dtype in INT8:
        return random.integers(0, 256, (rows, cols), np.uint8).view(dtype)
    return random.standard_normal((rows, cols), np.float32).astype(dtype)


@dataclass(frozen=True)
class Bare:
    """Products of one form."""

    dtype: Literal["bfloat16", "float8_e4m3fn", "int8"]
    rows: int
    """Rows of A that each of two warpgroups multiplies: 64 or 128."""
    columns: int
    """Columns of B."""
    of_a: str = "shared memory"
    """Where A is: a key of `_OF_A`. From registers, of lines across k."""

    def __str__(self) -> str:
        return f"{self.dtype}, {self.rows} x {self.columns} each, A in {self.of_a}"

    def compile(self) -> "Cubin":
        """For Hopper.

        Raises:
            EngineUnavailableError: NVRTC is not installed.
        """
        from tilewright.runtime import nvrtc  # noqa: PLC0415 it loads CUDA's bindings

        macros: dict[str, int | str] = {
            "FACTOR": ELEMENT_TYPES[self.dtype].cpp,
            "RESULT": "float",
            "OWN_ROWS": self.rows,
            "BN": self.columns,
        }
        macros |= {"OF_A": _OF_A[self.of_a], "REPEATS": REPEATS}
        (arch,) = warpgroups.BFLOAT16.architectures
        return nvrtc.compile_source(SOURCE.read_text(), str(SOURCE), _ENTRY, macros, arch, SOURCE.parent)

    @property
    def stage_bytes(self) -> int:
        """Bytes of a stage's tiles of A and of B."""
        return (_WARPGROUPS * self.rows + self.columns) * warpgroups.LINE_BYTES

    def flops(self, blocks: int) -> int:
        """Floating-point operations of a launch of this many blocks."""
        depth = warpgroups.LINE_BYTES // ITEM_BYTES[self.dtype]
        return 2 * blocks * _WARPGROUPS * self.rows * self.columns * depth * REPEATS

    def work(self, engine: "CudaEngine", blocks: int) -> Work:
        """A launch of this many blocks, on elements that are random and normal; of int8 on all values alike.

        Raises:
            CompileError, LaunchError: the kernel does not compile, or the GPU refuses it.
        """
        from cuda.bindings.driver import CUfunction_attribute, cuKernelSetAttribute  # noqa: PLC0415 need a GPU's driver
        from cuda.core import LaunchConfig, ObjectCode, launch  # noqa: PLC0415

        from tilewright.runtime.driver import check  # noqa: PLC0415

        code = self.compile()
        count = self.stage_bytes // ITEM_BYTES[self.dtype]
        elements = engine.upload(drawn(np.random.default_rng(0), self.dtype, 1, count))
        results = engine.empty(blocks, _THREADS)
        with engine.current:
            kernel = ObjectCode.from_cubin(code.code).get_kernel(code.entry)
            attribute = CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(cuKernelSetAttribute(attribute, self.stage_bytes, kernel.handle, engine.device.device_id))
        config = LaunchConfig(grid=blocks, block=_THREADS, shmem_size=self.stage_bytes)

        def start(_: int, stream: Any) -> None:
            launch(stream, config, kernel, elements.pointer, results.pointer)

        return start
