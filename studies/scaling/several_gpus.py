"""Products of several GPUs next to the product alone and to PyTorch's.

    python -m studies.scaling.several_gpus --out FILE

It starts a process for each GPU, or is one of those that torchrun starts. Records are written as they come. A case that
does not end within its time is given up, and the others go on in new processes.
"""

import argparse
import datetime
import importlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from studies.record import Measurement, Measurements
from studies.runner import reporting
from tilewright.bench.environment import environment
from tilewright.core.errors import EngineUnavailableError, TilewrightError
from tilewright.core.files import Output, check_outputs
from tilewright.engines.registry import cuda_unavailable, resolve_engine

TIMEOUT_S = 150
"""Of a case, and of the start of the processes before the first."""

GROUP_S = 60
"""What ranks wait for each other."""

WITHOUT_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
"""The environment in which nobody multicasts over NVLink, so that all ways have the same links."""

_BEGIN, _RECORD, _FAILED = "case ", "record ", "failed "
"""How lines of the first rank's output begin."""


@reporting
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.scaling.several_gpus", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the records here")
    parser.add_argument("--devices", type=int, default=2, help="GPUs; default: 2")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases whose name has this")
    parser.add_argument("--skip", action="append", default=[], metavar="TEXT", help="cases whose name has not")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="S", help="of a case")
    parser.add_argument("--small", action="store_true", help="on the CPU, to see that it works")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    parser.add_argument("--after", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rank is not None:
        _work(options, options.rank, options.devices, f"file://{options.store}", _say)
    elif "RANK" in os.environ:
        _under_torchrun(options)
    else:
        return _supervise(options)
    return 0


class _Run:
    """The file that is written."""

    def __init__(self, options: Any) -> None:
        self._path: Path | None = options.out
        check_outputs([Output("--out", self._path, Measurements.kind())])
        if not options.small and (reason := cuda_unavailable()):
            raise EngineUnavailableError(f"GPUs are needed: {reason}")
        self._engine = None if options.small else resolve_engine("cuda")
        self.found: list[Measurement] = []
        self.failed = False

    def add(self, line: str) -> None:
        """Print a measurement, and write it."""
        one = Measurement.model_validate_json(line.removeprefix(_RECORD))
        self.found.append(one)
        print(one, flush=True)
        if self._path is not None:
            facts = environment(self._engine) | {"torch": _torch_version()}
            Measurements(environment=facts, measurements=self.found).save(self._path)

    def fail(self, case: str, words: str) -> None:
        """Say that a case failed: there is no record of it."""
        self.failed = True
        print(f"{case}: {words}", file=sys.stderr, flush=True)


def _torch_version() -> str:
    return str(importlib.import_module("torch").__version__)


def _say(line: str) -> None:
    print(line, flush=True)


def _supervise(options: Any) -> int:
    """Start the ranks, and again where one fails or hangs."""
    run = _Run(options)
    for ranks in (options.devices, 1):
        after: str | None = ""
        while after is not None:
            after = _one_start(options, ranks, after, run)
    return 1 if run.failed or not run.found else 0


def _one_start(options: Any, ranks: int, after: str, run: _Run) -> str | None:
    """Run the cases behind one; the last that was begun where they did not all end, else None."""
    with tempfile.TemporaryDirectory() as folder:
        own = [sys.executable, "-m", "studies.scaling.several_gpus", "--devices", str(options.devices)]
        own += ["--store", str(Path(folder) / "store"), "--after", after, *(["--small"] if options.small else [])]
        own += [word for name in ("only", "skip") for one in getattr(options, name) for word in (f"--{name}", one)]
        errors = (Path(folder) / "errors").open("w+")
        # A rank more says that one process has all GPUs.
        numbers = range(ranks) if ranks > 1 else [options.devices]
        processes = [
            subprocess.Popen(
                [*own, "--rank", str(rank)],
                stdout=subprocess.PIPE if place == 0 else subprocess.DEVNULL,
                stderr=errors,
                text=True,
            )
            for place, rank in enumerate(numbers)
        ]
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(processes[0].stdout, lines), daemon=True).start()
        case = ""
        try:
            while (line := _next(lines, options.timeout)) is not None:
                if line.startswith(_BEGIN):
                    case = line.removeprefix(_BEGIN)
                elif line.startswith(_RECORD):
                    run.add(line)
                    case = ""
                elif line.startswith(_FAILED):
                    run.fail(case, line.removeprefix(_FAILED))
                    return case
            for process in processes:
                process.wait(GROUP_S)
            if not case and not any(process.returncode for process in processes):
                return None
            words = "a rank ended"
        except (queue.Empty, subprocess.TimeoutExpired):
            words = f"did not end within {options.timeout:g} s"
        except ValidationError as error:
            words = f"wrote something that is no record: {error}"
        finally:
            for process in processes:
                process.kill()
                process.wait()
            errors.seek(0)
            said = errors.read()[-2000:].strip()
            errors.close()
        run.fail(case or "start", f"{words}: {said}")
        return case or None


def _next(lines: "queue.Queue[str | None]", timeout: float) -> str | None:
    return lines.get(timeout=timeout)


def _read(stream: Any, lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def _under_torchrun(options: Any) -> None:
    """One of the ranks that torchrun started; the first writes the file."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    run = _Run(options) if rank == 0 else None

    def tell(line: str) -> None:
        if run is not None and line.startswith(_RECORD):
            run.add(line)

    _work(options, rank, size, "env://", tell)


def _work(options: Any, rank: int, size: int, store: str, tell: Any) -> None:
    """Measure the cases of a rank; rank == size: those of one process with all GPUs."""
    import torch  # noqa: PLC0415 - slow to import, and the process that supervises needs none of it
    import torch.distributed as dist  # noqa: PLC0415

    from studies.scaling.measuring import H200, SMALL, cases  # noqa: PLC0415
    from tilewright.bench.end_to_end import exact  # noqa: PLC0415

    for name, value in WITHOUT_MULTICAST.items():
        os.environ.setdefault(name, value)
    alone = rank == size
    scale = SMALL if options.small else H200
    if scale.device == "cuda":
        torch.cuda.set_device(0 if alone else int(os.environ.get("LOCAL_RANK", rank)))
    if not alone:
        timeout = datetime.timedelta(seconds=GROUP_S)
        backend = "nccl" if scale.device == "cuda" else "gloo"
        dist.init_process_group(backend, init_method=store, rank=rank, world_size=size, timeout=timeout)
    found = [one for one in cases(scale, size) if one.alone == alone and _asked(one.name, options)]
    names = [one.name for one in found]
    first = names.index(options.after) + 1 if options.after in names else 0
    for case in found[first:]:
        tell(f"{_BEGIN}{case.name}")
        try:
            with exact(torch):
                ways = case.measure()
        except (TilewrightError, RuntimeError) as error:
            words = " ".join(str(error).split())[:1000]
            print(f"{case.name}: {words}", file=sys.stderr, flush=True)
            tell(f"{_FAILED}{words}")
            os._exit(1)  # other ranks may wait for this one, and work on the GPU for them
        for one in ways:
            tell(f"{_RECORD}{one.model_dump_json()}")
        if scale.device == "cuda":
            torch.cuda.empty_cache()
    if not alone:
        dist.barrier()
        dist.destroy_process_group()


def _asked(name: str, options: Any) -> bool:
    return (not options.only or any(text in name for text in options.only)) and not any(
        text in name for text in options.skip
    )


if __name__ == "__main__":
    sys.exit(main())
