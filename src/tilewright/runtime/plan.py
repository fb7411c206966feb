"""Plan: everything that is decided of a product before its pointers are known."""

from collections.abc import Hashable
from typing import Any, NamedTuple

from tilewright.core.problem import Problem
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.executable import Executable

_BOUNDARY = 256
"""Bytes: what memory of a call begins with lies on a multiple of it."""


class Slot(NamedTuple):
    """Part of a step's parameters that is only known when a call comes."""

    offset: int
    """Byte of the parameters at which it lies."""
    kind: str
    """'pointer': 8 bytes of address. 'map': a tensor map of 128 bytes, of which the template says all but the address:
    on a GPU as `cuda_launch.describe` does, for the driver to make it of. 'scalar': a float."""
    source: str
    """A, B, C, D, bias, offsets, scale_a, scale_b, workspace, counters, relayout or cached, whose address it is; or
    alpha or beta."""
    shift: int = 0
    """Bytes that are added to the address."""


OVERLAPS, COOPERATIVE = 6, 2
"""The driver's numbers of attributes of a launch (CUlaunchAttributeID)."""


class Step(NamedTuple):
    """One launch of a plan."""

    function: Any
    """Function that the engine launches: on a GPU the address of a CUfunction."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    attribute: int
    """0; OVERLAPS: it may begin while the launch before it on the stream ends; COOPERATIVE: all blocks run at once."""
    arguments: bytes
    """The kernel's parameters, as a template."""
    offsets: tuple[int, ...]
    """Byte of each parameter in it. The driver's own layout differs: it begins at an address that is not aligned."""
    slots: tuple[Slot, ...]


class CachedOperand(NamedTuple):
    """A copy of A or B that outlives the calls that read it: of an operand that comes again and again."""

    copy: Hashable
    """Identity of the copy, and of how it is made: equal for all plans that one copy of an operand serves."""
    step: Step
    """Step that makes the copy, from memory that is 0, and from the operand at its address."""
    bytes: int


class Needs(NamedTuple):
    """Memory that a plan's launches need besides the operands, in bytes; and counters that are 0 before and after."""

    workspace_bytes: int = 0
    counters: int = 0
    relayout_bytes: int = 0

    @property
    def relayout_begin(self) -> int:
        """Where the copies begin in memory of one call alone, behind the workspace."""
        return -(-self.workspace_bytes // _BOUNDARY) * _BOUNDARY  # without a call, for each launch asks it

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory."""
        return self.relayout_begin + self.relayout_bytes


class Plan(NamedTuple):
    """Launches of an engine for a problem, in order: all but the pointers and scalars filled in.

    It is right for operands that lie as the problem says and at addresses that, divided by 16, leave what those that
    it was made for left.
    """

    problem: Problem
    kernel: Kernel
    config: Config
    executable: Executable | None
    """The compiled kernel; None where D has no elements, so that nothing is launched."""
    steps: tuple[Step, ...]
    needs: Needs
    relaid: tuple[str, ...] = ()
    """Operands, A or B, that are copied into another layout, or split."""
    cached: CachedOperand | None = None
    """The copy of an operand that is cached, where one may be and the kernel wants one."""


class Pointers(NamedTuple):
    """Addresses of a call's operands; 0 where there is none."""

    a: int
    b: int
    d: int
    c: int = 0
    bias: int = 0
    cached: int = 0
    """Address of the copy that the plan wants cached (`Plan.cached`)."""
    scale_a: int = 0
    scale_b: int = 0
    """Addresses of the scales of the problem's A and B, where it has some."""
    scratch: int = 0
    """Address of `Needs.scratch_bytes` bytes that only this call uses until its launches have ended; 0: the
    engine's."""
    offsets: int = 0
    """Address of grouped products' int32 numbers, one for each matrix of B: the row of A and D behind the last one of
    its group, which begins where the one before it ends, and the first at row 0. They do not decrease; rows from the
    last of them on belong to no group, and are not written."""


SLOTS = ("A", "B", "D", "C", "bias", "cached", "scale_a", "scale_b", "scratch", "offsets")
"""Names that steps have for these addresses, in this order."""


class Memory(NamedTuple):
    """Memory that a launch may use besides the operands: addresses, each with its size. 0 where there is none."""

    workspace: int = 0
    workspace_bytes: int = 0
    counters: int = 0
    counter_count: int = 0
    relayout: int = 0
    relayout_bytes: int = 0
