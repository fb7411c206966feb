"""Products of arrays on the host that a GPU need not hold: `python -m studies.scaling.out_of_core --out FILE`.

Next to the product of the same matrices in the GPU's memory, to copies alone, and to copying in, multiplying and
copying out, as a caller of PyTorch or CuPy does. Each case runs in a process of its own, with a time that it may take;
records are written as they come.
"""

import argparse
import importlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from studies.scaling.records import OUT_OF_CORE, Failure, Scaling, ScalingRun
from tilewright.bench.environment import environment
from tilewright.bench.records import Times
from tilewright.core.errors import LaunchError, TilewrightError
from tilewright.core.files import Output, check_outputs
from tilewright.engines.registry import resolve_engine
from tilewright.front import matmul
from tilewright.tiles import Sizes, tiling

TIMEOUT_S = 240

LIMIT = 8 * 10**9

_RECORD = "record "


class Case(NamedTuple):
    """What is multiplied."""

    name: str
    m: int
    n: int
    k: int
    dtype: str
    limit: int | None
    pinned: bool
    copies: bool
    """Whether copying in, multiplying and copying out is timed too: the GPU holds all of it."""


CASES = (
    Case("square", 32768, 32768, 32768, "float32", LIMIT, True, False),
    Case("square-bf16", 32768, 32768, 32768, "bfloat16", LIMIT, True, False),
    Case("link", 65536, 65536, 1024, "float32", LIMIT, True, False),
    Case("pageable", 16384, 16384, 16384, "float32", None, False, True),
    Case("pinned", 16384, 16384, 16384, "float32", None, True, True),
)

SMALL = (Case("small", 96, 80, 64, "float32", 20_000, False, False),)
"""On the emulator, for tests."""


def measure(case: Case, samples: int, engine: str) -> Scaling:
    """Times of a case.

    Raises:
        LaunchError: the result is wrong.
    """
    torch = importlib.import_module("torch")
    m, n, k, dtype = case.m, case.n, case.k, getattr(torch, case.dtype)
    pinned = case.pinned and engine == "cuda"

    def host(rows: int, cols: int, seed: int) -> Any:
        made = torch.empty(rows, cols, dtype=dtype, pin_memory=pinned)
        generator = torch.Generator().manual_seed(seed)
        some = torch.randn(min(rows, 2048), cols, generator=generator).to(dtype)
        for begin in range(0, rows, 2048):
            made[begin : begin + 2048] = some[: min(2048, rows - begin)]
        return made if case.pinned else made.numpy()

    a, b = host(m, k, 0), host(k, n, 1)
    out = torch.empty(m, n, dtype=dtype, pin_memory=pinned)
    out = out if case.pinned else out.numpy()
    works: dict[str, Callable[[], Any]] = {
        "own": lambda: matmul(a, b, out=out, memory_limit=case.limit, engine=engine),
    }
    works["own"]()
    difference = _difference(torch, case, a, b, out)
    if engine == "cuda":
        works |= _others(torch, case, a, b, out)
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(samples):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            if engine == "cuda":
                torch.cuda.synchronize()
            taken[name].append(1e6 * (time.perf_counter() - start))
    found = {name: Times.of(one) for name, one in taken.items()}
    variants = {name: found.pop(name) for name in list(found) if name.startswith("copies")}
    item = a.itemsize
    limit = case.limit or 2**40
    cut = tiling(Sizes(m, n, k, item, item, item, False, 6 if case.dtype == "float32" else 2), limit)
    return Scaling(
        scheme=OUT_OF_CORE,
        devices=1,
        what=f"{m}x{n}x{k}",
        dtype=case.dtype,
        time_us=found.pop("own"),
        product_us=found.pop("product", None),
        peers_us=found,
        variants_us=variants,
        difference=difference,
        memory_limit=case.limit,
        pinned=case.pinned,
        moved_bytes=cut.moved_bytes,
    )


def _others(torch: Any, case: Case, a: Any, b: Any, out: Any) -> dict[str, Callable[[], Any]]:
    """The product alone, copies alone, and what callers of other libraries do."""
    here, there, result = (torch.as_tensor(one).cuda() for one in (a, b, out))
    whole = [torch.as_tensor(one) for one in (a, b, out)]
    streams = torch.cuda.Stream(), torch.cuda.Stream()

    def copies() -> None:
        with torch.cuda.stream(streams[0]):
            here.copy_(whole[0], non_blocking=True)
            there.copy_(whole[1], non_blocking=True)
        with torch.cuda.stream(streams[1]):
            whole[2].copy_(result, non_blocking=True)

    works: dict[str, Callable[[], Any]] = {
        "product": lambda: matmul(here, there, out=result),
        "copies alone, both ways at once": copies,
    }
    works["product"]()
    if case.copies:

        def by_torch() -> None:
            torch.mm(whole[0].cuda(), whole[1].cuda(), out=result)
            whole[2].copy_(result)

        works["PyTorch: copy in, product, copy out"] = by_torch
        if importlib.util.find_spec("cupy") is not None:
            cupy: Any = importlib.import_module("cupy")
            arrays = [np.asarray(one) for one in (a, b, out)]

            def by_cupy() -> None:
                cupy.matmul(cupy.asarray(arrays[0]), cupy.asarray(arrays[1])).get(out=arrays[2])

            works["CuPy: copy in, product, copy out"] = by_cupy
    return works


def _difference(torch: Any, case: Case, a: Any, b: Any, out: Any) -> float:
    """Of some rows from float64, relative in the Frobenius norm."""
    rows = np.linspace(0, case.m - 1, 16).astype(int)
    some, factor, found = (torch.as_tensor(one) for one in (a, b, out))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    expected = torch.zeros(len(rows), case.n, dtype=torch.float64, device=device)
    for begin in range(0, case.k, 1024):
        part = slice(begin, begin + 1024)
        expected += some[rows][:, part].to(device).double() @ factor[part].to(device).double()
    error = found[rows].to(device).double() - expected
    difference = float(error.norm() / expected.norm())
    if not difference < (1e-5 if case.dtype == "float32" else 1e-2):
        raise LaunchError(f"{case.name}: the result differs from float64's by {difference:.1e}")
    return difference


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.scaling.out_of_core", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the records here")
    parser.add_argument("--only", action="append", choices=[one.name for one in CASES], help="default: all")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="S", help="of a case")
    parser.add_argument("--small", action="store_true", help="on the emulator, to see that it works")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    engine = "emulator" if options.small else "cuda"
    cases = SMALL if options.small else CASES
    try:
        if options.case:
            case = next(one for one in cases if one.name == options.case)
            print(_RECORD + measure(case, options.samples, engine).model_dump_json(), flush=True)
            return 0
        check_outputs([Output("--out", options.out, ScalingRun.kind())])
        where = resolve_engine(engine)
    except (TilewrightError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status if isinstance(error, TilewrightError) else 1
    records: list[Scaling] = []
    failures: list[Failure] = []
    for case in cases:
        if options.only and case.name not in options.only:
            continue
        found = _in_a_process(case, options)
        if isinstance(found, Scaling):
            records.append(found)
            print(found.words(), flush=True)
        else:
            failures.append(found)
            print(f"{found.case}: {found.words}", flush=True)
        if options.out:
            ScalingRun(environment=environment(where), records=records, failures=failures).save(options.out)
    return 1 if failures or not records else 0


def _in_a_process(case: Case, options: Any) -> Scaling | Failure:
    command = [sys.executable, "-m", "studies.scaling.out_of_core", "--case", case.name]
    command += ["--samples", str(options.samples), *(["--small"] if options.small else [])]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, check=False)
    except subprocess.TimeoutExpired:
        return Failure(case=case.name, words=f"did not end within {options.timeout:g} s")
    lines = [line for line in ran.stdout.splitlines() if line.startswith(_RECORD)]
    if ran.returncode or not lines:
        return Failure(case=case.name, words=ran.stderr[-2000:].strip() or f"ended with {ran.returncode}")
    return Scaling.model_validate_json(lines[-1].removeprefix(_RECORD))


if __name__ == "__main__":
    sys.exit(main())
