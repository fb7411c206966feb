"""An explanation: all that is known of a launch without running it on a GPU, in one object."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.core.errors import EngineUnavailableError
from tilewright.core.gpus import OLDEST, Gpu, limits
from tilewright.core.hardware import SECTOR_BYTES
from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.symbols import SourceLine
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant
from tilewright.runtime.relayouts import as_read
from tilewright.tools.explain import traffic as counting
from tilewright.tools.explain.accuracy import predicted_error
from tilewright.tools.explain.cost.models.block import Demand
from tilewright.tools.explain.cost.occupancy import Held, held
from tilewright.tools.explain.cost.prediction import Cost, predict
from tilewright.tools.explain.demand import Issue, counted, issue
from tilewright.tools.explain.instruction_mix import Widths, shared_widths
from tilewright.tools.explain.machine_code import MachineCode, machine_code
from tilewright.tools.explain.roofline import (
    ARITHMETIC,
    L1,
    L2,
    MEMORY,
    SHARED,
    Bytes,
    Roofline,
    Through,
    least_bytes,
    moved,
    roofline,
)
from tilewright.tools.explain.traffic import Group, Traffic

WAITS = "waits"
"""Name of the bound where multiprocessors have nothing to do for most of a step."""
_WORKING = 0.5
"""Share of a step from which on they do."""


@dataclass(frozen=True)
class MeasuredSpeed:
    """Measured speed of the same product on a GPU."""

    gflops: float
    source: str
    """The record or table that says so."""

    def time_us(self, problem: Problem) -> float:
        """Microseconds of a run."""
        return problem.flops / self.gflops / 1e3


@dataclass(frozen=True)
class Waves:
    """How the blocks of a launch follow one another."""

    blocks: int
    at_a_time: int
    """Blocks that the whole GPU holds; 0 where not even one fits."""

    @property
    def number(self) -> float:
        """Number of waves, the last of which may be part of one."""
        return self.blocks / self.at_a_time if self.at_a_time else 0.0

    @property
    def tail(self) -> float:
        """Share of the GPU's places that the last wave fills, 1 where it is full."""
        if not self.at_a_time or not self.blocks:
            return 0.0
        return (self.blocks % self.at_a_time or self.at_a_time) / self.at_a_time


@dataclass(frozen=True, kw_only=True)
class Launched(Held):
    """Facts about any launch on a GPU."""

    arch: str
    """Architecture that the code was compiled for."""
    waves: Waves
    traffic: Traffic
    bytes: Bytes
    roofline: Roofline
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Explanation(Launched):
    """A kernel with a config, a problem and a GPU, and what follows from them."""

    kernel: Kernel
    config: Config
    problem: Problem
    scalars: Scalars
    variant: Variant
    demand: Demand | None
    """Demand counted for the model, from accesses and machine code; None for kernels that it predicts by their
    tiles."""
    issue: Issue | None
    """None where it is not known: without a disassembler, and in kernels that compute in tensor cores."""
    predicted: Cost | None
    """None where the GPU cannot hold a block."""
    measured: MeasuredSpeed | None

    @property
    def arithmetic(self) -> str:
        """Arithmetic that products are made in."""
        return self.kernel.support.precision or self.problem.dtype

    @property
    def error(self) -> float | None:
        """Predicted relative error on random operands, of kernels that say how they add up products."""
        return predicted_error(self.kernel, self.config, self.problem.k)

    @property
    def on_tensor_cores(self) -> bool:
        """Whether products are made faster than FP32 lanes make them."""
        return self.roofline.peak_tflops > self.gpu.tflops

    @property
    def times_us(self) -> dict[str, float]:
        """Times, in microseconds, that the arithmetic, issue included, and each level of memory take alone, by name."""
        times = self.roofline.times_us
        if self.issue:
            times[ARITHMETIC] = max(times[ARITHMETIC], self.issue.time_us)
        return times

    @property
    def binds(self) -> str:
        """Name of the slowest part: arithmetic, a level of memory, or waits for either."""
        if self.predicted is None or self.predicted.working < _WORKING:
            return WAITS
        return max(self.times_us, key=self.times_us.__getitem__)


def explain(
    kernel: Kernel,
    config: Config,
    problem: Problem,
    gpu: Gpu,
    measured: MeasuredSpeed | None = None,
    scalars: Scalars = Scalars(),
) -> Explanation:
    """Explain a launch.

    Args:
        kernel, config, problem: what is launched; base addresses are taken for aligned.
        gpu: where.
        measured: what the launch took there, if that is known.
        scalars: alpha and beta.

    Raises:
        DtypeError, LaunchError: the kernel does not take the problem.
        ConfigError: the GPU is too old for the kernel, or nothing says which tile of D a block computes.
        CompileError: the compiler refuses the source.
        EngineUnavailableError: NVRTC or a C++ compiler is missing.
    """
    from tilewright.runtime import nvrtc  # noqa: PLC0415 loading it takes a fifth of a second

    notes = []
    kernel.check(problem)
    if unknown_tile := kernel.unknown_tile(config):
        raise unknown_tile
    capability = gpu.capability
    if capability < OLDEST and kernel.support.runs_on(OLDEST, problem.dtype):
        oldest = f"{OLDEST[0]}.{OLDEST[1]}"
        notes.append(
            f"{gpu.name} has compute capability {capability[0]}.{capability[1]}: kernels run on {oldest} and newer. "
            f"Registers are those of code for {oldest}"
        )
        capability = OLDEST
    kernel.check(problem, capability)
    arch = limits(capability).arch
    variant = kernel.variant(as_read(kernel, config, problem), config)
    report = nvrtc.compile(kernel, config, variant, arch).report
    code, widths = disassembled(lambda: machine_code(kernel, config, variant, arch), notes)
    traffic = counting.count(kernel, config, problem, widths, scalars=scalars, multiprocessors=gpu.multiprocessors)
    notes += traffic.notes
    notes += _merged(traffic)
    dynamic = kernel.shared_bytes(config, variant.layout)
    block = held(report, gpu, kernel.threads(config), dynamic, kernel.bundle(config))
    blocks = 0 if problem.is_empty else kernel.grid(problem, config, gpu.multiprocessors)
    moves = moved(least_bytes(problem, scalars), traffic)
    demand = counted(kernel, config, problem, blocks, traffic, code, gpu) if code else None
    predicted = predict(kernel, config, problem, gpu, report, demand)
    through_l2 = Through(predicted.l2_bytes, predicted.l2_us) if predicted else Through(0, 0.0)
    line = roofline(problem.flops, moves, through_l2, gpu, kernel.support.precision or problem.dtype)
    if predicted and kernel.is_user_kernel:  # the model knows less of it than was counted
        predicted = predicted._replace(us=max(predicted.us, *line.times_us.values()))
    return Explanation(
        **vars(block),
        kernel=kernel,
        config=config,
        problem=problem,
        scalars=scalars,
        variant=variant,
        arch=arch,
        waves=Waves(blocks, block.occupancy.blocks * gpu.multiprocessors),
        traffic=traffic,
        bytes=moves,
        roofline=line,
        demand=demand,
        issue=issue(code, traffic.operations, gpu) if code else None,
        predicted=predicted,
        measured=measured,
        notes=tuple(notes),
    )


def disassembled(
    read: Callable[[], MachineCode], notes: list[str]
) -> tuple[MachineCode | None, Mapping[SourceLine | None, Widths] | None]:
    """Machine code, and how wide it accesses shared memory; without a disassembler neither, and a note says so."""
    try:
        code = read()
    except EngineUnavailableError as error:
        notes.append(f"shared accesses are counted as the source makes them, merged or not: {error}")
        return None, None
    return code, shared_widths(code.instructions)


def _merged(traffic: Traffic) -> list[str]:
    """Where the compiler made fewer requests than the source has."""
    notes = []
    for line in sorted(traffic.lines, key=lambda line: line.source or SourceLine("", 0)):
        group = line.group
        if line.pipe in ("shared_load", "shared_store") and group.requests != group.written_requests:
            kind = "loads" if line.pipe == "shared_load" else "stores"
            place = f"{line.source.file}:{line.source.line}" if line.source else "a line that is not known"
            notes.append(
                f"the compiler merges the shared {kind} of {place} to vectors: {group.written_requests:,} requests as "
                f"the source makes them are {group.requests:,}, and {group.written_wavefronts:,} wavefronts "
                f"{group.wavefronts:,}"
            )
    return notes


def verdict(explanation: Explanation) -> str:
    """Verdict on the launch, in a few sentences: its time, and what binds."""
    one = explanation
    if one.predicted is None:
        return f"A {one.gpu.name} cannot hold a single block: {' and '.join(one.occupancy.limited_by)} do not suffice."
    if not one.problem.flops:
        return "There is nothing to multiply."
    gflops = one.problem.gflops(one.predicted.us)
    sentences = [f"It takes {time_words(one.predicted.us)} by the model, {gflops:,.0f} GFLOP/s."]
    binds, times = one.binds, one.times_us
    took = time_words(times[binds]) if binds in times else ""
    compared = f"the arithmetic {time_words(one.roofline.arithmetic_us)}"
    if binds == ARITHMETIC:
        sentences.append(_arithmetic_binds(one))
    elif binds == WAITS:
        sentences.append(
            f"Waits bind: in {100 * (1 - one.predicted.working):.0f}% of a step all warps of a multiprocessor wait "
            "for memory, or for each other."
        )
    elif binds in (SHARED, L1):
        sentences.append(f"{banks_words(binds, one.traffic)} take {took}, {compared}.")
    elif binds == L2:
        reuse = one.roofline.levels[1].bytes / max(one.bytes.least, 1)
        sentences.append(
            f"The L2 cache binds: it serves {reuse:,.0f} times the bytes that must be moved, which takes {took}, "
            f"{compared}."
        )
    else:
        sentences.append(f"DRAM binds: it takes {took} to move the least possible, {compared}.")
    return " ".join([*sentences, *idle_words(one.gpu, one.waves.blocks)])


def banks_words(binds: str, traffic: Traffic) -> str:
    """How a sentence begins that says how long shared memory or the L1 cache takes, where that binds."""
    if binds == L1:
        loads = traffic.groups["global_load"]
        return (
            f"The L1 cache binds: a load of a warp touches {loads.sectors / max(loads.requests, 1):.1f} sectors and "
            f"takes {loads.passes / max(loads.requests, 1):.1f} passes over its banks. All of them"
        )
    conflicts = sum(group.bank_conflicts for group in traffic.groups.values())
    share = conflicts / max(traffic.shared_wavefronts, 1)
    because = f", {100 * share:.0f}% of them bank conflicts," if share >= 0.05 else ""
    return f"Shared memory binds: its wavefronts{because}"


def idle_words(gpu: Gpu, blocks: int) -> list[str]:
    """Sentence on the multiprocessors that a launch of so few blocks leaves without work; none if there are none."""
    idle = gpu.multiprocessors - blocks
    if idle <= 0:
        return []
    leave = "The only block leaves" if blocks == 1 else f"The {blocks} blocks leave"
    return [f"{leave} {idle} of {gpu.multiprocessors} multiprocessors without work, whatever binds."]


def _arithmetic_binds(one: Explanation) -> str:
    line = one.roofline
    if one.on_tensor_cores:
        nearest = max(line.levels, key=lambda level: level.time_us)
        return (
            f"Tensor cores bind: they take {time_words(line.arithmetic_us)} at their peak. Of the levels of memory "
            f"{'DRAM' if nearest.name == MEMORY else nearest.name} takes longest, {time_words(nearest.time_us)}."
        )
    sentence = f"Arithmetic binds: it takes {time_words(line.arithmetic_us)} at full speed"
    if one.issue is None:
        return f"{sentence}, longer than any level of memory."
    share, time = one.issue.multiply_share, time_words(one.issue.time_us)
    return (
        f"{sentence}, and {time} as it is issued: {100 * share:.0f}% of the main loop's instructions are "
        "multiply-adds. All levels of memory take less."
    )


def time_words(microseconds: float) -> str:
    """A time as sentences have it."""
    return f"{microseconds / 1e3:.2f} ms" if microseconds >= 1e3 else f"{microseconds:.3g} us"


def to_json(explanation: Explanation) -> dict[str, Any]:
    """All of it, as JSON takes it. Counts are summed over the launch, times are microseconds, sizes bytes.

    As in Nsight Compute, what asynchronous copies read is among the global loads; `async_copy` has it separately,
    together with what they write.
    """
    one = explanation
    problem, line = one.problem, one.roofline
    groups = {name: group_json(name, group) for name, group in one.traffic.profiled.items()}
    predicted, measured = one.predicted, one.measured
    return {
        "kernel": one.kernel.name,
        "rung": one.kernel.rung,
        "config": dict(one.config),
        **named(problem, "shape m n k"),
        **named(one.scalars, "alpha beta"),
        **named(problem, "dtype layout"),
        "gpu": one.gpu.name,
        "arch": one.arch,
        **named(one.variant, "edges aligned"),
        **groups,
        "predicted_error": one.error,
        **operations_json(one.traffic),
        "flops": problem.flops,
        "bytes": {
            **named(one.bytes, "least least_read least_written requested"),
            "requested_over_least": one.bytes.requested / one.bytes.least if one.bytes.least else None,
            "tensor_maps": one.traffic.tile_bytes,
            **named(one.bytes, "l1 shared"),
        },
        **block_json(one),
        "waves": named(one.waves, "blocks at_a_time number tail"),
        "roofline": {
            **named(line, "peak_tflops arithmetic_us memory_us time_us binds slowest ridge_flops_per_byte"),
            "levels": {level.name: named(level, "bytes time_us flops_per_byte") for level in line.levels},
        },
        "issue": asdict(one.issue) if one.issue else None,
        "predicted": predicted and {**predicted._asdict(), "gflops": problem.gflops(predicted.us)},
        "measured": measured and {"us": measured.time_us(problem), **named(measured, "gflops source")},
        **lines_json(one.traffic),
        "exact": one.traffic.exact,
        "binds": one.binds,
        "verdict": verdict(one),
        "notes": list(one.notes),
    }


def named(one: object, names: str) -> dict[str, Any]:
    """Attributes of an object with these names."""
    return {name: getattr(one, name) for name in names.split()}


def block_json(one: Held) -> dict[str, Any]:
    """Needs of a block, and how many blocks a multiprocessor holds."""
    held = one.occupancy
    return {
        **named(one.report, "registers spill_bytes"),
        "shared_memory": one.shared_bytes,
        "threads": one.threads,
        "occupancy": {**named(held, "blocks warps most_warps fraction limits"), "limited_by": list(held.limited_by)},
    }


def operations_json(traffic: Traffic) -> dict[str, Any]:
    """Operations that threads compute; None where they are not counted."""
    names = "ffma fmul fadd"
    return named(traffic.operations, names) if traffic.operations else dict.fromkeys(names.split())


def lines_json(traffic: Traffic) -> dict[str, Any]:
    """The counts of each line of the source, and of how many blocks they are."""
    lines = [
        {
            "file": line.source.file if line.source else None,
            "line": line.source.line if line.source else None,
            "kind": line.pipe,
            **group_json(line.pipe, line.group),
        }
        for line in traffic.lines
    ]
    return {"lines": lines, "blocks_run": traffic.blocks_run, "extrapolated": traffic.extrapolated}


def group_json(pipe: str, group: Group) -> dict[str, Any]:
    """The counts that a kind of accesses has."""
    counts: dict[str, Any] = {"requests": group.requests}
    if pipe == "async_copy":
        counts["reading_requests"] = group.reading
    if pipe not in ("shared_load", "shared_store", "shared_atomic", "product"):
        counts["sectors"] = group.sectors
        counts["sectors_per_request"] = group.sectors / group.requests if group.requests else None
        counts["bytes_moved"] = group.sectors * SECTOR_BYTES
    if pipe not in ("global_load", "global_store", "global_atomic"):
        counts["wavefronts"] = group.wavefronts
        counts["bank_conflicts"] = group.bank_conflicts
        counts["as_written"] = {"requests": group.written_requests, "wavefronts": group.written_wavefronts}
    return counts | {"accesses": group.accesses, "bytes": group.bytes}
