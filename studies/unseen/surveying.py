"""Survey the portfolios, or candidates for them, next to what `matmul` picks and to torch.mm.

python -m studies.unseen.surveying bfloat16 survey_bf16.jsonl --minutes 3.5
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from studies.runner import reporting
from studies.unseen.other_products import others
from tilewright.api.engines import resolve_engine
from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice
from tilewright.select.selector import select
from tilewright.tools.tune import survey


@reporting
def main() -> int:
    """Survey one element type."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dtype")
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--candidates", type=Path, help="a file of configs to survey instead of the portfolios")
    given = parser.parse_args()
    start = time.monotonic()
    engine: Any = resolve_engine("cuda")
    capability, device = engine.capability, engine.device_name
    candidates = [
        Choice(find(name), find(name).config(values))
        for name, values in (json.loads(given.candidates.read_text())[given.dtype] if given.candidates else ())
    ]

    def choices(problem: Problem) -> list[Choice]:
        narrow = min(problem.m, problem.n) <= survey.NARROW
        known = [one for one in candidates if narrow or one.kernel.name != "skinny"]
        usable = [one for one in known if one.kernel.meets(None) and one.kernel.why_not(problem) is None]
        surveyed = usable if candidates else survey.in_portfolios(problem, capability)
        return list(dict.fromkeys((Choice(*select(problem, capability, device)), *surveyed)))

    memory = survey.SurveyMemory(engine, given.dtype)
    file = survey.SurveyFile(given.out)
    done = {one.problem for one in file.found}
    asked = (one for one in survey.problems(given.dtype) if one not in done)
    libraries = others(engine, memory, given.dtype, ["torch.mm"])
    print(f"{device}, set up in {time.monotonic() - start:.1f} s", flush=True)
    one = survey.Survey(engine, memory, choices)
    for number, found in enumerate(one.run(asked, 60 * given.minutes - (time.monotonic() - start), libraries)):
        file.add(found)
        if number % 10 == 0:
            best = min(found.us, key=found.us.__getitem__)
            p = found.problem
            print(
                f"{time.monotonic() - start:6.1f} s {number:4} {p.shape} {p.layout} {found.us[best]:.1f} us "
                f"{best.kernel.name} of {len(found.us)}, {found.others}, {len(one._compiled)} codes",
                flush=True,
            )
    for choice, words in list(one.refused.items())[:20]:
        print("refused", choice.kernel.name, choice.config, words[:200])
    print(f"{len(file.found)} problems in {time.monotonic() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
