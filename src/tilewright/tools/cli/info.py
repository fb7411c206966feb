"""The command line: `tilewright info`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright import version
from tilewright.api.engines import cuda_unavailable, resolve_engine
from tilewright.core.errors import EngineUnavailableError, PathError
from tilewright.core.files import check_outputs
from tilewright.core.gpus import capability_of, find_gpu, limits
from tilewright.runtime import cache
from tilewright.runtime.base import Engine
from tilewright.tools.bench.environment import environment
from tilewright.tools.cli import options
from tilewright.tools.cli.streams import out
from tilewright.tools.cli.terminal import json_output, results, write_json
from tilewright.tools.machine import probes
from tilewright.tools.machine.record import Machine
from tilewright.tools.report.tables import info_table, machine_table


def run_info(
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Measure the GPU: latency and bandwidth of its arithmetic and memories."),
    ] = False,
    json_path: Annotated[Path | None, options.json_of("what --measure measured here; - prints it")] = None,
) -> None:
    """Show what this machine offers: GPU or none, compilers, libraries, cache folder. Or measure its GPU."""
    if measure:
        check_outputs([json_output(json_path, Machine.kind())])
        found = probes.measure(resolve_engine("cuda"))
        results(json_path).print(machine_table(found))
        write_json(json_path, found.model_dump(), "the measurements")
    elif json_path is None:
        _show()
    else:
        raise PathError(f"--json={json_path} is where --measure writes: give --measure too")


def _show() -> None:
    engine: Engine | None = None
    try:
        engine = resolve_engine("auto")
        runs_on = f"{engine.name} ({engine.device_name})"
    except EngineUnavailableError as error:
        runs_on = f"none: {error}"
    facts = environment(engine)
    gpu = facts.get("gpu")
    libraries = facts["libraries"]
    out.print(
        info_table(
            {
                "tilewright": version.__version__,
                "engine": runs_on,
                "GPU": gpu["name"] if gpu else f"none: {cuda_unavailable()}",
                **{f"  {name}": str(value) for name, value in (gpu or {}).items() if name != "name"},
                **(_held(gpu) if gpu else {}),
                "CPU": f"{facts['cpu'].get('name', 'unknown')}, {facts['cpu'].get('cores', '?')} cores",
                "C++ compiler": facts.get("compiler", "none: the emulator needs one (apt install g++)"),
                "Python": facts["python"],
                "libraries": ", ".join(f"{name} {number}" for name, number in libraries.items()),
                "cache folder": str(cache.folder()),
            }
        )
    )


def _held(gpu: Mapping[str, Any]) -> dict[str, str]:
    """Resources of a multiprocessor and of a block, which `explain` computes the occupancy from."""
    capability = capability_of(gpu["compute_capability"])
    sm, block = find_gpu(gpu["name"], capability).multiprocessor, limits(capability)
    return {
        "  multiprocessor": f"{sm.threads:,} threads, {sm.blocks} blocks, {sm.registers:,} registers, "
        f"{sm.shared_bytes:,} bytes of shared memory",
        "  block": f"{block.threads_per_block:,} threads, {sm.registers_per_thread} registers a thread, "
        f"{block.shared_per_block:,} bytes of shared memory, {sm.reserved_shared_bytes:,} more for the system",
    }
