"""Products of several GPUs, and of arrays that a GPU need not hold, next to the product alone and to PyTorch's.

`python -m studies.scaling measure --out FILE` runs each case in processes of its own, one for each GPU, or one with all
of them, with a time that it may take; with `--engine emulator` on the CPU, small. `... write` redraws the page.
"""

import datetime
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path

from studies.record import Measurement, Measurements
from studies.runner import each, in_processes, reporting, run
from tilewright.core.errors import LaunchError
from tilewright.runtime.base import Engine

TIMEOUT_S = 240
"""Seconds for a case, with the start of its processes."""

GROUP_S = 60
"""Seconds that ranks wait for each other."""

WITHOUT_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
"""The environment in which nobody multicasts over NVLink, so that all ways have the same links."""

_RANK = "TILEWRIGHT_STUDY_RANK"
"""Environment variable of a process of a case: which of them it is."""


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--devices", type=int, default=2, help="GPUs; default: 2")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases whose name has this")
    parser.add_argument("--skip", action="append", default=[], metavar="TEXT", help="cases whose name has not")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="S", help="of a case")


def measurements(
    engine: Engine, devices: int, only: Sequence[str], skip: Sequence[str], timeout: float
) -> Iterator[Measurement]:
    """Every case, in processes of its own.

    Raises:
        LaunchError: cases failed; the others are measured.
    """
    from studies.scaling.measuring import SCALES, cases  # noqa: PLC0415 - imports PyTorch, which may be missing

    alone = {case.name: case.alone for case in cases(SCALES[engine.name], devices)}

    def measured(name: str) -> list[Measurement]:
        ranks = [WITHOUT_MULTICAST | {_RANK: str(rank)} for rank in range(1 if alone[name] else devices)]
        return in_processes(["studies.scaling", name, engine.name, str(devices)], ranks, timeout)

    asked = [name for name in alone if not only or any(text in name for text in only)]
    return each([name for name in asked if not any(text in name for text in skip)], measured)


@reporting
def measure(name: str, engine: str, devices: str, out: str) -> int:
    """Measure a case in one of its processes; the first writes the file, next to which they find each other.

    Raises:
        LaunchError: it failed. Others may wait for this process, which therefore ends at once.
    """
    import torch  # noqa: PLC0415 - slow to import, and the process that starts others needs none of it
    import torch.distributed as dist  # noqa: PLC0415

    from studies.scaling.measuring import SCALES, cases  # noqa: PLC0415
    from tilewright.tools.bench.end_to_end import exact  # noqa: PLC0415

    rank, size, scale = int(os.environ[_RANK]), int(devices), SCALES[engine]
    case = next(case for case in cases(scale, size) if case.name == name)
    if scale.device == "cuda":
        torch.cuda.set_device(rank)
    if not case.alone:
        timeout, store = datetime.timedelta(seconds=GROUP_S), f"file://{Path(out).parent / 'store'}"
        backend = "nccl" if scale.device == "cuda" else "gloo"
        dist.init_process_group(backend, init_method=store, rank=rank, world_size=size, timeout=timeout)
    try:
        with exact(torch):
            found = case.measure()
    except RuntimeError as error:
        raise LaunchError(" ".join(str(error).split())[:1000]) from error
    if rank == 0:
        Measurements(environment={}, measurements=found).save(Path(out))
    if not case.alone:
        dist.barrier()
        dist.destroy_process_group()
    return 0


def write() -> None:
    """Redraw the page."""
    from studies.scaling import page  # noqa: PLC0415 - templates, which a measurement does not need

    page.write()


if __name__ == "__main__":
    if _RANK in os.environ:
        status = measure(*sys.argv[1:])
        sys.stderr.flush()
        os._exit(status)
    sys.exit(run("scaling", __doc__, measurements, write, options))
