"""How much slower what the selector picks is than the fastest config known, on problems that are in no table.

python -m tilewright.tuning.regret --problems 20 --json regret.json
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

from tilewright.bench.environment import environment
from tilewright.bench.measure import Choice, measure
from tilewright.engines.base import Engine
from tilewright.engines.registry import CHOICES, resolve_engine
from tilewright.errors import ConfigError, KernelNotFoundError, RecordsError, TilewrightError
from tilewright.files import save_json
from tilewright.kernels import LADDER, find
from tilewright.problem import Problem
from tilewright.select import select
from tilewright.tables import store
from tilewright.tuning.compiling import CompilePool
from tilewright.tuning.search import searchable

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


def draw(count: int, seed: int, smallest: int = 64, largest: int = 4096) -> list[Problem]:
    """Problems with sizes drawn evenly over their logarithms, half of them multiples of 32, none of them in a suite."""
    rng = random.Random(seed)

    def size(step: int) -> int:
        drawn = math.exp(rng.uniform(math.log(smallest), math.log(largest)))
        return max(round(drawn / step), 1) * step

    return [Problem(size(step), size(step), size(step)) for step in (32 if index % 2 else 1 for index in range(count))]


def known(problem: Problem, engine: Engine) -> list[Choice]:
    """The configs that a pick is judged by."""
    kernels = searchable(LADDER, problem, engine.capability)
    choices = {Choice(kernel, kernel.config(capability=engine.capability)): None for kernel in kernels}
    for table in store.load(engine.device_name):
        fastest = {entry.problem: entry.gflops for entry in sorted(table.entries, key=lambda entry: entry.gflops)}
        for entry in table.entries:
            if entry.dtype == problem.dtype and entry.gflops * _NEARLY_BEST >= fastest[entry.problem]:
                try:
                    choice = Choice(find(entry.kernel), find(entry.kernel).config(entry.config))
                except (KernelNotFoundError, ConfigError):
                    continue  # of an older ladder
                if choice.kernel in kernels:
                    choices[choice] = None
    return list(choices)


def regrets(engine: Engine, problems: Iterable[Problem], samples: int = 5) -> Iterator[Regret]:
    """Measure, on each problem, the pick and all that is known.

    Raises:
        TilewrightError: a config cannot be run, or its result is wrong.
    """
    for problem in problems:
        pick = Choice(*select(problem, engine.capability, engine.device_name))
        choices = list(dict.fromkeys([pick, *known(problem, engine)]))
        with CompilePool(engine, problem) as pool:
            for choice in choices:
                pool.submit(choice)
            while len(pool):
                list(pool.finished(1.0))
        records = measure(engine, choices, problem, samples=samples, library=None)
        wrong = [record.kernel for record in records if not record.verified]
        if wrong:
            raise TilewrightError(f"wrong results on {problem.shape}: {', '.join(wrong)}")
        picked = words(pick)
        times_us = {words(choice): record.time_us.median for choice, record in zip(choices, records, strict=True)}
        fastest = min(times_us, key=times_us.__getitem__)
        yield Regret(problem.shape, picked, fastest, times_us[picked] / times_us[fastest], times_us)


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
        return facts["environment"], [Regret(**regret) for regret in facts["regrets"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordsError(f"{path} is not what tuning.regret writes: {error!r}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.tuning.regret", description=__doc__)
    parser.add_argument("--problems", type=int, default=20, metavar="N", help="how many to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--largest", type=int, default=4096, help="the largest m, n or k")
    parser.add_argument("--engine", choices=CHOICES, default=CHOICES[0])
    parser.add_argument("--json", type=Path, metavar="PATH", help="write what was found here")
    options = parser.parse_args(arguments)
    found: list[Regret] = []
    try:
        engine = resolve_engine(options.engine)
        problems = draw(options.problems, options.seed, min(64, options.largest), options.largest)
        for regret in regrets(engine, problems):
            found.append(regret)
            print(f"{regret.shape:>16} {100 * (regret.factor - 1):6.1f}%  {regret.picked}  against  {regret.fastest}")
            if options.json:
                _write(options.json, engine, found)  # each as it comes, so that a run cut off loses none
    except TilewrightError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{len(found)} problems: {100 * (mean(found) - 1):.1f}% slower than the fastest known, in the geometric mean")
    return 0


def _write(path: Path, engine: Engine, found: Sequence[Regret]) -> None:
    facts = {"environment": environment(engine), "regrets": [regret._asdict() for regret in found]}
    save_json(path, facts, str(path))


def words(choice: Choice) -> str:
    """A kernel and its config, as regrets name them."""
    return f"{choice.kernel.name}:{choice.config}"


if __name__ == "__main__":
    sys.exit(main())
