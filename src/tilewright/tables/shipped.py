"""The configs of a kernel that ship with the package: its own, and those that tables name."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from tilewright.errors import ConfigError
from tilewright.kernels.old_configs import upgraded
from tilewright.kernels.spec import Config, Kernel
from tilewright.tables.store import shipped


def shipped_configs(kernel: Kernel) -> list[Config]:
    """Configs of a kernel that ship, each once: its default, its presets, what was tuned for GPUs, and those of shipped
    tables. Of a kernel from a source file the default and presets."""
    own = list(_valid(kernel, ({}, *kernel.presets.values(), *kernel.tuned.values())))
    tabled = () if kernel.foreign else _tabled().get(kernel.name, ())
    return list(dict.fromkeys((*own, *tabled)))


@lru_cache
def _tabled() -> Mapping[str, Sequence[Config]]:
    """Configs that shipped tables name, by the kernel's name."""
    found = defaultdict(list)
    for table in shipped():
        for kernel, names, values in table.choices:
            config = upgraded(kernel, dict(zip(names, values, strict=True)))
            if config is not None:
                found[kernel].append(config)
    return found


def _valid(kernel: Kernel, overrides: Sequence[Mapping[str, int]]) -> Iterator[Config]:
    for one in overrides:
        try:
            yield kernel.config(one)
        except ConfigError:
            continue
