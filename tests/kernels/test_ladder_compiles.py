"""NVRTC compiles every rung of the course for real, for each architecture, and no register spills.

The library's kernels, in all that they take, are those of test_library_compiles.py.
"""

import pytest

from tilewright.engines import nvrtc
from tilewright.gpus import COMPUTE_CAPABILITIES
from tilewright.kernels import KERNELS
from tilewright.kernels.spec import RUNG_ARGUMENTS
from tilewright.kernels.takes import Variant

RUNGS = [kernel for kernel in KERNELS if kernel.arguments == RUNG_ARGUMENTS]
CAPABILITIES = {"sm_75": (7, 5), "sm_80": (8, 0), "sm_89": (8, 9), "sm_90a": (9, 0), "sm_120": (12, 0)}


CASES = [
    (kernel, dtype, arch)
    for kernel in RUNGS
    for dtype in kernel.takes.factors
    for arch, capability in CAPABILITIES.items()
    if kernel.runs_on(capability, dtype)
]


@pytest.mark.parametrize(("kernel", "dtype", "arch"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_shipped_config_compiles_without_spills(kernel, dtype, arch):
    config = kernel.config(capability=CAPABILITIES[arch])
    variants = [
        Variant(edges=False, aligned=kernel.vectorized, factors=dtype),
        Variant(edges=True, aligned=False, factors=dtype),
    ]
    if kernel.vectorized:
        variants.append(Variant(edges=True, aligned=True, factors=dtype))
    for variant in variants:
        report = nvrtc.compile(kernel, config, variant, arch).report
        assert report.spill_bytes == 0, f"{config} {variant}: {report}"
        assert report.registers * kernel.threads(config) <= 65536, "a block's registers do not fit a multiprocessor"


@pytest.mark.parametrize(
    ("kernel", "preset"), [(kernel, preset) for kernel in RUNGS for preset in kernel.presets], ids=str
)
def test_every_preset_compiles(kernel, preset):
    config = kernel.config(kernel.preset(preset))
    needed = max(kernel.takes.least_capability, (8, 0))
    arch = next(arch for arch, capability in CAPABILITIES.items() if capability >= needed)
    for edges in (False, True):
        variant = Variant(edges=edges, aligned=not edges, factors=kernel.takes.factors[0])
        assert nvrtc.compile(kernel, config, variant, arch).report.registers


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel.vectorized], ids=lambda kernel: kernel.name)
def test_tuned_tables_name_known_capabilities(kernel):
    assert set(kernel.tuned) <= set(COMPUTE_CAPABILITIES)
