"""The command line: `tilewright warm`."""

from pathlib import Path
from typing import Annotated

import typer

from tilewright.api.engines import resolve_engine
from tilewright.core.dtypes import default_result
from tilewright.core.errors import EngineUnavailableError, ProblemError
from tilewright.core.gpus import gpu_named, limits
from tilewright.core.problem import Arithmetic, Problem
from tilewright.runtime import cache
from tilewright.select.tables import store
from tilewright.tools.cli import options
from tilewright.tools.cli.progress import Steps
from tilewright.tools.cli.streams import notes
from tilewright.tools.tune import warming


def run_warm(
    shape: options.Shapes = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option("--dtype", metavar="|".join(warming.TYPES), help="Element types; all if left out. Repeatable."),
    ] = None,
    gpu: Annotated[str | None, typer.Option(metavar="NAME", help="For another GPU.")] = None,
    wheel: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the code as a wheel into a folder, for other machines.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all compiled code from the cache, and end.")] = False,
) -> None:
    """Compile kernels before they are needed, on all cores, into the cache that every process of yours looks into.

    All kernels that matmul picks from:     [bold]tilewright warm[/]

    What it picks for two shapes:           [bold]tilewright warm --shape 4096 --shape 8x4096x4096[/]

    Without a GPU, for one:                 [bold]tilewright warm --gpu H100[/]

    As a wheel, for machines to install:    [bold]tilewright warm --gpu H100 --wheel dist[/]

    Empty the cache:                        [bold]tilewright warm --clear[/]

    What is compiled already is not compiled again: interrupted, the same command goes on.
    """
    if clear:
        files, size = cache.clear()
        notes.print(f"removed {files:,} files, {size / 1e6:,.1f} MB, from {cache.folder()}", soft_wrap=True)
        return
    if unknown := sorted(set(dtype or ()) - set(warming.TYPES)):
        raise ProblemError(f"--dtype must be one of {', '.join(warming.TYPES)}, got {unknown[0]!r}")
    capability, device = _target(gpu)
    dtypes = list(dict.fromkeys(dtype or warming.TYPES))
    arithmetics = [Arithmetic(one, default_result(one)) for one in dtypes]
    problems = [Problem.parse(text, arithmetic=of) for text in shape or () for of in arithmetics]
    found = warming.of_problems(problems, capability, device) if shape else warming.of_portfolios(dtypes, capability)
    needed = warming.distinct(found)
    from tilewright.tools.tune import wheel as wheels  # noqa: PLC0415 its imports take the CUDA libraries

    path = wheel and wheels.wheel_in(wheel, limits(capability).arch)
    with Steps() as steps:
        steps.begin("compiling", 0, len(needed))
        for done in warming.warmed(needed, capability, for_wheel=path is not None):
            steps.update("compiling", done, len(needed))
    where: Path | str = cache.folder()
    if path is not None:
        where = f"{path}, {wheels.write(path, needed, capability) / 1e6:,.1f} MB"
    notes.print(f"compiled: {len(needed):,} kernels for {device}, in {where}", soft_wrap=True)


def _target(name: str | None) -> tuple[tuple[int, int], str]:
    """Compute capability and driver's name of the GPU to compile for.

    Raises:
        EngineUnavailableError: none is named, and this machine has none.
    """
    if name is not None:
        gpu = gpu_named(name)
        return gpu.capability, store.device_of(gpu)
    engine = resolve_engine("auto")
    if engine.capability is None:
        raise EngineUnavailableError("this machine has no GPU to compile for: name one, as in --gpu H100")
    return engine.capability, engine.device_name
