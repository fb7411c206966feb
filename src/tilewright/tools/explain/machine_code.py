"""The machine code of a kernel as the compiler makes it for one GPU, read without a GPU."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant
from tilewright.runtime import machine_code_tools
from tilewright.runtime.executable import CompileReport
from tilewright.tools.explain import sass
from tilewright.tools.explain.control_flow import main_loop
from tilewright.tools.explain.sass import Instruction

if TYPE_CHECKING:
    from tilewright.runtime.nvrtc import Cubin

_REMARK = re.compile(r"(\(C\d+\) .*wgmma.*)")


@dataclass(frozen=True)
class MachineCode:
    """The instructions of a compiled kernel."""

    instructions: tuple[Instruction, ...]
    main_loop: tuple[Instruction, ...]
    """Instructions of the loop that does the work; empty where there is none. See `control_flow.main_loop`."""
    report: CompileReport
    """Registers, spills and static shared memory."""
    remarks: tuple[str, ...] = ()
    """Remarks of the compiler on the products of warpgroups: that it serialised them, or waits for them earlier."""


def machine_code(kernel: Kernel, config: Config, variant: Variant, arch: str) -> MachineCode:
    """Compile a kernel for an architecture such as 'sm_90a', or take it from the cache, and disassemble it.

    Raises:
        CompileError: the compiler refuses the source.
        EngineUnavailableError: NVRTC or nvdisasm is not installed; the message says what to install.
    """
    from tilewright.runtime import nvrtc  # noqa: PLC0415 loading it takes a fifth of a second

    return code_of(nvrtc.compile(kernel, config, variant, arch))


def code_of(cubin: "Cubin") -> MachineCode:
    """Machine code of a compiled kernel.

    Raises:
        EngineUnavailableError: nvdisasm is not installed.
    """
    code = sass.parse(machine_code_tools.disassemble(cubin.code), cubin.entry)
    return MachineCode(tuple(code), main_loop(code), cubin.report, remarks(cubin.log))


def remarks(log: str) -> tuple[str, ...]:
    """Numbered remarks on wgmma in the compiler's output, without its own name."""
    return tuple(dict.fromkeys(_REMARK.findall(log)))
