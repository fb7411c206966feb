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
from tilewright.engines.emulator.program import Watch
from tilewright.kernels.launches import Launch


class LaunchCounter:
    """Counts of a launch, on inputs as the check draws them."""

    def __init__(self, launch: Launch) -> None:
        """Draw the inputs."""
        self._launch, self._inputs = launch, draw(launch)

    def memory(self, blocks: Sequence[int] | None = None) -> MemoryCounts:
        """What its blocks of these numbers, or all, do to memory.

        Raises:
            CompileError: the compiler refuses the source.
            EngineUnavailableError: there is no C++ compiler.
            LaunchError: a GPU would refuse the launch, or the kernel failed.
        """
        program, counter = compile_launch(self._launch, TRACED), access_counter()
        Placed(self._launch, self._inputs).run(program, Watch(counter, blocks))
        return memory_counts(counter.report(), program.library)

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
