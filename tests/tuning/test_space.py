"""The search space."""

import pytest

from tilewright.engines.base import CompileReport
from tilewright.gpus import find_gpu
from tilewright.kernels import LADDER, find
from tilewright.tuning.space import configs, unfit

A6000 = find_gpu("NVIDIA RTX A6000", (8, 6))


@pytest.mark.parametrize("kernel", LADDER, ids=lambda kernel: kernel.name)
def test_a_space_holds_the_kernels_own_configs_and_only_such_as_meet_its_constraints(kernel):
    space = configs(kernel, (9, 0))
    assert space[0] == kernel.config(capability=(9, 0))
    assert {kernel.config(preset) for preset in kernel.presets.values()} <= set(space)
    assert len(set(space)) == len(space)
    for config in space[:: max(len(space) // 50, 1)]:
        assert kernel.config(config) == config


def test_the_worklogs_family_of_rung_6_has_some_hundred_configs():
    assert 200 <= len(configs(find("vectorized"), None)) <= 500


@pytest.mark.parametrize(
    ("registers", "shared", "reason"),
    [
        (128, 8192, None),
        (255, 8192, None),  # 256 threads
        (128, 100 * 1024, "shared memory"),
    ],
)
def test_what_does_not_fit_the_gpu_is_told_from_the_compilers_report(registers, shared, reason):
    kernel = find("vectorized")
    report = CompileReport(registers, 0, shared)
    found = unfit(kernel, kernel.config(), A6000, "NN", report)
    assert found is None if reason is None else reason in found


def test_registers_that_a_multiprocessor_lacks():
    kernel = find("coalesced")
    assert "1024 threads of 72 registers" in unfit(kernel, kernel.config(), A6000, "NN", CompileReport(72, 0, 0))
    assert unfit(kernel, kernel.config(), A6000, "NN", CompileReport(64, 0, 0)) is None
