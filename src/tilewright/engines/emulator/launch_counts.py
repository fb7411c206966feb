"""Counts what launches of kernels that are no matrix products do to memory, and how much they compute."""

from collections.abc import Sequence

from tilewright.engines.emulator.compiler import TRACED
from tilewright.engines.emulator.counting import (
    COUNTED,
    IN_TURN,
    MemoryCounts,
    Operations,
    access_counter,
    memory_counts,
    operation_counts,
)
from tilewright.engines.emulator.launches import Placed, compile_launch, draw
from tilewright.engines.emulator.program import WaitsForBlocksError, Watch
from tilewright.kernels.launches import Launch

_VOLATILE = b"__tsan_volatile_"
"""How names begin that a library has whose kernel makes volatile accesses."""


class LaunchCounter:
    """Counts of a launch, on inputs as the check draws them."""

    def __init__(self, launch: Launch) -> None:
        """Draw the inputs."""
        self._launch, self._inputs = launch, draw(launch)
        self.together = False
        """Whether all blocks have to run together: one waits for others that come after it."""

    def memory(self, blocks: Sequence[int] | None = None) -> MemoryCounts:
        """What its blocks of these numbers, or all, do to memory. All run together where they wait for each other.

        Raises:
            CompileError: the compiler refuses the source.
            EngineUnavailableError: there is no C++ compiler.
            LaunchError: a GPU would refuse the launch, or the kernel failed.
            WaitsForBlocksError: a block waits for others, which are not among these, or are too many to run together.
        """
        program, counter = compile_launch(self._launch, TRACED), access_counter()
        try:
            Placed(self._launch, self._inputs).run(program, Watch(counter, blocks, together=self.together))
        except WaitsForBlocksError:
            if blocks is not None or self.together:
                raise
            self.together = True
            return self.memory()
        return memory_counts(counter.report(), program.library)

    def waits_in_turn(self, blocks: Sequence[int] | None = None) -> bool:
        """Whether these blocks wait for others in the order in which operations are counted, where nothing would end
        that.

        Raises:
            CompileError, EngineUnavailableError, LaunchError: as `memory`.
        """
        program = compile_launch(self._launch, TRACED)
        if not program.has_turns and _VOLATILE not in program.library.read_bytes():
            return False
        try:
            Placed(self._launch, self._inputs).run(program, Watch(access_counter(), blocks, IN_TURN))
        except WaitsForBlocksError:
            return True
        return False

    def operations(self, blocks: Sequence[int] | None = None) -> Operations:
        """What they compute in float32.

        Raises:
            CompileError: the source does not compile with floats that count.
            EngineUnavailableError, LaunchError: as `memory`.
        """
        program = compile_launch(self._launch, COUNTED)
        read = operation_counts(program.library)
        before = read()
        Placed(self._launch, self._inputs).run(program, Watch(blocks=blocks, schedule=IN_TURN))
        return Operations(*(after - earlier for after, earlier in zip(read(), before, strict=True)))


def synchronises(launch: Launch) -> bool:
    """Whether the kernel synchronises its grid."""
    return compile_launch(launch, TRACED).cooperative
