"""Demands of a kernel's block on a multiprocessor: room, and cycles for one step along k, whatever the problem."""

from collections.abc import Mapping
from typing import Any

from tilewright.core.gpus import Gpu
from tilewright.kernels.config import Config
from tilewright.kernels.cost_family import Copying, SmallM, Staging, Streaming, Warpgroups, Warps
from tilewright.kernels.kernel import Kernel
from tilewright.kernels.support import Variant
from tilewright.runtime.executable import CompileReport
from tilewright.tools.explain.cost.models import copying, small_m, staging, streaming, warpgroups, warps
from tilewright.tools.explain.cost.models.block import Asked, Demand, Footprint, Usage
from tilewright.tools.explain.cost.occupancy import occupancy

_MODELS: Mapping[type, Any] = {
    Staging: staging, Copying: copying, Streaming: streaming, SmallM: small_m, Warpgroups: warpgroups, Warps: warps,
}  # fmt: skip
"""By family, the module with its `needs` and its `footprint`."""


def footprint(
    kernel: Kernel,
    config: Config,
    gpu: Gpu,
    variant: Variant,
    report: CompileReport | None = None,
    starts: tuple[int, int] = warpgroups.WHOLE_LINES,
    demand: Demand | None = None,
) -> Footprint:
    """Footprint of a kernel with a config on a GPU, by its family; registers are estimated where there is no report.

    starts: the bytes at multiples of which rows (or columns) of A and of B start, at most a line's.
    demand: what was counted of a kernel of the family `Staging`; without, it is estimated.
    """
    sm, family, bundle = gpu.multiprocessor, kernel.cost, kernel.bundle(config)
    model = _MODELS[type(family)]
    if report is not None and report.registers is not None:
        needs = Usage(report.registers, report.spill_bytes or 0, report.shared_bytes or 0)
    else:
        needs = model.needs(kernel, family, config, sm, variant.layout)
    shared_bytes = bundle * kernel.shared_bytes(config, variant.layout) + needs.static_shared_bytes
    room = occupancy(sm, kernel.threads(config), needs.registers, shared_bytes, bundle)
    found: Footprint = model.footprint(
        Asked(kernel, config, sm, variant, room, needs.spill_bytes, starts, demand), family
    )
    return found
