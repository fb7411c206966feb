"""The search space: which configs of a kernel there are, and which of them a GPU can run."""

import itertools
from collections.abc import Iterable

from tilewright.core import gpus
from tilewright.core.gpus import Gpu
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.runtime.executable import CompileReport
from tilewright.tools.explain.cost.occupancy import occupancy


def configs(kernel: Kernel, capability: tuple[int, int] | None) -> list[Config]:
    """The configs of a kernel that meet its constraints.

    They are the kernel's default for this compute capability, its presets, and every combination of the values that
    its parameters name as worth trying, in this order.
    """
    found = {kernel.config(capability=capability): None}
    found |= {kernel.config(overrides): None for overrides in kernel.presets.values()}
    names = [parameter.name for parameter in kernel.parameters]
    for values in itertools.product(*(parameter.values for parameter in kernel.parameters)):
        config = Config(dict(zip(names, values, strict=True)))
        if all(holds(config) for holds in kernel.constraints.values()):
            found[config] = None
    return list(found)


def distinct(kernel: Kernel, configs: Iterable[Config], layout: str) -> list[Config]:
    """Configs without those that are the same code as an earlier one, for factors in these orders."""
    found: dict[object, Config] = {}
    for config in configs:
        code = frozenset(kernel.compiled(config).items())
        found.setdefault((code, kernel.layout_read(config, layout)), config)
    return list(found.values())


def unfit(kernel: Kernel, config: Config, gpu: Gpu, layout: str, report: CompileReport) -> str | None:
    """Why a GPU cannot run a kernel compiled for factors that memory has in these orders; None where it can."""
    limits = gpus.limits(gpu.capability)
    bundle = kernel.bundle(config)
    threads = bundle * kernel.threads(config)
    shared = bundle * kernel.shared_bytes(config, kernel.layout_read(config, layout)) + (report.shared_bytes or 0)
    if threads > limits.threads_per_block:
        return f"a block has {threads} threads, the GPU takes {limits.threads_per_block}"
    if shared > limits.shared_per_block:
        return f"a block takes {shared} bytes of shared memory, the GPU has {limits.shared_per_block}"
    registers = report.registers or 0
    if not occupancy(gpu.multiprocessor, threads, registers, shared).blocks:
        return f"{threads} threads of {registers} registers are more than a multiprocessor has"
    return None
