"""SourceKernel: a kernel that was read from CUDA C++ which knows nothing of this package."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tilewright.core.errors import ConfigError
from tilewright.core.problem import Problem
from tilewright.kernels.config import Config
from tilewright.kernels.geometry import Launch, Schedule
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Addresses, Variant


class Origin(NamedTuple):
    """What a kernel was read from: it is read so again in another process."""

    place: str
    """The source file, or its text."""
    entry: str
    words: tuple[tuple[str, str], ...]
    """What replaces words of its lines."""
    defines: tuple[tuple[str, str], ...]
    """Macros, and arguments of its template."""


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class SourceKernel(Kernel):
    """A matrix product whose source says in comment lines, and in its signature, how it is launched."""

    origin: Origin
    extents: Callable[[Problem, Config], tuple[int, int, int]]
    """Blocks of the grid along x, y and z."""
    entry: Callable[[Config], str]
    """The entry point, with its template arguments if it has some."""
    template: tuple[str, ...] = ()
    """Names of the parameters of the source's template, whose arguments `entry` has; they are no macros."""
    no_tile: Callable[[Config], ConfigError | None] = lambda config: None
    """Why nothing says which tile of C a block computes, where that is so."""
    rounding_maps: bool = False
    """Whether its tensor maps round float32 factors to TF32."""

    foreign: ClassVar[bool] = True

    @property
    def maps_round(self) -> bool:
        """Whether the copy engine rounds factors to TF32 as it loads them."""
        return super().maps_round and self.rounding_maps

    def untold(self, config: Config) -> ConfigError | None:
        """Why nothing says which tile of D a block computes, where that is so: `tile` is a guess then."""
        return self.no_tile(config)

    def entry_point(self, config: Config) -> str:
        """The `__global__` function that is launched, with its template arguments."""
        return self.entry(config)

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

    def variant(self, problem: Problem, config: Config, addresses: Addresses = Addresses()) -> Variant:
        """What the operands of a problem, at these addresses, say of the code, which guards edges itself."""
        return super().variant(problem, config, addresses)._replace(edges=False)

    def defines(self, config: Config, variant: Variant) -> dict[str, int | str]:
        """The macros that the source is compiled with: its parameters, and what it was given."""
        macros: dict[str, int | str] = {**self.compiled(config), **self.constants(config)}
        return {name: value for name, value in macros.items() if name not in self.template}
