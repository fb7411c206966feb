"""Rungs that have records and a page of the worklog, and the file of their speeds that the package comes with.

A rung that was added without a GPU has neither.
"""

from collections.abc import Iterator
from pathlib import Path

from studies.profiles.measuring import SHAPE
from studies.results import path
from studies.worklog.facts import Facts, shape_of
from tilewright.core.errors import RecordsError
from tilewright.kernels import LADDER
from tilewright.kernels.kernel import Kernel
from tilewright.tools.report import course

FOLDER = Path("docs/worklog")
TEXTS = FOLDER / "text"


def page_name(kernel: Kernel) -> str:
    """The file of a rung's page, as in 01_naive.md."""
    return f"{kernel.rung:02}_{kernel.name}.md"


def is_measured(kernel: Kernel) -> bool:
    """Whether the package comes with a rung's speed: then the records must have the rung, and the worklog its page."""
    return any(one.kernel == kernel.name for one in course.measured().rungs)


def with_page() -> list[Kernel]:
    """Rungs of which the worklog in the current folder has a page, and those of which it must have one."""
    return [kernel for kernel in LADDER if is_measured(kernel) or (TEXTS / page_name(kernel)).exists()]


def without_record(kernel: Kernel) -> str:
    """A sentence that names a rung without a record, and the commands that make one."""
    return (
        f"rung {kernel.rung}, {kernel.name}, is left out: it has no record at {shape_of(kernel.name)}. On a GPU: "
        f"python -m studies.worklog measure --out {path('ladder').parent.as_posix()}, then make docs"
    )


def without_page(kernel: Kernel) -> str:
    """A sentence that names a rung without a page, and what makes one."""
    text = (TEXTS / page_name(kernel)).as_posix()
    return (
        f"rung {kernel.rung}, {kernel.name}, is left out: it has no page. Once it is measured: write {text}, then "
        "make docs"
    )


def left_out() -> Iterator[str]:
    """Sentences on rungs that have no record or no page."""
    explained = with_page()
    for kernel in LADDER:
        if not is_measured(kernel):
            yield without_record(kernel)
        if kernel not in explained:
            yield without_page(kernel)


def speeds(facts: Facts) -> course.Course:
    """The speed of each rung, of the records that its page of the worklog has. A rung that never had one is left out.

    Raises:
        RecordsError: a rung has lost its record or has no cuBLAS next to it, or several GPUs were measured.
    """
    gpus: dict[tuple[str, str], None] = {}
    found = []
    for kernel in LADDER:
        if not is_measured(kernel) and facts.find(kernel.name, shape_of(kernel.name)) is None:
            continue
        run, record = facts.measurement(kernel.name, shape_of(kernel.name))
        if record.baseline is None:
            raise RecordsError(f"the record of {kernel.name} has no baseline")
        facts_of_gpu = run.environment["gpu"]
        gpus[facts_of_gpu["name"], facts_of_gpu["compute_capability"]] = None
        found.append(
            course.RungSpeed(
                kernel=kernel.name,
                config=record.config,
                shape=record.shape,
                gflops=record.gflops,
                baseline_gflops=record.baseline.gflops,
                date=run.environment["date"][:10],
                revision=run.environment["revision"],
            )
        )
    if len(gpus) != 1:
        raise RecordsError(f"the rungs were measured on several GPUs: {', '.join(name for name, _ in gpus)}")
    ((gpu, capability),) = gpus
    return course.Course(gpu=gpu, compute_capability=capability, shape=SHAPE, rungs=found)
