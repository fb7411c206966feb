"""Products of arrays on the host that a GPU need not hold.

They stand next to the product of the same matrices in the GPU's memory, to copies alone, and to copying in, multiplying
and copying out, as a caller of PyTorch or CuPy does.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from studies.record import Measurement
from studies.scaling import records
from studies.scaling.records import OURS, OUT_OF_CORE, PRODUCT
from tilewright.api.front import matmul
from tilewright.api.out_of_core.tiles import Sizes, tiling
from tilewright.core.errors import LaunchError
from tilewright.tools.bench.end_to_end import Stopwatch
from tilewright.tools.bench.records import Times

SAMPLES = 3
LIMIT = 8 * 10**9


class Product(NamedTuple):
    """Sizes and type of a product."""

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
    Product("square", 32768, 32768, 32768, "float32", LIMIT, True, False),
    Product("square-bf16", 32768, 32768, 32768, "bfloat16", LIMIT, True, False),
    Product("link", 65536, 65536, 1024, "float32", LIMIT, True, False),
    Product("pageable", 16384, 16384, 16384, "float32", None, False, True),
    Product("pinned", 16384, 16384, 16384, "float32", None, True, True),
)

SMALL = (Product("small", 96, 80, 64, "float32", 20_000, False, False),)
"""On the emulator, for tests."""


def measure(case: Product, engine: str, samples: int = SAMPLES) -> list[Measurement]:
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
    works: dict[str, Callable[[], Any]] = {OURS: lambda: matmul(a, b, out=out, memory_limit=case.limit, engine=engine)}
    works[OURS]()
    difference = _difference(torch, case, a, b, out)
    if engine == "cuda":
        works |= _others(torch, case, a, b, out)
    stopwatch = Stopwatch(torch.cuda.synchronize if engine == "cuda" else lambda: None)
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(samples):
        for name, work in works.items():
            taken[name].append(1e6 * stopwatch.seconds(work, 1))
    found = {name: Times.of(one) for name, one in taken.items()}
    item = a.itemsize
    limit = case.limit or 2**40
    cut = tiling(Sizes(m, n, k, item, item, item, False, 6 if case.dtype == "float32" else 2), limit)
    facts = {"memory_limit": case.limit, "moved_bytes": cut.moved_bytes}
    memory = "pinned" if case.pinned else "not pinned"
    return records.measurements(OUT_OF_CORE, 1, f"{m}x{n}x{k}", case.dtype, found, difference, memory, **facts)


def _others(torch: Any, case: Product, a: Any, b: Any, out: Any) -> dict[str, Callable[[], Any]]:
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
        PRODUCT: lambda: matmul(here, there, out=result),
        "copies alone, both ways at once": copies,
    }
    works[PRODUCT]()
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


def _difference(torch: Any, case: Product, a: Any, b: Any, out: Any) -> float:
    """Difference of some rows from float64, relative in the Frobenius norm."""
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
