"""Makes the worklog anew: the rungs' speeds that the package comes with, counts and errors on the emulator, figures,
pages.

Run as `python -m studies.worklog` from the root of a checkout (`make docs` does).
"""

import sys
from pathlib import Path

from studies.profiles import tables as profiles
from studies.worklog import errors, rungs, sources, variations
from studies.worklog.counted import counted, save
from studies.worklog.facts import Facts, problem_of
from studies.worklog.pages import Worklog
from studies.worklog.speeds import speeds
from tilewright.core.errors import TilewrightError
from tilewright.core.files import save_json, write_whole
from tilewright.report import course

COUNTS = Path("results/emulator/counts.json")
ERRORS = Path("results/emulator/errors.json")
SOURCES = Path("results/emulator/sources.json")
COURSE = Path("src/tilewright/report/course.json")


def main() -> int:
    """Make everything; returns the exit status."""
    try:
        runs = Facts.load_runs()
        facts = Facts(runs, {})
        save_json(COURSE, speeds(facts).model_dump(), f"the speeds of rungs to {COURSE}")
        course.measured.cache_clear()  # a rung may be measured now that was not before
        for sentence in rungs.left_out():
            print(sentence, file=sys.stderr)
        counts = [counted(kernel, facts.config(kernel), problem_of(kernel)) for kernel in rungs.with_page()]
        save(COUNTS, counts)
        samples = list(errors.all_sampled())
        errors.save(ERRORS, samples)
        of_sources = sources.all_counted()
        sources.save(SOURCES, of_sources)
        profiled = profiles.load()
        all_facts = Facts(runs, {one.kernel: one for one in counts}, profiled.profiles if profiled else ())
        worklog = Worklog(all_facts, errors.Errors(samples), of_sources, variations.load())
        for path, text in (*worklog.figures(), *worklog.pages()):
            write_whole(path, text.encode())
    except (TilewrightError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
