"""The command line: `tilewright fault`."""

import re
from pathlib import Path
from typing import Annotated

import typer

from tilewright import kernels
from tilewright.core.errors import PathError
from tilewright.core.files import FileKind, Output, check_outputs, write_whole
from tilewright.kernels.source.lines import SUFFIX
from tilewright.tools.cli import launches
from tilewright.tools.cli.check import run_check
from tilewright.tools.cli.streams import out
from tilewright.tools.cli.terminal import say
from tilewright.tools.explain.traffic import count
from tilewright.tools.report.fitted import Column, FittedTable

FILES = sorted((Path(kernels.__file__).parent / "faults").glob(f"*{SUFFIX}"))
"""Sources with a fault planted, in their order."""
ODD, ALIGNED = ("64x64x64", "67x45x83"), ("64x64x160", "72x40x168")
"""Shapes that a file is marked on, the second ones where it has tensor maps. Accesses are counted on the first."""
WORK = (
    *((33_280, 0), (41_472, 0), (4_608, 17_408), (4_608, 17_408), (2_560, 10_752), (18_432, 0)),
    *((2_560, 10_752), (4_608, 17_920), (512, 16_384), (512, 40_960), (2_048, 51_200), (81_920, 128)),
)
"""Sectors of global memory and wavefronts of shared memory that the threads of each fault's solution ask for.
Asynchronous copies do not count."""
_SLACK = 1.25
"""Times that work which is still a solution: others than ours are right too."""
_HEAD = re.compile(r"// Fault \d+, after page (\d+): (.+)\n//\n((?:// (?!tilewright:).*\n)+)")


def run_fault(
    number: Annotated[int | None, typer.Argument(metavar="N", min=1, max=len(FILES), help="Of a fault.")] = None,
    path: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Written, or marked; fault_03.cu and the like if left out.")
    ] = None,
    mark: Annotated[bool, typer.Option("--mark", help="Say whether the file is mended, or what is wrong.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write the fault again over a file that has it.")] = False,
) -> None:
    """Exercises: kernels with a fault each, to be found, mended and marked. Needs no GPU.

    What there is, and after which page of the course:    [bold]tilewright fault[/]

    Write fault_03.cu, and say what it should do:         [bold]tilewright fault 3[/]

    Mark it, once it is mended:                           [bold]tilewright fault 3 --mark[/]

    It is mended if check finds nothing on two shapes, and if threads ask for no more memory than a solution needs. The
    exit status is 0 only then.
    """
    if number is None:
        if mark or force:
            raise PathError(f"--{'mark' if mark else 'force'} takes the number of a fault, as in tilewright fault 3")
        table = FittedTable(*(Column(name, "right") for name in ("fault", "after page")), Column("seen", wraps=" "))
        for place, file in enumerate(FILES, 1):
            page, seen, _ = _head(file)
            table.add_row(f"{place}", page, seen)
        out.print(table)
        return
    shipped = FILES[number - 1]
    path = path or Path(shipped.name)
    if path.suffix != SUFFIX:
        raise PathError(f"FILE must end in {SUFFIX}, got {path}")
    if mark:
        raise typer.Exit(_mark(path, number))
    if path.exists() and not force:
        raise PathError(f"{path} is there already: --mark marks it, --force writes the fault again")
    kind = FileKind(f"fault {number}", lambda content: shipped.stem.encode() in content)
    check_outputs([Output("FILE", path, kind)])
    write_whole(path, shipped.read_bytes())
    _, seen, task = _head(shipped)
    say((f"{seen}", "bold"), f"\n{task}", to=out)
    out.print(f"\nwrote {path}: mend it, then tilewright fault {number} --mark {path}", soft_wrap=True)


def _head(file: Path) -> tuple[str, str, str]:
    """The page after which a fault can be found, what is seen of it, and the task."""
    found = _HEAD.match(file.read_text(encoding="utf-8"))
    assert found
    return found[1], found[2], re.sub(r"\s*// ", " ", found[3]).strip()


def _mark(path: Path, number: int) -> int:
    """Check a file, count its accesses, and print what is wrong; the exit status."""
    shapes = ALIGNED if kernels.find(str(FILES[number - 1])).support.aligned else ODD
    try:
        run_check([str(path)], shape=list(shapes))
    except typer.Exit as ended:
        if ended.exit_code:
            return ended.exit_code
    kernel = kernels.find(str(path))
    problem = launches.problem_for(kernel, shapes[0], None, None)
    traffic = launches.explain_in_subprocess(count, kernel, kernel.config(), problem, deadline=60.0)
    copies = traffic.groups["async_copy"]
    found = traffic.global_sectors - copies.sectors, traffic.shared_wavefronts - copies.wavefronts
    kinds = "sectors of global memory", "wavefronts of shared memory"
    more = [
        f"at {shapes[0]} its loads and stores take {got:,} {kind}, and those of a solution {least:,}"
        for got, least, kind in zip(found, WORK[number - 1], kinds, strict=True)
        if got > _SLACK * least
    ]
    for words in more or ["passed"]:
        say(f"fault {number}: {words}", to=out)
    return len(more) and 1
