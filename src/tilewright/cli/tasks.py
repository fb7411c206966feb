"""What a bench runs: kernels by their names or by groups, each on problems in an arithmetic that it has."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tilewright.cli.launches import Words
from tilewright.core.errors import ConfigError, ProblemError
from tilewright.core.problem import Arithmetic, Problem
from tilewright.kernels import BEST
from tilewright.kernels.spec import Choice, Kernel
from tilewright.kernels.takes import Takes

COURSE, LIBRARY = "course", "library"
"""Stand for the rungs, which are benched where no kernel is named, and for all other kernels."""

Task = tuple[list[Choice | str], list[Problem]]
"""What to run, and on which problems."""

Rounds = list[list[tuple[Choice | str, Problem]]]
"""What is verified together and shown in a table."""


def is_asked(kernel: Kernel, dtype: str | None, promise: str | None) -> bool:
    """Whether a kernel that is not named takes what is asked for."""
    return (dtype is None or dtype in kernel.takes.factors) and (not promise or kernel.keeps(promise))


def named_kernels(
    names: Sequence[str], every: bool, words: Words, takers: Sequence[Kernel]
) -> tuple[list[tuple[Kernel | str, Mapping[str, int]]], frozenset[Kernel]]:
    """The kernels that are asked for, or `BEST`, with overrides of their presets; and which of them are not named
    themselves: those are left out where they do not take a problem.

    Args:
        names, every: as the command is given them.
        words: options for source files.
        takers: kernels that the course and the library are taken from.
    """
    if every and names:
        raise ConfigError(f"--all takes no names of kernels, got {' '.join(names)}")
    found: list[tuple[Kernel | str, Mapping[str, int]]] = []
    free: set[Kernel] = set()
    for name in map(str.strip, names or ([COURSE, LIBRARY] if every else [COURSE])):
        if name == BEST:
            found.append((name, {}))
        elif name in (COURSE, LIBRARY):
            group = [kernel for kernel in takers if bool(kernel.rung) == (name == COURSE)]
            found += [(kernel, {}) for kernel in group]
            free |= {*group}
        else:
            kernel, preset = words.resolve(name)
            found.append((kernel, preset))
    return found, frozenset(free)


def by_arithmetic(
    choices: list[Choice | str],
    problems: list[Problem],
    dtype: str | None,
    out_dtype: str | None,
) -> list[Task]:
    """What to run on problems of the same arithmetic each: of the given types, or the first that a kernel takes."""
    tasks: dict[tuple[Arithmetic, Takes], list[Choice | str]] = {}
    promised = problems[0].arithmetic
    for choice in choices:
        takes = Takes() if isinstance(choice, str) else choice.kernel.takes
        arithmetic = takes.arithmetic(dtype or "")
        typed = replace(promised, factors=arithmetic.factors, result=out_dtype or arithmetic.result)
        scaled = takes if takes.block_scales else Takes()
        tasks.setdefault((typed, scaled), []).append(choice)
    return [
        (chosen, [scaled.scaled(replace(one, arithmetic=arithmetic)) for one in problems])
        for (arithmetic, scaled), chosen in tasks.items()
    ]


def taken(tasks: list[Task], problems: list[Problem], free: frozenset[Kernel], batch_invariant: bool) -> list[Task]:
    """The same without free kernels that do not take a problem, or are not batch-invariant where that is asked for.

    Raises:
        ProblemError: no kernel takes one of the problems.
    """
    if not free and tasks:
        return tasks
    found: list[Task] = []
    for choices, some in tasks:
        for problem in some:
            takers = [
                one
                for one in choices
                if isinstance(one, str) or one.kernel not in free or _takes(one, problem, batch_invariant)
            ]
            if takers:
                found.append((takers, [problem]))
    for problem in problems:
        if not any(problem.shape == one.shape and problem.layout == one.layout for _, (one,) in found):
            raise ProblemError(
                f"none of these kernels takes {problem.shape} {problem.case}; '{LIBRARY}' names those of the library, "
                f"'{BEST}' what matmul would take"
            )
    return found


def _takes(choice: Choice, problem: Problem, batch_invariant: bool) -> bool:
    kernel, config = choice
    return kernel.refusal(problem) is None and not (batch_invariant and kernel.sum_order(config) is None)


def rounds_of(tasks: list[Task], choices: list[Choice | str], together: bool) -> Rounds:
    """What to verify, a list for each table: on one problem, or together on one shape, in the order of choices."""
    if not together:
        return [[(one, problem) for one in chosen] for chosen, problems in tasks for problem in problems]
    rounds: dict[tuple[str, str], list[tuple[Choice | str, Problem]]] = {}
    for chosen, problems in tasks:
        for problem in problems:
            rounds.setdefault((problem.shape, problem.layout), []).extend((one, problem) for one in chosen)
    return [sorted(some, key=lambda one: choices.index(one[0])) for some in rounds.values()]
