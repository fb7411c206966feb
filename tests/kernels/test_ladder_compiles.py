"""NVRTC compiles every rung for real, for each architecture, and no register spills."""

import pytest

from tilewright.engines import nvrtc
from tilewright.gpus import COMPUTE_CAPABILITIES
from tilewright.kernels import LADDER
from tilewright.kernels.spec import Specialization

CAPABILITIES = {"sm_75": (7, 5), "sm_80": (8, 0), "sm_89": (8, 9), "sm_90a": (9, 0), "sm_120": (12, 0)}


@pytest.mark.parametrize("arch", CAPABILITIES)
@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_a_shipped_config_compiles_without_spills(kernel, arch):
    config = kernel.config(capability=CAPABILITIES[arch])
    specializations = [
        Specialization(edges=False, aligned=kernel.vectorized),
        Specialization(edges=True, aligned=False),
    ]
    if kernel.vectorized:
        specializations.append(Specialization(edges=True, aligned=True))
    for specialization in specializations:
        report = nvrtc.compile(kernel, config, specialization, arch).report
        assert report.spill_bytes == 0, f"{config} {specialization}: {report}"
        assert report.registers * kernel.threads(config) <= 65536, "a block's registers do not fit a multiprocessor"


@pytest.mark.parametrize(
    ("kernel", "preset"), [(kernel, preset) for kernel in LADDER for preset in kernel.presets], ids=str
)
def test_every_preset_compiles(kernel, preset):
    config = kernel.config(kernel.preset(preset))
    for specialization in (Specialization(edges=False, aligned=True), Specialization(edges=True, aligned=False)):
        assert nvrtc.compile(kernel, config, specialization, "sm_80").report.registers


@pytest.mark.parametrize("kernel", [kernel for kernel in LADDER if kernel.vectorized], ids=lambda kernel: kernel.name)
def test_tuned_tables_name_known_capabilities(kernel):
    assert set(kernel.tuned) <= set(COMPUTE_CAPABILITIES)
