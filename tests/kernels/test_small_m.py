"""small_m_bf16x6 and small_m_fp16x3 on the emulator: what tiles decide of their own, and what holds registers
together."""

import contextlib

import numpy as np
import pytest
from test_library_compiles import SHIPPED, config_of, sample, turn_of
from test_library_on_emulator import ENGINE, of_size
from test_out_of_range import MOST, bits, check_float32

from all_stages import own_cases
from left_out import VARIABLE, copied, switchable
from library_cases import Operands, findings, multiply
from sass_cases import of_products
from tilewright.core.errors import LaunchError
from tilewright.core.problem import Scalars
from tilewright.emulator.check import is_huge
from tilewright.kernels import find
from tilewright.tools.bench import checking
from tilewright.tools.bench.case import UNFIT

KERNEL = find("small_m_bf16x6")
KERNELS = KERNEL, find("small_m_fp16x3")
INCLUDE = KERNEL.source.parents[1] / "include"
FORMS = [
    {"BM": 8, "BN": 64, "STAGES": 3},
    {"BM": 16, "BN": 64, "K_SLICES": 2, "STAGES": 3, "SPLITS": 4},
    {"BM": 32, "BN": 128, "STAGES": 2, "SPLITS": 2},
]


# Both kernels, each form, each order, and rows that begin anywhere.
@pytest.mark.further
@pytest.mark.parametrize(
    ("kernel", "overrides", "gap", "layout"),
    [
        (KERNELS[0], FORMS[0], 0, "NN"),
        (KERNELS[0], FORMS[1], 3, "TN"),
        (KERNELS[1], FORMS[1], 0, "NT"),
        (KERNELS[1], FORMS[2], 3, "TT"),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_what_parts_cannot_hold_is_computed_in_float32_tile_by_tile(kernel, overrides, gap, layout):
    """All blocks of a tile, whichever of them sees it; and no other tile."""
    config = kernel.config(overrides)
    case = of_size(kernel, layout, 3 * config.BM, 2 * config.BN, 5 * config.BK + 4, gap)
    operands = Operands.draw(case)
    usual = multiply(ENGINE, kernel, config, case, operands)
    row, col = config.BM + 1, config.BN + 3  # in the second tiles
    for value in (np.inf, MOST):
        for factor, place in ((operands.a, (1, row, -1)), (operands.b, (0, 70, col))):
            before = factor[place]
            factor[place] = value
            found = multiply(ENGINE, kernel, config, case, operands)
            check_float32(case, operands, found)
            same = bits(found) == bits(usual)
            if factor is operands.a:
                assert same[0].all()
                assert same[1, : config.BM].all()
                assert same[1, 2 * config.BM :].all()
                assert not same[1, config.BM : 2 * config.BM].all(axis=0).any(), "all columns are another sum"
            else:
                assert same[1].all()
                assert same[0, :, : config.BN].all()
            factor[place] = before


SYNCS = "sync();  // all have read the last parts", "sync_warps(&shared.consumers_synced, SPLITS == 1);"


@pytest.mark.further
@pytest.mark.parametrize("number", range(1, len(SYNCS) + 1))
def test_check_runs_what_follows_where_parts_do_not_hold(number, tmp_path, monkeypatch):
    """A fault there is found by the cases with such an element, and by no other of what is compiled for them."""
    monkeypatch.setenv(VARIABLE, str(number))
    kernel, name = KERNELS[1], "float32_parts/small_m_fallback.cuh"
    faulty = copied(kernel, tmp_path)
    (tmp_path / name).write_text(switchable((INCLUDE / name).read_text(), SYNCS))
    config = kernel.config({"BM": 16, "BN": 64, "STAGES": 3})
    cases = [one for one in own_cases(kernel, config, [Scalars()], others=False) if not is_huge(one.problem)]
    compiled = {kernel.variant(one.problem, config) for one in cases if one.unfit}
    cases = [one for one in cases if kernel.variant(one.problem, config) in compiled]
    assert len(cases) > len(UNFIT)
    assert [outcome.case.unfit for outcome in checking.outcomes(faulty, cases) if not outcome.clean] == list(UNFIT)


@pytest.mark.first(2)
@pytest.mark.parametrize("part", range(4))
def test_one_part_of_k_is_enough(part):
    """Each block of a cluster sees its own part of k alone."""
    config = KERNEL.config({"BM": 8, "BN": 64, "STAGES": 2, "SPLITS": 4})
    case = of_size(KERNEL, "NT", 8, 64, 4 * 64)
    operands = Operands.draw(case)
    operands.b[:, 64 * part + 40, 5] = np.inf
    check_float32(case, operands, multiply(ENGINE, KERNEL, config, case, operands))


FLIGHT = (
    "fence_sums(largest, now);",
    "commit_products();",
    "wait_products<1>(largest);",
    "wait_products<0>(others, now);",
)


@pytest.mark.first(2)
@pytest.mark.parametrize("number", range(len(FLIGHT) + 1))
def test_no_fence_nor_wait_can_be_left_out_undetected(number, tmp_path, monkeypatch):
    """With the number 0 none is."""
    monkeypatch.setenv(VARIABLE, str(number))
    name = "float32_parts/row_products.cuh"
    kernel = copied(KERNEL, tmp_path)
    (tmp_path / name).write_text(switchable((INCLUDE / name).read_text(), FLIGHT))
    config = KERNEL.config({"BM": 64, "BN": 64, "STAGES": 2})
    with pytest.raises((AssertionError, LaunchError)) if number else contextlib.nullcontext():
        assert findings(kernel, config, of_size(KERNEL, "NN", 130, 70, 100)) == []


@pytest.mark.one_of_each("kernel")
@pytest.mark.parametrize(
    ("kernel", "preset"),
    [case for case in SHIPPED if case[0] in KERNELS],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_registers_that_tensor_cores_read_are_written_after_the_wait(kernel, preset, report_of):
    """The compiler does not know, and would do so where the source lets it. The forms are those whose spills are looked
    at too."""
    for variant in sample(kernel, preset, turn_of(kernel, preset)):
        found = report_of(kernel, config_of(kernel, preset), variant, "sm_90a", of_products).read
        assert found["products"] > 0
        assert found["written early"] == []
