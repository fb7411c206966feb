"""Configs of files in today's parameters."""

import pytest

from tilewright.core.errors import ConfigError
from tilewright.kernels import KERNELS, find, recorded


def test_a_parameter_that_came_later_has_its_default():
    before = {name: value for name, value in find("tma_transposed").config().items() if name != "COPIED"}
    assert recorded("tma_transposed", before) == find("tma_transposed").config()


@pytest.mark.parametrize(
    ("kernel", "config"),
    [("no such kernel", {}), ("coalesced", {"SHAPE": 3}), ("tma_packed", {"WAVE": 132}), ("tma_packed", {"BM": 7})],
)
def test_other_kernels_and_configs_are_gone(kernel, config):
    assert recorded(kernel, config) is None


def test_a_source_files_stays_as_it_is():
    assert recorded("mine.cu:own", {"TS": 16}) == {"TS": 16}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_configs_of_today_stay_as_they_are(kernel):
    for overrides in ({}, *kernel.presets.values()):
        config = kernel.config(overrides)
        assert recorded(kernel.name, config) == config


def test_a_parameters_former_name_is_understood():
    kernel = find("split_k")
    assert kernel.config({"SLICES": 2, "BLOCKS": 1}) == kernel.config({"K_SLICES": 2, "MIN_BLOCKS": 1})
    assert recorded("split_k", {"SLICES": 2, "BLOCKS": 1}) == kernel.config({"K_SLICES": 2, "MIN_BLOCKS": 1})
    with pytest.raises(ConfigError, match="coalesced has no parameter"):
        find("coalesced").config({"SLICES": 4})
