"""How fast the rungs of the course are, from the records: the file course.json that the package comes with."""

from studies.profiles.measuring import SHAPE
from studies.worklog import rungs
from studies.worklog.facts import Facts, shape_of
from tilewright.core.errors import RecordsError
from tilewright.kernels import LADDER
from tilewright.tools.report.course import Course, RungSpeed


def speeds(facts: Facts) -> Course:
    """The speed of each rung, of the records that its page of the worklog has. A rung that never had one is left out.

    Raises:
        RecordsError: a rung has lost its record or has no cuBLAS next to it, or several GPUs were measured.
    """
    gpus: dict[tuple[str, str], None] = {}
    found = []
    for kernel in LADDER:
        if not rungs.is_measured(kernel) and facts.find(kernel.name, shape_of(kernel.name)) is None:
            continue
        run, record = facts.measurement(kernel.name, shape_of(kernel.name))
        if record.baseline is None:
            raise RecordsError(f"the record of {kernel.name} has no baseline")
        facts_of_gpu = run.environment["gpu"]
        gpus[facts_of_gpu["name"], facts_of_gpu["compute_capability"]] = None
        found.append(
            RungSpeed(
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
    return Course(gpu=gpu, compute_capability=capability, shape=SHAPE, rungs=found)
