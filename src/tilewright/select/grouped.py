"""The config to run a grouped product with: by the cost model, since no table has such products.

How many rows each group has is known on the GPU alone. A group of r rows takes r / H rows of tiles and, where it ends
anywhere within one, half a row of them more, H being a row's height; at least one. So the product is taken for a tall
one of that many rows of tiles, whose factor B is as large as the matrices of all groups.
"""

from functools import lru_cache

from tilewright.analysis.cost import CostModel, Sizes
from tilewright.gpus import Gpu, find_gpu
from tilewright.kernels.library.grouped_sm90 import KERNEL
from tilewright.kernels.spec import Config
from tilewright.problem import ITEM_BYTES, Layout, Problem

_EMULATED = {"BM": 64, "BN": 64, "STAGES": 2, "PINGPONG": 1}
"""For the emulator: small tiles, of which most are used."""


def select_grouped(problem: Problem, capability: tuple[int, int] | None, device: str = "") -> Config:
    """The config of `grouped_sm90` that is expected to take the shortest time.

    Args:
        problem: a grouped one.
        capability: the GPU's compute capability, None on the emulator.
        device: the name that the GPU's driver gives it.

    Raises:
        ConfigError: the kernel does not run on the GPU.
    """
    if capability is None:
        return KERNEL.config(_EMULATED)
    KERNEL.check_capability(capability, problem.dtype)
    best, least = KERNEL.config(), float("inf")
    for config, model in _models(find_gpu(device, capability)):
        cost = model.predict(expected(problem, config))
        if cost is not None and cost.us < least:
            best, least = config, cost.us
    return best


def expected(problem: Problem, config: Config) -> Sizes:
    """The tall product that a grouped one is taken for, with tiles of this config."""
    m, n, k = problem.m, problem.n, problem.k
    groups, height = min(problem.batch, m), config.BM * config.CLUSTER
    rows = max(m + groups * height // 2, groups * height)
    b = Layout(problem.b.order, problem.b.ld, 0)
    sizes = Sizes.of(Problem(rows, n, k, problem.arithmetic, 1, problem.a, b, problem.d))
    item = ITEM_BYTES[problem.dtype]
    return sizes._replace(
        a_bytes=item * m * k, b_bytes=item * groups * k * n, result_bytes=ITEM_BYTES[problem.result] * m * n
    )


@lru_cache
def _models(gpu: Gpu) -> list[tuple[Config, CostModel]]:
    configs = dict.fromkeys([KERNEL.config(), *map(KERNEL.config, KERNEL.presets.values())])
    return [(config, CostModel(KERNEL, config, gpu)) for config in configs]
