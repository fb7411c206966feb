"""The search space."""

import pytest

from tilewright.core.gpus import find_gpu
from tilewright.kernels import LADDER, find
from tilewright.runtime.executable import CompileReport
from tilewright.tools.tune.space import configs, distinct, unfit

A6000 = find_gpu("NVIDIA RTX A6000", (8, 6))
H200 = find_gpu("NVIDIA H200", (9, 0))


@pytest.mark.first(8)
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
        (128, 99 * 1024, None),  # the most that there is
        (128, 99 * 1024 + 1, "shared memory"),
    ],
)
def test_what_does_not_fit_the_gpu_is_known_from_the_compilers_report(registers, shared, reason):
    kernel = find("vectorized")
    report = CompileReport(registers, 0, shared)
    found = unfit(kernel, kernel.config(), A6000, "NN", report)
    assert found is None if reason is None else reason in found


@pytest.mark.parametrize(("layout", "least"), [("NT", 4), ("NN", 2), ("TT", 2), ("TN", 1)])
def test_a_copy_to_the_order_that_memory_has_is_not_tried(layout, least):
    kernel = find("tma_transposed")
    every = [kernel.config({"COPIED": copied}) for copied in (0, 1, 2, 3)]
    found = distinct(kernel, every, layout)
    assert len(found) == least
    assert found[0] == every[0]
    assert {kernel.layout_read(config, layout) for config in found} == {
        kernel.layout_read(config, layout) for config in every
    }
    assert distinct(kernel, every[3:], layout) == every[3:], "the only one of its kind"


def test_what_fits_is_given_the_factors_that_are_read():
    """With B in columns, which is transposed, a block holds a tile more; B is not transposed where it is copied."""
    kernel = find("tma_transposed")
    tile = {"BM": 64, "BN": 128, "BK": 96, "UNROLL": 24, "WORKERS": 0, "MIN_BLOCKS": 1}
    plain, copied = (kernel.config({**tile, "COPIED": copied}) for copied in (0, 2))
    report = CompileReport(128, 0, 20_000)
    assert "shared memory" in unfit(kernel, plain, H200, "NT", report)
    assert unfit(kernel, copied, H200, "NT", report) is None


def test_registers_that_a_multiprocessor_lacks():
    kernel = find("coalesced")
    assert "1024 threads of 72 registers" in unfit(kernel, kernel.config(), A6000, "NN", CompileReport(72, 0, 0))
    assert unfit(kernel, kernel.config(), A6000, "NN", CompileReport(64, 0, 0)) is None
