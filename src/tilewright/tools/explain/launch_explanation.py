"""An explanation of any kernel's launch: what it asks of memory, occupancy, the least times of what is counted."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.core.errors import CompileError, LaunchError
from tilewright.core.gpus import OLDEST, Gpu, limits
from tilewright.core.hardware import SECTOR_BYTES
from tilewright.emulator.counting import LaunchCounter, synchronises
from tilewright.emulator.program import TOGETHER_LIMIT, WaitsForBlocksError
from tilewright.emulator.symbols import SourceLine
from tilewright.kernels.source.source_launch import SourceLaunch
from tilewright.tools.explain import explanation
from tilewright.tools.explain.block_counts import OPERATIONS, counts_of
from tilewright.tools.explain.cost.occupancy import held
from tilewright.tools.explain.cost.prediction import LAUNCH_US
from tilewright.tools.explain.explanation import Launched, Waves, named, time_words
from tilewright.tools.explain.instruction_mix import Widths
from tilewright.tools.explain.machine_code import MachineCode, code_of
from tilewright.tools.explain.roofline import ARITHMETIC, L1, MEMORY, SHARED, Through, moved, roofline
from tilewright.tools.explain.traffic import OF_FRAGMENTS, Traffic, traffic_of

LAUNCH = "launch"

_WHOLE_THREADS = 2**18
"""Launches of up to this many threads are run whole."""
_SAMPLED_THREADS = 2**16
"""Threads of the blocks that are run of a larger launch, about."""
_LEAST_SAMPLED = 12
"""Blocks."""
_MOST_ACCESSES = 2**23
"""Accesses of all blocks that are run, at most, where that leaves some: they take a second or two."""
_LEAST_HEAVY = 4
"""Blocks, where those of a launch make more."""


@dataclass(frozen=True, kw_only=True)
class LaunchExplanation(Launched):
    """A launch and a GPU, and what follows from them.

    The least bytes are those of the buffers, once each, as far as requests touch them.
    """

    launch: SourceLaunch
    code: MachineCode | None
    """None without a disassembler."""

    @property
    def flops(self) -> int | None:
        """Operations of threads in float32, a multiply-add being two; None where they are not counted."""
        return _flops(self.traffic)

    @property
    def binds(self) -> str:
        """Name of the slowest part: arithmetic or a level of memory; or `LAUNCH`, where none takes as long."""
        slowest = self.roofline.slowest
        return slowest if self.roofline.times_us[slowest] >= LAUNCH_US else LAUNCH


def explain_launch(launch: SourceLaunch, gpu: Gpu) -> LaunchExplanation:
    """Explain a launch on a GPU, from the accesses and operations that the kernel makes on the emulator.

    Launches of up to 262,144 threads and about 8 million accesses are run whole; of larger ones blocks in equal
    distances.

    Args:
        launch: what is launched; its inputs are random.
        gpu: where.

    Raises:
        CompileError: a compiler refuses the source.
        EngineUnavailableError: NVRTC or a C++ compiler is missing.
        LaunchError: a GPU would refuse the launch, or the kernel failed.
    """
    from tilewright.runtime import nvrtc  # noqa: PLC0415 loading it takes a fifth of a second

    arch = limits(max(gpu.capability, OLDEST)).arch
    cubin = nvrtc.compile_user_source(launch.file, launch.entry, launch.defines, arch)
    notes: list[str] = []
    code, widths = explanation.disassembled(lambda: code_of(cubin), notes)
    traffic = _count(launch, widths)
    block = held(cubin.report, gpu, launch.threads, launch.shared_bytes)
    waves = Waves(launch.blocks, block.occupancy.blocks * gpu.multiprocessors)
    if launch.blocks > waves.at_a_time and synchronises(launch):
        notes.append(
            f"a {gpu.name} refuses the launch: the grid synchronises, so all of its {launch.blocks:,} blocks must fit "
            f"at once, and {waves.at_a_time:,} do"
        )
    if launch.blocks < gpu.multiprocessors:
        notes.append(
            "times of arithmetic, the L1 cache and shared memory are those of the multiprocessors that have a block"
        )
    least = _least(launch, traffic)
    moves = moved(least, traffic)
    return LaunchExplanation(
        **vars(block),
        launch=launch,
        arch=arch,
        waves=waves,
        traffic=traffic,
        bytes=moves,
        roofline=roofline(_flops(traffic) or 0, moves, _through_l2(least[0], traffic, gpu), gpu, blocks=launch.blocks),
        code=code,
        notes=(*notes, *traffic.notes),
    )


def _count(launch: SourceLaunch, widths: Mapping[SourceLine | None, Widths] | None) -> Traffic:
    counter, notes, blocks = LaunchCounter(launch), [], None
    try:
        blocks = _sample(launch, counter)
        memory = counter.memory(blocks)
    except WaitsForBlocksError:
        raise LaunchError(
            f"{launch.name}: its blocks wait for each other, so a sample of the {launch.blocks:,} cannot run without "
            f"the others. Explain a smaller launch, which runs whole: one of up to {TOGETHER_LIMIT:,} threads, by "
            "--args or --grid"
        ) from None
    counts = counts_of(memory, widths)
    computes = not (counter.together or counter.waits_in_turn(blocks))
    if not computes:
        notes.append("operations are not counted: blocks wait for each other")
    try:
        operations = counter.operations(blocks)._asdict() if computes else {}
        counts.update({(None, OPERATIONS, name): value for name, value in operations.items()})
    except CompileError as error:
        computes = False
        notes.append(f"operations are not counted: floats that count do not compile here: {_first_fault(error)}")
    run = launch.blocks if blocks is None else len(blocks)
    if blocks is not None:
        counts.update({key: value * launch.blocks // run - value for key, value in counts.items()})
        notes.append(f"estimated from {run:,} of {launch.blocks:,} blocks")
    if memory.fragments:
        notes.append(OF_FRAGMENTS)
    return traffic_of(counts, computes, run, blocks is not None, blocks is None, notes)


def _flops(traffic: Traffic) -> int | None:
    counted = traffic.operations
    return 2 * counted.ffma + counted.fmul + counted.fadd if counted else None


def _first_fault(error: CompileError) -> str:
    """The first line of a compiler's message that names an error."""
    lines = str(error).splitlines()
    return next((line for line in lines if "error:" in line), lines[0])


def _sample(launch: SourceLaunch, counter: LaunchCounter) -> Sequence[int] | None:
    """Numbers of the blocks to run; None for all. The first block shows how many accesses one makes, where it does not
    wait for others."""
    count = launch.blocks
    if launch.blocks * launch.threads > _WHOLE_THREADS:
        count = min(max(_SAMPLED_THREADS // launch.threads, _LEAST_SAMPLED), count)
    if count > _LEAST_HEAVY:
        try:
            accesses = sum(site.accesses for site in counter.memory([0]).sites)
        except WaitsForBlocksError:
            if count == launch.blocks:
                return None
            raise
        count = min(max(_MOST_ACCESSES // max(accesses, 1), _LEAST_HEAVY), count)
    return None if count == launch.blocks else sorted({index * launch.blocks // count for index in range(count)})


def _least(launch: SourceLaunch, traffic: Traffic) -> tuple[int, int]:
    """Bytes of the buffers that are read, and of those that are written, at most what requests and maps touch."""
    groups = traffic.groups
    loads = groups["global_load"].sectors + groups["async_copy"].sectors
    stores, both = groups["global_store"].sectors, groups["global_atomic"].sectors
    read = sum(buffer.bytes for buffer in launch.contents.buffers if buffer.role != "out")
    written = sum(buffer.bytes for buffer in launch.contents.buffers if buffer.role != "in")
    touched = SECTOR_BYTES * (loads + both), SECTOR_BYTES * (stores + both)
    return min(read, touched[0] + traffic.tile_bytes), min(written, touched[1] + traffic.tile_bytes)


def _through_l2(least_read: int, traffic: Traffic, gpu: Gpu) -> Through:
    """Traffic that the L2 cache must serve at least: data read once, and all stores and atomics, which no L1 cache
    keeps."""
    groups = traffic.groups
    written = SECTOR_BYTES * (groups["global_store"].sectors + groups["global_atomic"].sectors)
    size = least_read + written + traffic.tile_bytes
    return Through(size, size / (gpu.l2_bytes_per_clock * gpu.clock_mhz))


def launch_verdict(one: LaunchExplanation) -> str:
    """Verdict on the launch, in a sentence or two: what binds."""
    line, sentences = one.roofline, []
    if not one.occupancy.blocks:
        return f"A {one.gpu.name} cannot hold a single block: {' and '.join(one.occupancy.limited_by)} do not suffice."
    dram, l2, *_ = (time_words(level.time_us) for level in line.levels)
    if one.binds == LAUNCH:
        longest = time_words(line.times_us[line.slowest])
        sentences.append(
            f"The launch itself binds: it takes {LAUNCH_US} us, of all else {line.slowest} longest, {longest}."
        )
    elif one.binds == ARITHMETIC:
        sentences.append(f"Arithmetic binds: it takes {time_words(line.arithmetic_us)} at full speed.")
    elif one.binds in (SHARED, L1):
        took = time_words(line.times_us[one.binds])
        sentences.append(f"{explanation.banks_words(one.binds, one.traffic)} take {took}; DRAM takes {dram} at least.")
    elif one.binds == MEMORY:
        sentences.append(f"DRAM binds: it takes {dram} to move each buffer once.")
    else:
        served = line.levels[1].bytes / max(one.bytes.least, 1)
        sentences.append(
            f"The L2 cache binds: it serves at least {served:,.1f} times the bytes of the buffers, which takes {l2}; "
            f"DRAM takes {dram} at least."
        )
    for kind, of in (("global_load", "load"), ("global_store", "store")):
        group = one.traffic.profiled[kind]
        if one.binds != ARITHMETIC and group.requests:
            sentences.append(f"A {of} of a warp touches {group.sectors / group.requests:.1f} sectors.")
    return " ".join([*sentences, *explanation.idle_words(one.gpu, one.launch.blocks)])


def launch_json(one: LaunchExplanation) -> dict[str, Any]:
    """Facts about the launch on the GPU, as JSON has them. Times are microseconds, sizes bytes."""
    line = one.roofline
    return {
        "gpu": one.gpu.name,
        "arch": one.arch,
        **{name: explanation.group_json(name, group) for name, group in one.traffic.profiled.items()},
        **explanation.operations_json(one.traffic),
        "flops": one.flops,
        "bytes": named(one.bytes, "least_read least_written requested l1 shared"),
        **explanation.block_json(one),
        "waves": named(one.waves, "number at_a_time tail"),
        "roofline": {
            **named(line, "peak_tflops arithmetic_us"),
            "levels": [asdict(level) for level in line.levels],
        },
        **explanation.lines_json(one.traffic),
        "binds": one.binds,
        "verdict": launch_verdict(one),
        "notes": list(one.notes),
    }
