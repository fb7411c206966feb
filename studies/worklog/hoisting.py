"""Rung 4 with its loops the other way round, so that its source keeps nothing in a register: what the compiler does."""

import tempfile
from dataclasses import replace
from pathlib import Path

from studies.templates import block
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.kernels.kernel import Kernel
from tilewright.tools.bench.records import Facts
from tilewright.tools.explain import instruction_mix
from tilewright.tools.explain.machine_code import MachineCode, machine_code

_RUNG = "thread_tiled_1d"
_SHAPE = "4096x4096x4096"
_ARCH = "sm_90a"
_BEGIN, _END = "#pragma unroll\n        for (int k = 0; k < BK; ++k) {\n", "        __syncthreads();\n    }\n"
"""Around the loop, in the rung's source."""

SWAPPED = """\
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
            for (int j = 0; j < TN; ++j) {
#pragma unroll
                for (int k = 0; k < BK; ++k) sums[i][j] += As[thread_row + i][k] * Bs[k][thread_col + j * COL_STEP];
            }
        }
"""


class Loop(Facts):
    """The main loop of one form of the rung, as compiled."""

    loads: int
    """Of shared memory."""
    ffmas: int
    registers: int
    """Of a thread."""


class Loops(Facts):
    """Both forms."""

    as_written: Loop
    swapped: Loop


def compiled() -> Loops:
    """Compile both.

    Raises:
        EngineUnavailableError: there is no NVRTC or no disassembler.
    """
    kernel = find(_RUNG)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source = Path(folder, kernel.source.name)
        source.write_text(swapped(kernel.source.read_text(encoding="utf-8")), encoding="utf-8")
        return Loops(as_written=_loop(_code(kernel)), swapped=_loop(_code(replace(kernel, source=source))))


def swapped(source: str) -> str:
    """The rung's source with SWAPPED for its loop."""
    before, begin, rest = source.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin and end, f"{_RUNG} has no such loop"
    return before + SWAPPED + end + after


def code() -> str:
    """The loop as a Markdown block."""
    lines = [line if line.startswith("#") else line.removeprefix("        ") for line in SWAPPED.splitlines()]
    return "\n".join(("```cuda", *lines, "```"))


def markdown(loops: Loops) -> str:
    """A table of both."""
    return block("worklog/tables.md.j2", "loops", loops=loops)


def _code(kernel: Kernel) -> MachineCode:
    config = kernel.config()
    return machine_code(kernel, config, kernel.variant(Problem.parse(_SHAPE), config), _ARCH)


def _loop(code: MachineCode) -> Loop:
    counts = instruction_mix.count(code.main_loop)
    return Loop(
        loads=sum(counts["shared loads"].values()),
        ffmas=sum(counts["fp32 multiply-add"].values()),
        registers=code.report.registers or 0,
    )
