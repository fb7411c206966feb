"""Configs of format 1 in today's parameters."""

import pytest

from tilewright.core.errors import ConfigError
from tilewright.kernels import KERNELS, find
from tilewright.kernels.old_configs import upgraded

SPLIT_K = {"BM": 16, "BN": 32, "BK": 64, "TM": 4, "TN": 4, "STAGES": 3}
OLD = {"LANES_M": 4, "SLICES": 4, "BLOCKS": 4}
NEW = {"K_SLICES": 4, "MIN_BLOCKS": 4}
PACKED = {"BM": 128, "BN": 128, "BK": 32, "TM": 8, "TN": 8}


@pytest.mark.parametrize(
    ("wave", "workers"), [(0, 0), (1, 0), (132, 1), (264, 2), (396, 3), (528, 4), (256, None), (131, None)]
)
def test_workers_are_those_of_one_multiprocessor(wave, workers):
    expected = None if workers is None else {**SPLIT_K, **NEW, "WORKERS": workers}
    assert upgraded("split_k", {**SPLIT_K, **OLD, "WAVE": wave}) == expected


def test_a_parameter_that_came_later_has_its_default():
    places = {"BM": 32, "BN": 64, "BK": 64, "TM": 8, "TN": 8, "SLICES": 4, "PLACES": 1, "UNROLL": 16}
    config = upgraded("tma_transposed", {**places, "WAVE": 396, "BLOCKS": 3})
    assert (config.A_BUFFERS, config.WORKERS, config.MIN_BLOCKS, config.BUNDLE) == (1, 3, 3, 1)


@pytest.mark.parametrize("other", [{"STAGES": 3}, {"CHUNK": 2048}, {"RASTER": 8}, {"WAVE": 100}, {"BM": 7}])
def test_what_a_kernel_no_longer_does_is_gone(other):
    old = {**PACKED, "STAGES": 2, "WAVE": 264, "CHUNK": 0, "RASTER": 1, "BLOCKS": 2}
    assert upgraded("tma_packed", old) == {**PACKED, "WORKERS": 2, "MIN_BLOCKS": 2}
    assert upgraded("tma_packed", old | other) is None


def test_the_number_of_multiprocessors_is_no_parameter():
    config = find("skinny").config()
    old = {name: value for name, value in config.items() if name not in ("MIN_BLOCKS", "THREADS_M")}
    assert upgraded("skinny", {**old, "BLOCKS": 1, "MULTIPROCESSORS": 132}) == config
    assert upgraded("skinny", {**old, "BLOCKS": 1, "MULTIPROCESSORS": 108}) is None


@pytest.mark.parametrize("k", [16, 32, 64])
@pytest.mark.parametrize("name", ["gemm_bf16x6", "gemm_bf16x3", "gemm_fp16x3"])
def test_how_often_sums_were_promoted_is_forgotten(name, k):
    """By kernels whose sums are promoted with every step now; others have it still."""
    config = find(name).config({"BAND": 4})
    assert upgraded(name, {**config, "PROMOTE": k}) == config
    assert upgraded("promoted", {"PROMOTE": k})["PROMOTE"] == k


def test_other_kernels_and_unknown_parameters_are_gone():
    assert upgraded("no such kernel", {}) is None
    assert upgraded("coalesced", {"SHAPE": 3}) is None
    assert upgraded("coalesced", {"WAVE": 132}) is None


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_configs_of_today_stay_as_they_are(kernel):
    for overrides in ({}, *kernel.presets.values()):
        config = kernel.config(overrides)
        assert upgraded(kernel.name, config) == config


def test_a_parameters_former_name_is_understood():
    kernel = find("split_k")
    assert kernel.config({"SLICES": 2, "BLOCKS": 1}) == kernel.config({"K_SLICES": 2, "MIN_BLOCKS": 1})
    with pytest.raises(ConfigError, match="coalesced has no parameter"):
        find("coalesced").config({"SLICES": 4})
