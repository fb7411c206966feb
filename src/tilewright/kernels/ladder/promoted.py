"""Rung 28, promoted: threads take over the sums that tensor cores make of parts, every PROMOTE of k.

Source: "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance",
Ootomo and Yokota, 2022.
"""

from dataclasses import replace

from tilewright.kernels import warpgroups
from tilewright.kernels.kernel import Constraints, Kernel, Parameter, Sums
from tilewright.kernels.ladder import split

PROMOTE = Parameter(
    "PROMOTE", 64, (16, 32, 64, 128, 256), "k after which threads take over what tensor cores have made"
)

IN_STEPS: Constraints = {
    "PROMOTE must be 16, 32 or a multiple of 64, the k of a stage": lambda c: (
        c.PROMOTE in (16, 32) or c.PROMOTE % warpgroups.LINE == 0
    )
}

KERNEL: Kernel = replace(
    split.KERNEL,
    rung=28,
    name="promoted",
    idea="sums promoted to float32: they begin anew every PROMOTE of k, and threads add them up",
    parameters=(*split.KERNEL.parameters, PROMOTE),
    constraints={
        **warpgroups.WHOLE_INSTRUCTIONS,
        "BM*BN must be at most 12288: a thread has 96 sums, and 96 begun anew": lambda c: c.BM * c.BN <= 64 * 192,
        **split.STAGES_FIT,
        **IN_STEPS,
    },
    sums=lambda config: Sums(promote=config.PROMOTE),
)
