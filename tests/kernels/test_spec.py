"""Config, Kernel.specialize, Kernel.launch and the finding of kernels."""

from dataclasses import replace

import pytest

from tilewright.errors import ConfigError, DtypeError, KernelNotFoundError
from tilewright.kernels import LADDER, find
from tilewright.kernels.spec import Config, Launch, parse_overrides
from tilewright.kernels.takes import Variant
from tilewright.problem import Layout, Problem

VECTORIZED = find("vectorized")


def test_rungs_are_numbered_as_in_the_ladder():
    assert [kernel.rung for kernel in LADDER] == list(range(1, len(LADDER) + 1))
    assert all(find(str(kernel.rung)) is kernel and find(kernel.name) is kernel for kernel in LADDER)


def test_every_source_is_shipped():
    assert all(kernel.source.is_file() for kernel in LADDER)


def test_an_unknown_kernel_gets_the_nearest_name():
    with pytest.raises(KernelNotFoundError, match="no kernel is called 'warptield'; did you mean 'warptiled'"):
        find("warptield")


def test_a_config_reads_as_attributes_and_as_text():
    config = VECTORIZED.config({"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4})
    assert (config.BM, config["TN"], str(config)) == (64, 4, "BM=64,BN=64,BK=16,TM=4,TN=4")
    assert hash(config) == hash(Config(dict(config)))
    with pytest.raises(AttributeError, match="WM"):
        _ = config.WM


def test_overrides_are_read_from_text():
    assert parse_overrides(" BM=64, BN = 32,") == {"BM": 64, "BN": 32}
    for wrong in ("BM", "BM=x", "BM=1.5"):
        with pytest.raises(ConfigError, match="NAME=INTEGER"):
            parse_overrides(wrong)


def test_tuned_values_are_used_where_they_were_measured():
    autotuned = find("autotuned")
    assert autotuned.config(capability=(8, 6)).BK == 16
    assert autotuned.config(capability=(7, 5)) == autotuned.config()
    assert autotuned.config({"BK": 8}, capability=(8, 6)).BK == 8


@pytest.mark.parametrize(
    ("problem", "pointers", "expected"),
    [
        (Problem(256, 128, 64), (0, 0, 0), Variant(edges=False, aligned=True)),
        (Problem(256, 128, 64), (4, 0, 0), Variant(edges=False, aligned=False)),
        (Problem(256, 128, 64, b=Layout(ld=130)), (0, 0, 0), Variant(edges=False, aligned=False)),
        (Problem(255, 128, 64), (0, 0, 0), Variant(edges=True, aligned=True)),
        (Problem(256, 127, 64), (0, 0, 0), Variant(edges=True, aligned=False)),
        (Problem(256, 128, 68), (0, 0, 0), Variant(edges=True, aligned=True)),
    ],
)
def test_guards_are_compiled_in_only_where_the_operands_need_them(problem, pointers, expected):
    assert VECTORIZED.variant(problem, VECTORIZED.config(), pointers) == expected


def test_one_block_is_launched_for_each_tile():
    launch = VECTORIZED.launch(Problem(257, 128, 1), VECTORIZED.config())
    assert (launch.grid, launch.block, launch.shared_bytes) == ((3, 1, 1), (256, 1, 1), 0)
    assert VECTORIZED.launch(Problem(0, 128, 1), VECTORIZED.config()).grid == (0, 1, 1)


@pytest.mark.parametrize(("count", "blocks"), [(1, 7), (2, 4), (3, 3), (7, 1)])
def test_bundles_stand_along_y(count, blocks):
    launch = Launch((7, 1, 1), (128, 1, 1), 1000).bundled(count)
    assert launch == Launch((blocks, 1, 1), (128, count, 1), count * 1000)


def test_a_kernel_refuses_an_element_type_it_does_not_take():
    with pytest.raises(DtypeError, match="vectorized takes float16, got float32"):
        replace(VECTORIZED, dtypes=("float16",)).check(Problem(1, 1, 1))
