"""The cases of a check for which the user names no problem: in stages, what finds most in the least time first."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tilewright.core.errors import ConfigError
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.emulator.check import steps_in_flight, telling_shapes
from tilewright.emulator.engine import MULTIPROCESSORS
from tilewright.emulator.repeating import has_room
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Warpgroups
from tilewright.kernels.kernel import Kernel, valid_configs
from tilewright.select.tables.store import shipped
from tilewright.select.tables.table import config_of
from tilewright.tools.bench.case import (
    FAR_ABOVE,
    INFINITE,
    MANY,
    NAN,
    NEAR_OVERFLOW,
    CheckCase,
    fitting,
    problem_of,
    shared_sizes,
    shares_tiles,
)
from tilewright.tools.bench.feature_cases import feature_cases
from tilewright.tools.bench.huge import huge_problems, with_far_lines

_LAPS = 9
"""How often each stage of a pipeline is filled: what is one arrival of eight off shows then."""

_FEW, _TILES = 2, 8
"""Multiprocessors, and tiles of each of their blocks, where warpgroups take turns."""

_MATRICES = 3
"""Products of a batch."""

_LINES = 37
"""Lines of a matrix at least, where they are far apart."""


def stages(
    kernel: Kernel,
    config: Config,
    scalars: Sequence[Scalars],
    dtype: str = "",
    layouts: Sequence[str] = (),
    others: bool = True,
) -> list[list[CheckCase]]:
    """The cases of a kernel that nobody gave any for, each once. What finds most in the least time comes first:

    1. odd sizes, and such that tiles divide (`telling_shapes`), with the last of the scalars;
    2. of a source file rows that are aligned though their width is no multiple of 4, and odd sizes with other configs.
       Of our own kernels a step of one tile, a tile and a half with the other scalars, a deep tile, lines far apart
       (`huge_cases`), where the address space has room for them, a batch, alpha = 0 with factors that are not read, two
       tiles that all blocks share, where blocks share tiles, elements that parts may not represent (`UNFIT`), where it
       multiplies parts, many tiles, where warpgroups take turns at them, and k = 0;
    3. of our own kernels every feature, and every value of a parameter that ships (`feature_cases`).

    Args:
        kernel, config: what is checked.
        scalars: the last of them is that of most cases.
        dtype: of the factors; if empty, those that the kernel takes.
        layouts: orders of A and B; if empty, those that the kernel takes.
        others: whether other configs are to be checked too.

    Raises:
        ConfigError: a source's grid is whole for none of these sizes.
    """
    divided, odd = telling_shapes(kernel, config)
    usual = layouts or ("NN" if "NN" in kernel.support.layouts else kernel.support.layouts[0],)
    # With k = 0 it takes any.
    usual = [order for order in usual if kernel.why_not(problem_of(kernel, divided, dtype, order)) is None]
    one = scalars[-1:]
    first: list[CheckCase] = []
    second: list[CheckCase] = []

    def add(
        found: list[CheckCase],
        shape: tuple[int, int, int],
        scalars: Sequence[Scalars] = one,
        config: Config = config,
        aligned: bool = False,
        batch: int = 1,
        **others: Any,
    ) -> None:
        """Add cases of these sizes in all orders that the kernel takes. others: the cases' other fields."""
        for layout in usual:
            problem = problem_of(kernel, shape, dtype, layout, aligned, batch)
            if kernel.why_not(problem) is None and _has_grid(kernel, problem, config):
                found.extend(CheckCase(problem, fitting(of, problem.result), config, **others) for of in scalars)

    if kernel.is_user_kernel:
        add(first, divided, scalars)
        add(first, odd, scalars)
        if kernel.support.gaps:
            add(second, odd, aligned=True)
        for other in other_configs(kernel, config) if others else ():
            add(second, telling_shapes(kernel, other)[1], config=other)
        if not first and not second and usual:
            kernel.grid(problem_of(kernel, divided, dtype, usual[0]), config, MULTIPROCESSORS)  # says what it wants
        return _distinct([*first, *second])
    add(first, odd)
    add(first, divided)
    if has_room():
        second += huge_cases(kernel, config, one, dtype, usual)
    tile = kernel.tile(config)
    small = tile.m + tile.m // 2 + 3, tile.n // 2 + 5, odd[2]
    add(second, tile, scalars)
    add(second, small, scalars[:-1])
    add(second, (tile.m - tile.m // 8, max(tile.n - 3, 1), _LAPS * steps_in_flight(kernel, config) * tile.k - 3))
    if kernel.support.batches:
        add(second, (tile.m // 2 + 3, tile.n // 2 + 5, odd[2]), batch=_MATRICES)
    if kernel.support.separate_c:
        add(second, small, [scalars[-1]._replace(alpha=0)], values=NAN)
    if shares_tiles(kernel, config):
        add(second, shared_sizes(kernel, config), multiprocessors=MANY)
    if kernel.has_fallback:
        add(second, small, scalars[:1], unfit=INFINITE)
        add(second, small, unfit=NEAR_OVERFLOW)
        if kernel.constants(config).get("SCALED"):
            add(second, small, unfit=FAR_ABOVE)
    for m, n, _ in (divided, odd):
        add(second, (m, n, 0))
    configs = [config]
    if others:
        configs += [*_shipped_configs(kernel), *other_configs(kernel, config)]
        configs += _of_other_values(kernel, configs)
    if isinstance(kernel.cost, Warpgroups) and (alternating := next(filter(kernel.cost.alternates, configs), None)):
        shape = _turns(kernel, alternating, problem_of(kernel, divided, dtype, "NN"))
        add(second, shape, config=alternating, multiprocessors=_FEW)
    types = [dtype] if dtype else kernel.support.factors
    return _distinct(first, second, feature_cases(kernel, configs, scalars, types, layouts or kernel.support.layouts))


def _distinct(*found: list[CheckCase]) -> list[list[CheckCase]]:
    """Stages without the cases that earlier ones have; none that is empty."""
    seen: set[CheckCase] = set()
    stages = []
    for stage in found:
        stages.append([case for case in dict.fromkeys(stage) if case not in seen])
        seen.update(stage)
    return [stage for stage in stages if stage]


def _turns(kernel: Kernel, config: Config, problem: Problem) -> tuple[int, int, int]:
    """Sizes of which each block has tiles for some turns of both of its warpgroups: what is one arrival of four off
    shows in the third."""
    assert isinstance(kernel.cost, Warpgroups)
    tile, across = kernel.tile(config), kernel.cost.across(config)
    blocks = kernel.grid(replace(problem, m=2**20, a=Layout(problem.a.order), d=Layout(), c=None), config, _FEW)
    return _TILES * blocks // across * tile.m - 3, across * tile.n - 3, 2 * tile.k - 3


def huge_cases(
    kernel: Kernel, config: Config, scalars: Sequence[Scalars], dtype: str = "", layouts: Sequence[str] = ("NN",)
) -> list[CheckCase]:
    """Matrices that reach past 2^32 elements: small ones whose lines are far apart, one at a time and in a batch, and
    with aligned lines. Where a kernel takes no lines apart, sizes of which some blocks are run.

    Args:
        kernel, config, scalars, dtype, layouts: as `stages`.

    Raises:
        ConfigError: no grid of such sizes is one that GPUs take.
    """
    problems: list[tuple[Problem, bool]] = []
    for layout in layouts:
        if not kernel.support.gaps:
            of_sizes = partial(problem_of, kernel, dtype=dtype, layout=layout)
            problems += [(problem, True) for problem in huge_problems(kernel, config, of_sizes)]
            continue
        tile = kernel.tile(config)
        sides = max(tile.m + tile.m // 2 + 3, _LINES), max(tile.n // 2 + 5, _LINES)
        shape = (131, 77, 45) if kernel.is_user_kernel else (*sides, max(tile.k + 13, _LINES))
        one = problem_of(kernel, shape, dtype, layout)
        if not _has_grid(kernel, one, config):
            one = problem_of(kernel, telling_shapes(kernel, config)[0], dtype, layout)
        problems += [(with_far_lines(one, aligned), False) for aligned in (True, False)]
        if kernel.support.batches:
            problems.append((with_far_lines(problem_of(kernel, shape, dtype, layout, batch=2), True), False))
    found = [
        CheckCase(problem, fitting(of, problem.result), config, sampled=sampled)
        for problem, sampled in problems
        if kernel.why_not(problem) is None
        for of in scalars
    ]
    if not found and not kernel.support.gaps:
        raise ConfigError(f"{kernel.name} has no grid that GPUs take for matrices of more than 2^32 elements")
    return found


def other_configs(kernel: Kernel, config: Config) -> list[Config]:
    """Other configs of a kernel: its first preset that differs; one of which every parameter differs as far as the
    constraints allow, with the first such values; and one of the same tile, with the last."""
    compiled = kernel.compiled(config)
    presets = (other for other in valid_configs(kernel, kernel.presets.values()) if kernel.compiled(other) != compiled)
    first = last = config
    for one in kernel.parameters:
        values = [value for value in one.values if one.compiled and value != config[one.name]]
        first = next(valid_configs(kernel, ({**first, one.name: value} for value in values)), first)
        others = valid_configs(kernel, ({**last, one.name: value} for value in reversed(values)))
        last = next((other for other in others if kernel.tile(other) == kernel.tile(config)), last)
    found = [*itertools.islice(presets, 1), first, last]
    return [other for i, other in enumerate(found) if other != config and other not in found[:i]]


def _of_other_values(kernel: Kernel, configs: Sequence[Config]) -> list[Config]:
    """For each parameter of which all these configs have the same value, one that differs from some of them in it
    alone, if the constraints allow any."""
    found: list[Config] = []
    for one in kernel.parameters:
        used = {config[one.name] for config in configs}
        if one.compiled and len(used) == 1:
            values = [value for value in one.values if value not in used]
            candidates = ({**config, one.name: value} for config in configs for value in values)
            found += itertools.islice(valid_configs(kernel, candidates), 1)
    return found


def _has_grid(kernel: Kernel, problem: Problem, config: Config) -> bool:
    """Whether a source's grid is whole for a problem, which says that it takes such sizes."""
    try:
        kernel.grid(problem, config, MULTIPROCESSORS)
    except ConfigError:
        return False
    return True


def _shipped_configs(kernel: Kernel) -> list[Config]:
    """Configs of a kernel that ship, each once: its default, its presets, what was tuned for GPUs, its portfolio, and
    those of shipped tables. Of a kernel from a source file the default and presets."""
    own = valid_configs(kernel, ({}, *kernel.presets.values(), *kernel.portfolio))
    choices = [] if kernel.is_user_kernel else [choice for table in shipped() for choice in table.choices]
    tabled = (config_of(choice) for choice in choices if choice[0] == kernel.name)
    return list(dict.fromkeys((*own, *filter(None, tabled))))
