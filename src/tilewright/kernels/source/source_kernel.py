"""SourceKernel: a kernel that was read from CUDA C++ which knows nothing of this package."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

from tilewright.core.errors import ConfigError
from tilewright.core.problem import Problem
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel, Launch, Schedule
from tilewright.kernels.support import Variant


class Origin(NamedTuple):
    """Source that a kernel was read from: another process reads the kernel from it again."""

    source_name: str
    """The source file, or its text."""
    entry: str
    words: tuple[tuple[str, str], ...]
    """Words that replace those of the source's lines."""
    defines: tuple[tuple[str, str], ...]
    """Macros, and arguments of its template."""


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class SourceKernel(Kernel):
    """A matrix product whose source says in comment lines, and in its signature, how it is launched."""

    origin: Origin
    extents: Callable[[Problem, Config], tuple[int, int, int]]
    """Blocks of the grid along x, y and z."""
    entry_point: Callable[[Config], str]
    """The `__global__` function that is launched, with its template arguments if it has some."""
    template: tuple[str, ...] = ()
    """Names of the parameters of the source's template, whose arguments `entry_point` has; they are no macros."""
    unknown_tile: Callable[[Config], ConfigError | None] = lambda config: None
    """Why nothing says which tile of D a block computes, where that is so: `tile` is a guess then."""
    edges: str = ""
    """Macro of the source that is 1 where tiles do not divide the product, and else 0; '' where it has none."""
    aligned: str = ""
    """Macro that is 1 where every row of A, B and C starts at a multiple of 16 bytes."""
    rounding_maps: bool = False
    """Whether its tensor maps round float32 factors to TF32."""

    is_user_kernel: ClassVar[bool] = True

    @property
    def has_variants(self) -> bool:
        """Whether the source has macros for facts about the operands."""
        return bool(self.edges or self.aligned)

    @cached_property
    def maps_round(self) -> bool:
        """Whether the copy engine rounds factors to TF32 as it loads them."""
        return self.rounding_maps and self.support.precision == "tf32"

    def scheduled(self, problem: Problem, config: Config, multiprocessors: int) -> Schedule:
        """The blocks of the grid that the source asks for."""
        return Schedule(math.prod(self.extents(problem, config)))

    def launch(self, problem: Problem, config: Config, multiprocessors: int, blocks: int | None = None) -> Launch:
        """Geometry of the launch, its blocks counted as the source does.

        Raises:
            LaunchError: they are no whole clusters.
        """
        launch = super().launch(problem, config, multiprocessors, blocks)
        return launch._replace(grid=self.extents(problem, config))

    def defines(self, config: Config, variant: Variant) -> dict[str, int | str]:
        """The macros that the source is compiled with: its parameters, what it was given, and facts of the operands."""
        macros: dict[str, int | str] = {**self.compiled(config), **self.constants(config)}
        macros |= {self.edges: int(variant.edges), self.aligned: int(variant.aligned)}
        return {name: value for name, value in macros.items() if name and name not in self.template}
