"""Configs of grouped products."""

import pytest

from tilewright.core.problem import Arithmetic, Layout, Problem
from tilewright.kernels.library.grouped_sm90 import KERNEL
from tilewright.select.selector import select


def grouped(m, n, k, groups, a):
    return Problem(m, n, k, Arithmetic("bfloat16", "bfloat16"), groups, a, grouped=True)


@pytest.mark.parametrize("a", [Layout("row"), Layout("column"), Layout("column", 5000)], ids=str)
@pytest.mark.parametrize(("m", "n", "k", "groups"), [(1100, 512, 384, 8), (16, 520, 200, 64), (1, 1, 1, 1)])
def test_a_config_is_found_for_every_order_of_a(m, n, k, groups, a):
    config = select(grouped(m, n, k, groups, a), (9, 0), "NVIDIA H200")[1]
    assert config == KERNEL.config(dict(config))


def test_few_rows_a_group_get_smaller_tiles():
    few = select(grouped(512, 14336, 4096, 64, Layout("row")), (9, 0), "NVIDIA H200")[1]
    many = select(grouped(32768, 14336, 4096, 8, Layout("row")), (9, 0), "NVIDIA H200")[1]
    assert few.BM < many.BM or few.BM * few.BN < many.BM * many.BN
