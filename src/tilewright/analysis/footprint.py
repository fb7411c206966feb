"""What a block of a kernel asks of a multiprocessor: room, and cycles for one step along k, whatever the problem."""

from tilewright.analysis.models import copying, staging, streaming, thin, warpgroups, warps
from tilewright.analysis.models.block import Footprint, Needs
from tilewright.analysis.models.staging import Demand
from tilewright.analysis.occupancy import occupancy
from tilewright.core.gpus import Gpu, Multiprocessor
from tilewright.engines.base import CompileReport
from tilewright.kernels.families import Copying, Streaming, Thin, Warpgroups, Warps
from tilewright.kernels.spec import Config, Kernel
from tilewright.kernels.takes import Variant


def footprint(
    kernel: Kernel,
    config: Config,
    gpu: Gpu,
    variant: Variant,
    report: CompileReport | None = None,
    starts: tuple[int, int] = warpgroups.WHOLE_LINES,
    demand: Demand | None = None,
) -> Footprint:
    """What a kernel with a config asks of a GPU, by its family; registers are estimated where there is no report.

    starts: the bytes at multiples of which rows (or columns) of A and of B start, at most a line's.
    demand: what was counted of a kernel of the family `Staging`; without, it is estimated.
    """
    sm, family, bundle = gpu.multiprocessor, kernel.cost, kernel.bundle(config)
    if report is not None and report.registers is not None:
        needs = Needs(report.registers, report.spill_bytes or 0, report.shared_bytes or 0)
    else:
        needs = _estimate(kernel, config, sm, variant.layout)
    shared_bytes = bundle * kernel.shared_bytes(config, variant.layout) + needs.static_shared_bytes
    room = occupancy(sm, kernel.threads(config), needs.registers, shared_bytes, bundle)
    if isinstance(family, Streaming):
        return streaming.footprint(kernel, family, config, sm, room)
    if isinstance(family, Copying):
        return copying.footprint(kernel, family, config, sm, variant, room, needs.spill_bytes)
    if isinstance(family, Thin):
        return thin.footprint(kernel, family, config, sm, variant, room)
    if isinstance(family, Warpgroups):
        return warpgroups.footprint(kernel, family, config, sm, variant, room, starts)
    if isinstance(family, Warps):
        return warps.footprint(kernel, family, config, sm, variant, room)
    asked = demand or staging.estimate(kernel, family, config, sm, variant)
    return staging.footprint(kernel, config, sm, asked, room, needs.spill_bytes)


def _estimate(kernel: Kernel, config: Config, sm: Multiprocessor, layout: str) -> Needs:
    family = kernel.cost
    if isinstance(family, Streaming):
        return streaming.needs(kernel, family, config, sm)
    if isinstance(family, Copying):
        return copying.needs(kernel, family, config, sm)
    if isinstance(family, Warpgroups):
        return warpgroups.needs(kernel, family, config, sm)
    if isinstance(family, Warps):
        return warps.needs(kernel, family, config, sm)
    return staging.needs(kernel, config, sm, layout)
