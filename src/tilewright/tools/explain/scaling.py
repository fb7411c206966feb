"""Time of a product on several GPUs, by the cost model: each one's products, the traffic over the links, and what
binds.

    all_gather_matmul       A in rows, B in columns: a rank multiplies m x n/N, and all rows of A come to it
    matmul_reduce_scatter   k divided: a rank multiplies m x n of k/N, and passes sums of m/N rows from rank to rank
    split                   rows of one GPU's product: B, and each one's rows of A, leave that GPU; results come back

What moves within a host hides behind products, in the order in which they run (`dividing`). Between hosts it is moved
before or after the product: each GPU moves a part over its share of the network, and the GPUs of a host exchange the
parts. split is of one host.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.errors import ProblemError
from tilewright.core.hardware import ceil_div
from tilewright.core.problem import Problem
from tilewright.frameworks.dividing import Workload, all_gather_us, divide, reduce_scatter_us
from tilewright.tools.explain.cost.prediction import Cost

ALL_GATHER, REDUCE_SCATTER, SPLIT = SCHEMES = ("all_gather_matmul", "matmul_reduce_scatter", "split")

COMPUTE, MEMORY, LINK, NETWORK = "compute", "memory", "link", "network"

Expected = Callable[[Problem], Cost | None]
"""Function of a problem: the cost of the product on one GPU; None where the GPU cannot hold a block of the kernel."""

DEVICES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Links:
    """Links between GPUs."""

    link_gb_s: float
    """Bandwidth of each GPU's link with the others of its host, 10^9 bytes a second one way."""
    network_gb_s: float = 50.0
    """Bandwidth of each GPU's share of the network between hosts, 10^9 bytes a second one way."""
    per_host: int = 8
    """GPUs of a host."""

    def __post_init__(self) -> None:
        for name, value in (("link", self.link_gb_s), ("network", self.network_gb_s), ("per-host", self.per_host)):
            if not value > 0:
                raise ProblemError(f"{name} must be more than 0, got {value}")


@dataclass(frozen=True)
class Share:
    """One GPU's part of a product, in microseconds: with equal parts, but for `us`."""

    scheme: str
    devices: int
    compute_us: float
    """Time of its products: the waves of blocks."""
    memory_us: float
    """Time of its products' traffic through the L2 cache and DRAM."""
    link_us: float
    """Time of the traffic over the GPU's link."""
    network_us: float
    """Time of the traffic between hosts."""
    us: float
    """From the first to the last, of all products and of what moves meanwhile."""
    binds: str
    """Name of the part that takes most of it."""
    of_product: float
    """Time of a GPU to multiply its part, had it all of it, as a share of `us`; of split, all GPUs in equal parts."""
    speedup: float
    """One GPU's time over this."""

    @property
    def efficiency(self) -> float:
        """The speed of each GPU over that of one alone."""
        return self.speedup / self.devices


def scaling(expected: Expected, problem: Problem, links: Links, devices: tuple[int, ...] = DEVICES) -> list[Share]:
    """Predict a product on several numbers of GPUs, in each scheme that divides it.

    Args:
        expected: of the product and of parts of it.
        problem: the whole product.
        links: what joins the GPUs.
        devices: numbers of GPUs.

    Raises:
        ProblemError: the GPU cannot hold a block of the kernel, or a number of GPUs is none.
    """
    if not devices or min(devices) < 1:
        raise ProblemError(f"devices must be 1 or more, got {', '.join(map(str, devices))}")
    alone = expected(problem)
    if alone is None:
        raise ProblemError("the GPU cannot hold a block of the kernel with this config: name another --config or --gpu")
    shares = (_share(scheme, count, expected, problem, links, alone.us) for scheme in SCHEMES for count in devices)
    return [share for share in shares if share is not None]


def _share(
    scheme: str, count: int, expected: Expected, problem: Problem, links: Links, alone_us: float
) -> Share | None:
    """None where the product does not divide: a GPU would have nothing to multiply."""
    m, n, k = problem.m, problem.n, problem.k
    part = {
        ALL_GATHER: (m, ceil_div(n, count), k),
        REDUCE_SCATTER: (m, n, ceil_div(k, count)),
        SPLIT: (ceil_div(m, count), n, k),
    }
    divided = {ALL_GATHER: min(n, m), REDUCE_SCATTER: min(k, m), SPLIT: min(m, links.per_host)}[scheme]
    if divided < count or not n or not k:
        return None
    cost = expected(Problem(*part[scheme], problem.arithmetic, problem.batch))
    if cost is None:
        return None
    near, far = _moved(scheme, count, problem, min(links.per_host, count))
    link_us, network_us = near / links.link_gb_s / 1e3, far / links.network_gb_s / 1e3
    if count == 1:
        us = cost.us
    elif count > links.per_host:
        us = max(cost.us, link_us + cost.us / count) + network_us
    else:
        us = _within_host(scheme, count, expected, problem, 1e3 * links.link_gb_s)
    times = {COMPUTE: cost.blocks_us, MEMORY: cost.traffic_us, LINK: link_us, NETWORK: network_us}
    binds = max(times, key=lambda name: times[name])
    of_product, speedup = (one / us if us else 0.0 for one in (cost.us, alone_us))
    return Share(scheme, count, cost.blocks_us, cost.traffic_us, link_us, network_us, us, binds, of_product, speedup)


def _within_host(scheme: str, count: int, expected: Expected, problem: Problem, link_bytes_us: float) -> float:
    """When the last GPU of a host has ended."""
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    item, result = ITEM_BYTES[problem.dtype], ITEM_BYTES[problem.result]
    depth = ceil_div(k, count) if scheme == REDUCE_SCATTER else k

    @cache
    def taken_us(rows: int, cols: int) -> float:
        cost = expected(Problem(rows, cols, depth, problem.arithmetic, batch))
        return cost.us if cost else 0.0

    if scheme == ALL_GATHER:
        rows, cols = ceil_div(m, count), ceil_div(n, count)
        return all_gather_us(taken_us, rows, cols, rows * k * item * batch, count, link_bytes_us)
    if scheme == REDUCE_SCATTER:
        return reduce_scatter_us(taken_us, ceil_div(m, count), n, depth, result, count, link_bytes_us / batch)
    work = Workload(max(m, n), min(m, n), k, item * batch, result * batch)
    return divide(taken_us, work, count, link_bytes_us).us


def _moved(scheme: str, count: int, problem: Problem, in_host: int) -> tuple[float, float]:
    """Bytes that a GPU sends or receives: within its host, and between hosts. Of split, that of the product."""
    item, result = ITEM_BYTES[problem.dtype], ITEM_BYTES[problem.result]
    a, b, d = problem.m * problem.k * item, problem.k * problem.n * item, problem.m * problem.n * result
    batch = problem.batch
    if scheme == SPLIT:
        return (b + max(a, d) / count) * batch * (count - 1), 0.0
    whole = (a if scheme == ALL_GATHER else d) * batch
    return whole * (in_host - 1) / in_host, whole * (count - in_host) / count / in_host
