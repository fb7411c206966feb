"""The configs of a kernel that ship with the package: its own, and those that tables name."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from tilewright.kernels.spec import Config, Kernel, valid_configs
from tilewright.tables.store import shipped
from tilewright.tables.table import config_of


def shipped_configs(kernel: Kernel) -> list[Config]:
    """Configs of a kernel that ship, each once: its default, its presets, what was tuned for GPUs, and those of shipped
    tables. Of a kernel from a source file the default and presets."""
    own = list(valid_configs(kernel, ({}, *kernel.presets.values(), *kernel.tuned.values())))
    tabled = () if kernel.foreign else _tabled().get(kernel.name, ())
    return list(dict.fromkeys((*own, *tabled)))


@lru_cache
def _tabled() -> Mapping[str, Sequence[Config]]:
    """Configs that shipped tables name, by the kernel's name."""
    found = defaultdict(list)
    for table in shipped():
        for choice in table.choices:
            found[choice[0]].append(config_of(choice))
    return found
