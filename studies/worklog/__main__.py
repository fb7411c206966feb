"""Makes the worklog anew: the rungs' speeds that the package comes with, counts and errors on the emulator, figures,
pages.

Run as `python -m studies.worklog write` from the root of a checkout (`make docs` does). On a machine with a GPU, cuBLAS
and many cores `python -m studies.worklog measure --out FOLDER` measures the records: see measuring.py.
"""

import sys
from pathlib import Path

from studies import results
from studies.profiles.measuring import problem_of
from studies.record import Measurements
from studies.results import path
from studies.runner import run
from studies.worklog import errors, measuring, rungs, sources
from studies.worklog.counted import Counts, counted
from studies.worklog.facts import Facts
from studies.worklog.pages import Worklog
from studies.worklog.parts import ladder_readme
from tilewright.core.files import save_json, write_whole
from tilewright.tools.report import course

LADDER_README = Path("src/tilewright/kernels/ladder/README.md")
COURSE = Path("src/tilewright/tools/report/course.json")


def write() -> None:
    """Make everything.

    Raises:
        RecordsError: a file of records is missing, or is none.
        OSError: a file cannot be written.
    """
    runs = Facts.load_runs()
    facts = Facts(runs, {})
    save_json(COURSE, rungs.speeds(facts).model_dump(), f"the speeds of rungs to {COURSE}")
    course.measured.cache_clear()  # a rung may be measured now that was not before
    for sentence in rungs.left_out():
        print(sentence, file=sys.stderr)
    counts = [counted(kernel, facts.config(kernel), problem_of(kernel)) for kernel in rungs.with_page()]
    Counts(environment={}, counts=counts).save(path("counts"))
    samples = Measurements(environment={}, measurements=list(errors.all_sampled()))
    samples.save(path("errors"))
    of_sources = sources.all_counted()
    of_sources.save(path("sources"))
    all_facts = Facts(runs, {one.kernel: one for one in counts}, Measurements.load(path("profiles")))
    worklog = Worklog(all_facts, errors.Errors(samples), of_sources, *results.runs("variations"))
    for file, text in (*worklog.figures(), *worklog.pages(), (LADDER_README, ladder_readme())):
        write_whole(file, text.encode())


if __name__ == "__main__":
    raise SystemExit(run("worklog", __doc__, write=write, fill=measuring.measure, options=measuring.options))
