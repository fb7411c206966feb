"""Nsight Compute: NVIDIA's profiler, run on launches of the ladder's kernels, and its counters next to explained ones.

One process launches all kernels in a known order, since starting the profiler takes longer than most of them. cuBLAS,
whose kernels have names that nobody knows beforehand, has a process for each problem.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.api.engines import cuda_unavailable
from tilewright.core.errors import EngineUnavailableError
from tilewright.core.problem import Arithmetic, Problem, Scalars, orders
from tilewright.kernels import find
from tilewright.kernels.kernel import Kernel
from tilewright.tools.bench.records import Facts

_INSTALLED = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")


BY_INSTRUCTION = ", by instruction"
"""Ends the names of counters of shared memory without what requests wait for other traffic in the same pipe. Such waits
differ from run to run; the profiler counts them among wavefronts and among bank conflicts."""


class Metric(NamedTuple):
    """A counter under both its names."""

    name: str
    ncu: tuple[str, ...]
    """The profiler's; several are added."""
    path: tuple[str, ...]
    """Where `explanation.to_json` has it."""


_COUNTERS = {
    "global": {
        "requests": "l1tex__t_requests_pipe_lsu_mem_global_op",
        "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op",
    },
    "shared": {
        "requests": "smsp__inst_executed_op_shared",
        "wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op",
        "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op",
    },
}
"""The profiler's names of counters of memory, without the operation."""
_OPERATIONS = {"load": "ld", "store": "st"}

METRICS: tuple[Metric, ...] = (
    *(
        Metric(f"{kind} {verb} {name.replace('_', ' ')}", (f"{metric}_{operation}.sum",), (f"{kind}_{verb}", name))
        for kind, counters in _COUNTERS.items()
        for verb, operation in _OPERATIONS.items()
        for name, metric in counters.items()
    ),
    *(
        Metric(
            f"shared {verb} wavefronts{BY_INSTRUCTION}",
            (f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{operation}.sum",),
            (f"shared_{verb}", "wavefronts"),
        )
        for verb, operation in _OPERATIONS.items()
    ),
    *(
        Metric(f"{name} of threads", (f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum",), (name,))
        for name in ("ffma", "fmul", "fadd")
    ),
    Metric("asynchronous copies", ("smsp__inst_executed_op_ldgsts.sum",), ("async_copy", "requests")),
    Metric(
        "asynchronous copies, sectors",
        (
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
        ),
        ("async_copy", "sectors"),
    ),
)


_REASONS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected",
    "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip
STALLS = {reason: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in _REASONS}
"""The profiler's counters of why warps do not issue, by reason: warps that wait so, for each instruction issued."""

SEEN = (
    "gpu__time_duration.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "sm__cycles_elapsed.max",
    "lts__t_requests_srcunit_tex.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_read_lookup_hit.sum",
    "lts__t_sectors_op_write.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "smsp__issue_active.sum",
    "smsp__cycles_active.sum",
    "sm__cycles_active.sum",
    "smsp__inst_executed.sum",
    "sm__pipe_tensor_cycles_active.sum",
    "sm__pipe_tensor_op_hmma_cycles_active.sum",
    "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "sm__inst_executed_pipe_tensor_op_gmma.sum",
    *STALLS.values(),
)
"""Counters that only the profiler has: of time, caches, memory and the schedulers."""

CUBLAS, CUBLAS_TF32 = "cuBLAS", "cuBLAS TF32"
"""Stand for the library among the kernels of launches: what its default launches, of factors as they are or rounded to
TF32."""


def problem_of(shape: str, layout: str, dtype: str, out_dtype: str) -> Problem:
    """The problem of these sizes, orders and types, without gaps between rows (or columns)."""
    a, b = orders(layout)
    return Problem.parse(shape, arithmetic=Arithmetic(dtype, out_dtype), a=a, b=b)


class ProfiledLaunch(Facts):
    """A launch, as the profiled process is given it."""

    kernel: str
    """`CUBLAS` or `CUBLAS_TF32` for the library."""
    config: dict[str, int]
    shape: str
    dtype: str
    alpha: float = 1.0
    beta: float = 0.0
    out_dtype: str = "float32"
    layout: str = "NN"

    @classmethod
    def of(
        cls, kernel: Kernel | str, config: Mapping[str, int], problem: Problem, scalars: Scalars = Scalars()
    ) -> "ProfiledLaunch":
        """The launch of a problem without gaps between rows (or columns, by the orders), by a kernel or `CUBLAS`."""
        types: dict[str, Any] = {"dtype": problem.dtype, "out_dtype": problem.result, "layout": problem.layout}
        name = kernel if isinstance(kernel, str) else kernel.name
        return cls(kernel=name, config=dict(config), shape=problem.shape, **scalars.named, **types)

    @property
    def problem(self) -> Problem:
        """Problem that the launch computes."""
        return problem_of(self.shape, self.layout, self.dtype, self.out_dtype)


class Profiled(NamedTuple):
    """A kernel that was launched under the profiler."""

    kernel: str
    """Its name, without parameters."""
    counters: dict[str, float]
    """By the profiler's names."""


class CounterRow(NamedTuple):
    """A counter, explained and profiled; None where one of them does not have it."""

    name: str
    ours: int | None
    theirs: int | None


def find_ncu() -> str:
    """The profiler's program.

    Raises:
        EngineUnavailableError: it is not installed.
    """
    for candidate in (shutil.which("ncu"), *_INSTALLED):
        if candidate and Path(candidate).is_file():
            return candidate
    raise EngineUnavailableError(
        "Nsight Compute (ncu) is not installed: it comes with the CUDA toolkit, or as a package of its own from "
        "developer.nvidia.com/nsight-compute"
    )


def check_available() -> None:
    """Raise EngineUnavailableError where there is no GPU to profile on, or no profiler."""
    reason = cuda_unavailable()
    if reason:
        raise EngineUnavailableError(f"Nsight Compute needs a GPU to profile on: {reason}")
    find_ncu()


def profile(launches: Sequence[ProfiledLaunch]) -> list[dict[str, float]]:
    """Run launches of our kernels under the profiler; for each, its counters by the profiler's names.

    Raises:
        EngineUnavailableError: there is no GPU or profiler, or the profiler may not or cannot count.
    """
    names = sorted({find(launch.kernel).source.stem for launch in launches})
    counted, words = _profiled(launches, [f"--kernel-name=regex:^({'|'.join(names)})$"])
    if len(counted) != len(launches):
        raise EngineUnavailableError(_reason(words, len(counted), len(launches)))
    return [one.counters for one in counted]


def profile_cublas(problem: Problem, library: str = CUBLAS) -> list[Profiled]:
    """The kernels that cuBLAS's default launches on a problem, in their order, with their counters.

    Args:
        problem: what is computed.
        library: `CUBLAS` or `CUBLAS_TF32`.

    Raises:
        EngineUnavailableError: as of `profile`, or cuBLAS is not there.
    """
    counted, words = _profiled([ProfiledLaunch.of(library, {}, problem)], ["--profile-from-start=off"])
    if not counted:
        raise EngineUnavailableError(_reason(words, 0, 1))
    return counted


def _profiled(launches: Sequence[ProfiledLaunch], options: Sequence[str]) -> tuple[list[Profiled], str]:
    """Counters of each launch, and the profiler's output. Counters that the profiler does not know are left out."""
    check_available()
    metrics = list(dict.fromkeys([*(name for metric in METRICS for name in metric.ncu), *SEEN]))
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        order, log = Path(folder, "launches.json"), Path(folder, "ncu.csv")
        order.write_text(json.dumps([launch.model_dump() for launch in launches]))
        command = [find_ncu(), "--clock-control=none", "--csv", "--print-units=base", f"--log-file={log}", *options]
        target = [sys.executable, "-m", "tilewright.tools.bench.ncu_target", str(order)]
        while True:
            words = _run([*command, f"--metrics={','.join(metrics)}", *target], log)
            lines = "\n".join(line for line in words.splitlines() if "Failed to find metric" in line)
            unknown = {name for name in metrics if re.search(rf"\b{name.partition('.')[0]}\b", lines)}
            if not unknown:
                return read(words), words
            metrics = [name for name in metrics if name not in unknown]


def compare(facts: Mapping[str, Any], counted: Mapping[str, float]) -> list[CounterRow]:
    """Every counter, explained (`explanation.to_json`) and profiled."""
    rows = []
    for metric in METRICS:
        ours: Any = facts
        for key in metric.path:
            ours = ours[key]
        found = [counted[name] for name in metric.ncu if name in counted]
        rows.append(CounterRow(metric.name, ours, round(sum(found)) if len(found) == len(metric.ncu) else None))
    return rows + _conflicts_by_instruction(rows)


def _conflicts_by_instruction(rows: Sequence[CounterRow]) -> list[CounterRow]:
    """Bank conflicts less the waits, which are what the two counts of wavefronts differ by."""
    named = {row.name: row for row in rows}
    found = []
    for kind in ("shared load", "shared store"):
        conflicts = named[f"{kind} bank conflicts"]
        counts = (conflicts, named[f"{kind} wavefronts"], named[f"{kind} wavefronts{BY_INSTRUCTION}"])
        theirs, wavefronts, by_instruction = (row.theirs for row in counts)
        if theirs is not None and wavefronts is not None and by_instruction is not None:
            less = theirs - (wavefronts - by_instruction)
            found.append(CounterRow(f"{conflicts.name}{BY_INSTRUCTION}", conflicts.ours, less))
    return found


def read(text: str) -> list[Profiled]:
    """The profiled kernels, in the order of their launches, from what `ncu --csv` prints."""
    table = "\n".join(line for line in text.splitlines() if line.startswith('"'))
    counted: dict[int, Profiled] = {}
    for row in csv.DictReader(table.splitlines()):
        one = counted.setdefault(int(row["ID"]), Profiled(row["Kernel Name"].partition("(")[0], {}))
        value = row["Metric Value"].replace(",", "")
        if re.fullmatch(r"\d+(\.\d*)?", value):
            one.counters[row["Metric Name"]] = float(value)
    return [counted[number] for number in sorted(counted)]


def _run(command: Sequence[str], log: Path) -> str:
    """Run the profiler; returns its output."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise EngineUnavailableError(f"{command[0]} cannot be run: {error.strerror}") from error
    printed = log.read_text(errors="replace") if log.exists() else ""
    return f"{printed}\n{done.stdout}\n{done.stderr}"


def _reason(words: str, counted: int, launched: int) -> str:
    if "ERR_NVGPUCTRPERM" in words:
        return (
            "Nsight Compute may not read this GPU's counters: its administrator can permit it to all users, see "
            "developer.nvidia.com/ERR_NVGPUCTRPERM"
        )
    errors = [line for line in words.splitlines() if "ERROR" in line or "Error" in line]
    last = "; ".join(errors[-3:]) or words.strip()[-300:]
    return f"Nsight Compute counted {counted} of {launched} launches: {last}"
