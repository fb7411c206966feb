"""Rung 24, rasterized: clusters that run at the same time compute neighbours in both directions.

Source: "CUTLASS: Efficient GEMM in CUDA", NVIDIA, "Threadblock Rasterization".
"""

from dataclasses import replace

from tilewright.kernels import warpgroups
from tilewright.kernels.kernel import Kernel, Parameter
from tilewright.kernels.ladder import clusters

GROUP_M = Parameter(
    "GROUP_M", 8, (1, 4, 8, 16), "rows of clusters' tiles whose columns are computed one after the other"
)
COST = replace(warpgroups.PERSISTENT, cluster=lambda config: config.CLUSTER_M, group_m=lambda config: config.GROUP_M)

KERNEL: Kernel = replace(
    clusters.KERNEL,
    rung=24,
    name="rasterized",
    idea="tiles in groups of rows: those computed at the same time are neighbours in both directions",
    parameters=(*clusters.KERNEL.parameters, GROUP_M),
    cost=COST,
)
