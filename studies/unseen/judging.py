"""Drawn shapes measured: what is picked, what was picked before, the portfolios, torch.mm and cuBLASLt, in turns."""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.unseen.drawing import EVEN, UNEVEN, Drawn
from studies.unseen.other_products import others
from studies.unseen.picks import Picks, key, problem_of
from tilewright.core.problem import Problem
from tilewright.kernels import find, recorded
from tilewright.kernels.kernel import Choice
from tilewright.select.selector import select
from tilewright.tools.tune.survey import Survey, Surveyed, SurveyMemory, in_portfolios

SAMPLES = 7
AGAIN = 2
"""More measurements of the picks and the fastest configs of a portfolio, and one more of what is under the row's least:
medians of all count."""
FASTEST = 3
"""Configs of the portfolio that are timed again."""

LEAST = {"bfloat16": (0.52, 0.7), "float16": (0.52, 0.7), "float32": (0.8, 0.8)}
"""By type, the least speedup over torch.mm that shapes of each kind are to have; one under it is measured again."""


@dataclass
class Judged:
    """A shape, and microseconds by who multiplied."""

    drawn: Drawn
    pick: Choice
    before: Choice | None
    us: dict[Choice, list[float]] = field(default_factory=dict)
    others: dict[str, list[float]] = field(default_factory=dict)

    def add(self, found: Surveyed) -> None:
        """Keep one more measurement."""
        for choice, us in found.us.items():
            self.us.setdefault(choice, []).append(us)
        for name, us in found.others.items():
            self.others.setdefault(name, []).append(us)

    def of(self, choice: Choice | None) -> float | None:
        """Microseconds of a choice, the median; None where it was not timed."""
        return statistics.median(self.us[choice]) if choice is not None and choice in self.us else None

    @property
    def torch(self) -> float | None:
        """Microseconds of torch.mm."""
        return statistics.median(self.others["mm"]) if "mm" in self.others else None

    @property
    def best_of_cublas(self) -> float | None:
        """Microseconds of the faster of torch.mm and cuBLASLt's algorithms."""
        return min(map(statistics.median, self.others.values()), default=None)

    @property
    def fastest(self) -> list[Choice]:
        """The configs of portfolios that were timed, the fastest first."""
        return sorted(self.us, key=lambda one: self.of(one) or 0.0)

    def facts(self) -> dict[str, Any]:
        """As a line of a file."""
        best = self.fastest[:1]
        return {
            **self.drawn._asdict(),
            "pick": _words(self.pick),
            "pick_us": self.of(self.pick),
            "before": _words(self.before),
            "before_us": self.of(self.before),
            "best": _words(best[0] if best else None),
            "best_us": self.of(best[0]) if best else None,
            "torch_us": self.torch,
            "cublas_us": self.best_of_cublas,
        }


def _words(choice: Choice | None) -> str | None:
    return f"{choice.kernel.name} {choice.config}" if choice else None


def judge(
    engine: Any, shapes: Sequence[Drawn], row: str, before: Picks, portfolios: bool, seconds: float
) -> list[Judged]:
    """Measure shapes.

    Args:
        engine: a GPU.
        shapes, row: what is multiplied.
        before: what another revision picks.
        portfolios: whether all portfolios are measured, to tell the regret.
        seconds: after which no other shape is begun.
    """
    end, dtype = time.monotonic() + seconds, row.partition(":")[0]
    judged = {problem_of(one, row): _asked(engine, one, row, before) for one in shapes}
    memory = SurveyMemory(engine, dtype)
    libraries = others(engine, memory, dtype)

    def measure(problems: Sequence[Problem], choices: Callable[[Problem], Iterable[Choice]], timed: int) -> None:
        one = Survey(engine, memory, lambda problem: list(dict.fromkeys(choices(problem))), timed)
        for found in one.run(problems, end - time.monotonic(), libraries, SAMPLES):
            judged[found.problem].add(found)
        for choice, words in list(one.refused.items())[:5]:
            print(f"refused {_words(choice)}: {words[:150]}", flush=True)

    def picked(problem: Problem) -> Iterable[Choice]:
        return filter(None, (judged[problem].pick, judged[problem].before))

    def all_of(problem: Problem) -> Iterable[Choice]:
        return (*picked(problem), *(in_portfolios(problem, engine.capability) if portfolios else ()))

    measure(list(judged), all_of, 2)
    for _ in range(AGAIN if portfolios else 0):
        timed = [problem for problem, one in judged.items() if one.us]
        measure(timed, lambda problem: (*picked(problem), *judged[problem].fastest[:FASTEST]), 5)
    slow = [problem for problem, one in judged.items() if _is_slow(one, dtype)]
    print(f"{len(slow)} shapes are measured again", flush=True)
    for _ in range(3):
        measure(slow, picked, 2)
    return [one for one in judged.values() if one.us]


def _asked(engine: Any, drawn: Drawn, row: str, before: Picks) -> Judged:
    pick = Choice(*select(problem_of(drawn, row), engine.capability, engine.device_name))
    name, values = before.get(key(drawn, row), ("", {}))
    config = recorded(name, values) if name else None
    return Judged(drawn, pick, Choice(find(name), config) if config else None)


def _is_slow(one: Judged, dtype: str) -> bool:
    least = LEAST[dtype][one.drawn.kind != EVEN]
    ours, torch = one.of(one.pick), one.torch
    return ours is not None and torch is not None and torch < least * ours


def summary(judged: Sequence[Judged], title: str) -> Iterable[str]:
    """Lines that say how good the picks are."""
    ratios = {
        "over torch.mm": [(one.torch, one.of(one.pick)) for one in judged],
        "over the best of cuBLAS": [(one.best_of_cublas, one.of(one.pick)) for one in judged],
        "over the picks before": [(one.of(one.before), one.of(one.pick)) for one in judged],
        "the picks before over torch.mm": [(one.torch, one.of(one.before)) for one in judged],
        "the portfolio's best over torch.mm": [(one.torch, one.of(one.fastest[0])) for one in judged],
    }
    for name, pairs in ratios.items():
        known = sorted(first / second for first, second in pairs if first and second)
        if known:
            low = known[len(known) // 20]
            under = sum(one < 0.98 for one in known), sum(one < 0.9 for one in known)
            yield (
                f"{title} {name}: {len(known)} shapes, mean {statistics.geometric_mean(known):.3f}, 5th percentile "
                f"{low:.3f}, least {known[0]:.3f}, {under[0]} under 0.98, {under[1]} under 0.9"
            )
    for name, picks in (("regret", [one.pick for one in judged]), ("regret before", [one.before for one in judged])):
        pairs = [(one.of(pick), one.of(one.fastest[0])) for one, pick in zip(judged, picks, strict=True)]
        known = sorted(first / second for first, second in pairs if first and second)
        if known:
            high = known[min(round(0.95 * len(known)), len(known) - 1)]
            yield f"{title} {name}: mean {statistics.geometric_mean(known):.3f}, 95th percentile {high:.3f}"


def report(judged: Sequence[Judged], row: str) -> None:
    """Print how good the picks are, of each kind of shapes and of all, and the slowest next to torch.mm."""
    kinds = {kind: [one for one in judged if one.drawn.kind == kind] for kind in (EVEN, UNEVEN)}
    for kind, some in {**kinds, "all": judged}.items():
        for line in summary(some, f"{row}, {kind},"):
            print(line)
    for one in sorted(judged, key=lambda one: (one.torch or 0) / (one.of(one.pick) or 1))[:12]:
        print("  ", json.dumps(one.facts()))


def write(path: Path, judged: Mapping[str, Sequence[Judged]]) -> None:
    """Write what was measured, a line a shape."""
    lines = ({"row": row, **one.facts()} for row, some in judged.items() for one in some)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
