"""What the page shows of journals: the configs that the autotuner tried, by kernel, problem and device."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tilewright.core.problem import Scalars
from tilewright.tuning.journal import Trial


def searches(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """One entry a search, that of the most trials first, as the page's script takes it.

    Each holds `title`; `parameters`, the names; `counts`, the outcomes in words; and `trials`, each with the `values`
    of the parameters, the `outcome`, `gflops` and `time_us` (None where it was not timed), `at_s`, the seconds of
    searching by then, `registers`, and `note`, what a compiler or engine said.
    """
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        words = [trial.kernel, trial.shape, trial.case, trial.device]
        if trial.scalars != Scalars():
            words.insert(3, f"alpha {trial.alpha:g}, beta {trial.beta:g}")
        title = ", ".join(words)
        groups.setdefault((title, trial.digest), []).append(trial)
    sources = Counter(title for title, _ in groups)
    return [
        {"title": f"{title}, source {digest}" if sources[title] > 1 else title, **_search(group)}
        for (title, digest), group in sorted(groups.items(), key=lambda one: -len(one[1]))
    ]


def _search(group: Sequence[Trial]) -> dict[str, Any]:
    group = sorted(group, key=lambda trial: trial.at_s)
    names = list(dict.fromkeys(name for trial in group for name in trial.config))
    outcomes = Counter(trial.outcome for trial in group)
    shown = ("outcome", "gflops", "time_us", "at_s", "registers", "note")
    return {
        "parameters": names,
        "counts": ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()),
        "trials": [
            {
                "values": [trial.config.get(name) for name in names],
                "gflops": trial.gflops,
                **trial.model_dump(include=shown),
            }
            for trial in group
        ],
    }
