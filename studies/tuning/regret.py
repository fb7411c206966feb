"""How much slower what the selector picks is than the fastest config known, on problems that are in no table.

python -m studies.tuning.regret measure --problems 20 --out regret.json --records drawn.json

The records, of what came within 1.5 times the fastest, are for `tuning.merge`, after which the problems are in a table.
"""

import math
import random
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from studies.record import Measurement, Measurements
from studies.runner import run
from tilewright.core.dtypes import DTYPES, default_result
from tilewright.core.errors import TilewrightError
from tilewright.core.files import Output, check_outputs
from tilewright.core.problem import LAYOUTS, Arithmetic, Problem, orders
from tilewright.kernels import KERNELS, recorded
from tilewright.kernels.spec import Choice
from tilewright.runtime.base import Engine
from tilewright.select.tables import store
from tilewright.select.tables.cases import posed
from tilewright.select.tables.table import Table
from tilewright.tools.bench.environment import environment
from tilewright.tools.bench.measure import BaselineLibrary, measure
from tilewright.tools.bench.records import Record, Run
from tilewright.tools.bench.run import baseline_library, pick
from tilewright.tools.tune.compiling import CompilePool
from tilewright.tools.tune.search import searchable
from tilewright.tools.tune.space import distinct

_NEARLY_BEST = 1.1
"""Known are the configs that come so near to the fastest on some tabled problem, and the kernels' defaults."""

_NEAR = 1.5
"""Records are kept of configs that take at most so many times as long as the fastest."""


class Regret(NamedTuple):
    """One problem: what was picked, and how many times longer it took than what was fastest."""

    problem: Problem
    picked: str
    """Kernel and config."""
    factor: float
    times_us: Mapping[str, float]
    """Of all that was measured, by kernel and config: what a better choice can be tried on."""
    ratio: float | None = None
    """The baseline's time over the pick's. None where there was no baseline."""


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
        if not any(any(table.measured(problem)) for table in tables):
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
        times_us = {words(choice): record.usual_us for choice, record in zip(choices, records, strict=True)}
        least = min(times_us.values())
        near = [record for record in records if record.usual_us <= _NEAR * least]
        yield Regret(problem, words(chosen), times_us[words(chosen)] / least, times_us, records[0].ratio), near


def words(choice: Choice) -> str:
    """A kernel and its config, as regrets name them."""
    return f"{choice.kernel.name}:{choice.config}"


class Configs(dict[str, int]):
    """Numbers of configs: a file names each once, with the first problem that has it."""

    def measured(self, one: Regret) -> Measurement:
        """A regret as a file has it."""
        new = [name for name in one.times_us if name not in self]
        self.update({name: len(self) + place for place, name in enumerate(new)})
        times_us = {self[name]: float(f"{us:.5g}") for name, us in one.times_us.items()}
        facts = {"factor": one.factor, "ratio": one.ratio, "configs": new, "times_us": times_us}
        what: dict[str, str | int] = {"shape": one.problem.shape, "case": one.problem.case}
        return Measurement(what=what, way=one.picked, us=one.times_us[one.picked], facts=facts)


def load(path: Path) -> tuple[dict[str, Any], list[Regret]]:
    """What a run wrote: its environment, and what it found.

    Raises:
        RecordsError: the file cannot be read, or holds something else.
    """
    run, configs, found = Measurements.load(path), [], []
    for one in run.measurements:
        facts, sizes = one.facts, Problem.parse(str(one.what["shape"]))
        problem = posed(sizes.m, sizes.n, sizes.k, str(one.what["case"]))
        configs += facts["configs"]
        times_us = {configs[int(number)]: us for number, us in facts["times_us"].items()}
        found.append(Regret(problem, one.way, facts["factor"], times_us, facts["ratio"]))
    return run.environment, found


def options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--problems", type=_at_least_1, default=20, metavar="N", help="how many to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0], help="element type of the factors")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0], help="orders of A and B")
    parser.add_argument("--largest", type=_at_least_1, default=4096, help="the largest m, n or k")
    parser.add_argument("--records", type=Path, metavar="PATH", help="write the records for tables here")


def _at_least_1(text: str) -> int:
    if int(text) < 1:
        raise ArgumentTypeError(f"must be at least 1, got {text}")
    return int(text)


def measurements(engine: Engine, given: Namespace) -> Iterator[Measurement]:
    """The regret of each problem; the file of records is written anew after each."""
    check_outputs([Output("--out", given.out, Measurements.kind()), Output("--records", given.records, Run.kind())])
    tables, kept, configs = store.load(engine.device_name), [], Configs()
    sizes = min(64, given.largest), given.largest, tables
    problems = draw(given.problems, given.seed, *sizes, given.dtype, given.layout)
    for regret, records in regrets(engine, problems, baseline_library(engine)):
        kept += records
        if given.records:
            Run(environment=environment(engine), records=kept).save(given.records)
        yield configs.measured(regret)


if __name__ == "__main__":
    sys.exit(run("tuning.regret", __doc__, measurements, options=options))
