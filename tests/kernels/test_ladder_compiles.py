"""NVRTC compiles every rung for real, for each architecture, and no register spills."""

import pytest

from tilewright.engines import nvrtc
from tilewright.gpus import COMPUTE_CAPABILITIES
from tilewright.kernels import LADDER
from tilewright.kernels.takes import Variant

CAPABILITIES = {"sm_75": (7, 5), "sm_80": (8, 0), "sm_89": (8, 9), "sm_90a": (9, 0), "sm_120": (12, 0)}


CASES = [
    (kernel, dtype, arch)
    for kernel in LADDER
    for dtype in kernel.takes.factors
    for arch, capability in CAPABILITIES.items()
    if capability >= kernel.capability_for(dtype)
]


@pytest.mark.parametrize(("kernel", "dtype", "arch"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_shipped_config_compiles_without_spills(kernel, dtype, arch):
    config = kernel.config(capability=CAPABILITIES[arch])
    specializations = [
        Variant(edges=False, aligned=kernel.vectorized, dtype=dtype),
        Variant(edges=True, aligned=False, dtype=dtype),
    ]
    if kernel.vectorized:
        specializations.append(Variant(edges=True, aligned=True, dtype=dtype))
    for specialization in specializations:
        report = nvrtc.compile(kernel, config, specialization, arch).report
        assert report.spill_bytes == 0, f"{config} {specialization}: {report}"
        assert report.registers * kernel.threads(config) <= 65536, "a block's registers do not fit a multiprocessor"


@pytest.mark.parametrize(
    ("kernel", "preset"), [(kernel, preset) for kernel in LADDER for preset in kernel.presets], ids=str
)
def test_every_preset_compiles(kernel, preset):
    config = kernel.config(kernel.preset(preset))
    arch = next(arch for arch, capability in CAPABILITIES.items() if capability >= max(kernel.least_capability, (8, 0)))
    for edges in (False, True):
        specialization = Variant(edges=edges, aligned=not edges, dtype=kernel.takes.factors[0])
        assert nvrtc.compile(kernel, config, specialization, arch).report.registers


@pytest.mark.parametrize("kernel", [kernel for kernel in LADDER if kernel.vectorized], ids=lambda kernel: kernel.name)
def test_tuned_tables_name_known_capabilities(kernel):
    assert set(kernel.tuned) <= set(COMPUTE_CAPABILITIES)
