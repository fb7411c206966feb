"""How much slower what the selector picks is than the fastest config known, on problems that are in no table.

python -m studies.tuning.regret --problems 20 --json regret.json --records drawn.json

The records, of what came within 1.5 times the fastest, are for `tuning.merge`, after which the problems are in a table.
"""

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from studies.runner import reporting
from tilewright.bench.environment import environment
from tilewright.bench.measure import BaselineLibrary, measure
from tilewright.bench.records import Record, Run
from tilewright.bench.run import baseline_library, pick
from tilewright.core.dtypes import DTYPES, default_result
from tilewright.core.errors import RecordsError, TilewrightError
from tilewright.core.files import Output, check_outputs, json_kind, save_json
from tilewright.core.problem import LAYOUTS, Arithmetic, Problem, orders
from tilewright.engines.base import Engine
from tilewright.engines.registry import CHOICES, resolve_engine
from tilewright.kernels import KERNELS, recorded
from tilewright.kernels.spec import Choice
from tilewright.tables import store
from tilewright.tables.cases import posed
from tilewright.tables.merging import KEEP_WITHIN
from tilewright.tables.table import Table
from tilewright.tuning.compiling import CompilePool
from tilewright.tuning.search import searchable
from tilewright.tuning.space import distinct

_NEARLY_BEST = 1.1
"""Known are the configs that come so near to the fastest on some tabled problem, and the kernels' defaults."""


class Regret(NamedTuple):
    """One problem: what was picked, what was fastest, and how many times longer the pick took."""

    shape: str
    picked: str
    fastest: str
    factor: float
    times_us: Mapping[str, float] | None = None
    """Of all that was measured, by kernel and config: what a better choice can be tried on. None where not kept."""
    ratio: float | None = None
    """The baseline's time over the pick's. None where there was no baseline."""
    case: str = f"{LAYOUTS[0]} {DTYPES[0]}"
    """`Problem.case`."""

    @property
    def problem(self) -> Problem:
        """What was computed."""
        sizes = Problem.parse(self.shape)
        return posed(sizes.m, sizes.n, sizes.k, self.case)


def draw(
    count: int,
    seed: int,
    smallest: int = 64,
    largest: int = 4096,
    tables: Sequence[Table] = (),
    dtype: str = DTYPES[0],
    layout: str = LAYOUTS[0],
) -> list[Problem]:
    """Problems with sizes drawn evenly over their logarithms, half of them multiples of 32, none of them in a table.

    dtype: element type of the factors, and of results as `matmul` makes them. layout: orders of A and B, as in 'NT'.
    """
    rng = random.Random(seed)
    arithmetic, (a, b) = Arithmetic(dtype, default_result(dtype)), orders(layout)

    def size(step: int) -> int:
        drawn = math.exp(rng.uniform(math.log(smallest), math.log(largest)))
        return max(round(drawn / step), 1) * step

    problems: list[Problem] = []
    while len(problems) < count:
        step = 32 if len(problems) % 2 else 1
        shape = f"{size(step)}x{size(step)}x{size(step)}"
        problem = Problem.parse(shape, arithmetic=arithmetic, a=a, b=b)
        if not any(table.holds(problem) for table in tables):
            problems.append(problem)
    return problems


def known(problem: Problem, engine: Engine) -> list[Choice]:
    """The configs that a pick is judged by."""
    kernels = searchable(KERNELS, problem, engine.capability)
    by_name = {kernel.name: kernel for kernel in kernels}
    found = {kernel: [kernel.config(capability=engine.capability)] for kernel in kernels}
    for table in store.load(engine.device_name):
        entries = [entry for entry in table.entries if entry.keeps(problem.arithmetic.precision)]
        fastest = {entry.problem: entry.gflops for entry in sorted(entries, key=lambda entry: entry.gflops)}
        for entry in entries:
            if entry.dtype == problem.dtype and entry.gflops * _NEARLY_BEST >= fastest[entry.problem]:
                config = recorded(entry.kernel, entry.config)
                if entry.kernel in by_name and config is not None:
                    found[by_name[entry.kernel]].append(config)
    return [
        Choice(kernel, config)
        for kernel, configs in found.items()
        for config in distinct(kernel, configs, problem.layout)
    ]


def regrets(
    engine: Engine, problems: Iterable[Problem], library: BaselineLibrary | None = None, samples: int = 5
) -> Iterator[tuple[Regret, list[Record]]]:
    """Measure, on each problem, the pick, all that is known, and the library; with the records that a table may keep.

    Raises:
        TilewrightError: a config cannot be run, or its result is wrong.
    """
    for problem in problems:
        chosen = pick(engine, problem)
        choices = list(dict.fromkeys([chosen, *known(problem, engine)]))
        with CompilePool(engine, problem) as pool:
            for choice in choices:
                pool.submit(choice)
            while len(pool):
                list(pool.finished(1.0))
        records = measure(engine, choices, problem, samples=samples, library=library)
        wrong = [record.kernel for record in records if not record.verified]
        if wrong:
            raise TilewrightError(f"wrong results on {problem.shape}: {', '.join(wrong)}")
        picked = words(chosen)
        times_us = {words(choice): record.usual_us for choice, record in zip(choices, records, strict=True)}
        fastest = min(times_us, key=times_us.__getitem__)
        near = [record for record in records if record.usual_us <= KEEP_WITHIN * times_us[fastest]]
        factor = times_us[picked] / times_us[fastest]
        yield Regret(problem.shape, picked, fastest, factor, times_us, records[0].ratio, problem.case), near


def mean(found: Sequence[Regret]) -> float:
    """Geometric mean of the factors."""
    return statistics.geometric_mean([regret.factor for regret in found])


def load(path: Path) -> tuple[dict[str, Any], list[Regret]]:
    """What a run wrote: its environment, and what it found.

    Raises:
        RecordsError: the file cannot be read, or holds something else.
    """
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        named = facts["configs"]
        found = []
        for fields in facts["regrets"]:
            fields |= {name: named[fields[name]] for name in ("picked", "fastest")}
            if "times_us" in fields:
                fields["times_us"] = {named[number]: time_us for number, time_us in fields["times_us"]}
            found.append(Regret(**fields))
        return facts["environment"], found
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise RecordsError(f"{path} is not what tuning.regret writes: {error!r}") from error


@reporting
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.tuning.regret", description=__doc__)
    parser.add_argument("--problems", type=int, default=20, metavar="N", help="how many to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0], help="element type of the factors")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0], help="orders of A and B")
    parser.add_argument("--largest", type=int, default=4096, help="the largest m, n or k")
    parser.add_argument("--engine", choices=CHOICES, default=CHOICES[0])
    parser.add_argument("--json", type=Path, metavar="PATH", help="write what was found here")
    parser.add_argument("--records", type=Path, metavar="PATH", help="write the records for tables here")
    options = parser.parse_args(arguments)
    for name in ("problems", "largest"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    found: list[Regret] = []
    kept: list[Record] = []
    regrets_kind = json_kind("a file of regrets", "environment", "regrets")
    check_outputs([Output("--json", options.json, regrets_kind), Output("--records", options.records, Run.kind())])
    engine = resolve_engine(options.engine)
    smallest = min(64, options.largest)
    tables = store.load(engine.device_name)
    sizes = smallest, options.largest, tables
    problems = draw(options.problems, options.seed, *sizes, options.dtype, options.layout)
    for regret, records in regrets(engine, problems, baseline_library(engine)):
        found.append(regret)
        kept += records
        compared = f", {regret.ratio:.2f}x the baseline" if regret.ratio else ""
        longer = f"{100 * (regret.factor - 1):6.1f}%"
        print(f"{regret.shape:>16} {longer}{compared}  {regret.picked}  against  {regret.fastest}")
        # Each as it comes, so that a run cut off loses none.
        facts = environment(engine)
        if options.json:
            _write(options.json, facts, found)
        if options.records:
            Run(environment=facts, records=kept).save(options.records)
    print(f"{len(found)} problems: {100 * (mean(found) - 1):.1f}% slower than the fastest known, in the geometric mean")
    return 0


def _write(path: Path, facts: Mapping[str, Any], found: Sequence[Regret]) -> None:
    """A file names each config once, and tells others by its place."""
    numbers: dict[str, int] = {}

    def number(words: str) -> int:
        return numbers.setdefault(words, len(numbers))

    rows = [
        one._asdict()
        | {
            "picked": number(one.picked),
            "fastest": number(one.fastest),
            "times_us": [(number(words), float(f"{time_us:.5g}")) for words, time_us in (one.times_us or {}).items()],
        }
        for one in found
    ]
    save_json(path, {"environment": facts, "configs": list(numbers), "regrets": rows}, str(path))


def words(choice: Choice) -> str:
    """A kernel and its config, as regrets name them."""
    return f"{choice.kernel.name}:{choice.config}"


if __name__ == "__main__":
    sys.exit(main())
