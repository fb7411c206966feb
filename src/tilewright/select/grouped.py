"""The config to run a grouped product with: by the cost model, since no table has such products.

How many rows each group has is known on the GPU alone. A group of r rows takes r / H rows of tiles and, where it ends
anywhere within one, half a row of them more, H being a row's height; at least one. So the product is taken for a tall
one of that many rows of tiles, whose factor B is as large as the matrices of all groups.
"""

from functools import lru_cache

from tilewright.analysis.cost import CostModel, Sizes
from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.gpus import Gpu, find_gpu
from tilewright.core.problem import Layout, Problem
from tilewright.kernels.library.grouped_sm90 import kernel_for
from tilewright.kernels.spec import Config, Kernel

_EMULATED = {"BM": 64, "BN": 64, "STAGES": 2, "PINGPONG": 1}
"""For the emulator: small tiles, of which most are used."""


def select_grouped(problem: Problem, capability: tuple[int, int] | None, device: str = "") -> Config:
    """The config of the kernel for a grouped problem's factors that is expected to take the shortest time.

    Args:
        problem: a grouped one.
        capability: the GPU's compute capability, None on the emulator.
        device: the name that the GPU's driver gives it.

    Raises:
        ConfigError: the kernel does not run on the GPU.
    """
    kernel = kernel_for(problem.dtype)
    if capability is None:
        return kernel.config(_EMULATED)
    kernel.check_capability(capability, problem.dtype)
    best, least = kernel.config(), float("inf")
    for config, model in _models(kernel, find_gpu(device, capability)):
        cost = model.predict(expected(problem, config))
        if cost is not None and cost.us < least:
            best, least = config, cost.us
    return best


def expected(problem: Problem, config: Config) -> Sizes:
    """The tall product that a grouped one is taken for, with tiles of this config."""
    m, n, k = problem.m, problem.n, problem.k
    groups, height = min(problem.batch, m), config.BM * config.CLUSTER
    rows = max(m + groups * height // 2, groups * height)
    a, b = problem.a, Layout(problem.b.order, problem.b.ld, 0)
    if a.order == "column":
        a = a._replace(ld=max(a.ld, rows))
    sizes = Sizes.of(Problem(rows, n, k, problem.arithmetic, 1, a, b, problem.d))
    item = ITEM_BYTES[problem.dtype]
    return sizes._replace(
        a_bytes=item * m * k, b_bytes=item * groups * k * n, result_bytes=ITEM_BYTES[problem.result] * m * n
    )


@lru_cache
def _models(kernel: Kernel, gpu: Gpu) -> list[tuple[Config, CostModel]]:
    configs = dict.fromkeys([kernel.config(), *map(kernel.config, kernel.presets.values())])
    return [(config, CostModel(kernel, config, gpu)) for config in configs]
