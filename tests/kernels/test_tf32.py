"""gemm_tf32 and its kin on the emulator: float32 products of factors rounded to TF32, against float64."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_library_compiles import SHIPPED, config_of, sample, turn_of
from test_library_on_emulator import ENGINE, WAYS, drawing, of_size

import tilewright
from library_cases import Case, Operands, cases, check, check_specials, findings, kinds, multiply
from sass_cases import of_loop
from tilewright.core.errors import CompileError
from tilewright.core.problem import LAYOUTS, Epilogue, Layout, Problem, Scalars, orders
from tilewright.kernels import find
from tilewright.kernels.support import Addresses, Variant
from tilewright.runtime import nvrtc, relayouts

KERNEL, ROW_MAJOR, COLUMN_MAJOR = map(find, ("gemm_tf32", "gemm_tf32_nn", "gemm_tf32_tt"))
CONFIG, OF_ROWS, OF_COLUMNS = (
    kernel.config({"BM": 64, "BN": 48, "STAGES": 3, "PINGPONG": 1, "CLUSTER_M": 2, "GROUP_M": 1})
    for kernel in (KERNEL, ROW_MAJOR, COLUMN_MAJOR)
)
KERNELS, CONFIGS = (KERNEL, ROW_MAJOR, COLUMN_MAJOR), (CONFIG, OF_ROWS, OF_COLUMNS)
OF_WARPS = find("gemm_mma_tf32")
BY_WARPS = OF_WARPS.config({"BM": 64, "BN": 64, "BK": 32, "WM": 32, "WN": 32, "STAGES": 2, "GROUP_M": 1})
LEFT = 2.0**-21
"""Largest error of each product of rounded factors: the tensor cores keep two bits behind float32's, Ampere's one, and
cut off the rest."""


def named(value):
    return getattr(value, "name", str(value))


EACH = [(KERNEL, CONFIG), (ROW_MAJOR, OF_ROWS), (COLUMN_MAJOR, OF_COLUMNS), (OF_WARPS, BY_WARPS)]
each = pytest.mark.parametrize(("kernel", "config"), EACH, ids=named)
FORMS = [
    (KERNEL, CONFIG),
    (KERNEL, KERNEL.config({"BN": 32, "SPLITS": 4})),
    (ROW_MAJOR, OF_ROWS),
    (ROW_MAJOR, ROW_MAJOR.config({"BN": 32, "SPLITS": 4})),
    (ROW_MAJOR, ROW_MAJOR.config({"BN": 24, "STAGES": 2, "CONSUMERS": 1, "CLUSTER_N": 2})),
    (COLUMN_MAJOR, COLUMN_MAJOR.config({"BN": 24, "STAGES": 2, "CONSUMERS": 1, "CLUSTER_N": 2})),
    (OF_WARPS, BY_WARPS),
    (OF_WARPS, OF_WARPS.config(OF_WARPS.preset("few_rows"))),
]
forms = pytest.mark.parametrize(("kernel", "config"), FORMS, ids=named)


def rounded(values):
    """Float32 to TF32, to nearest, ties to even; NaN and infinity as they are."""
    bits = values.view(np.uint32)
    nearest = (bits + 0xFFF + (bits >> 13 & 1)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), nearest.astype(np.uint32).view(np.float32), values)


def rounded_away(values):
    """Float32 rounded to TF32, ties away from zero, as warps round."""
    nearest = ((values.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), nearest, values)


def round_all(operands, rounding=rounded):
    for values in (operands.a, operands.b):
        values[:] = rounding(values)


def rounding_of(kernel):
    """`round_all` as a kernel rounds."""
    return partial(round_all, rounding=rounded_away if kernel is OF_WARPS else rounded)


def copied(kernel, config, problem, addresses=Addresses()):
    return relayouts.jobs(kernel, config, problem, addresses).relaid


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("kernel", "config", "layout", "way"),
    [
        (*one, layout, list(WAYS)[number % 3])
        for number, one in enumerate(EACH)
        for other, layout in enumerate(LAYOUTS)
        if (number + other) % 2 == 0
    ],
    ids=named,
)
def test_products_are_those_of_rounded_factors_in_every_order(kernel, config, layout, way):
    """Batches, an epilogue, edges, and rows that the copy engine does not take: kernels take turns at these ways."""
    extra, gap = WAYS[way]
    tile = kernel.tile(config)
    case = of_size(kernel, layout, 2 * tile.m + extra, 2 * tile.n + extra, 96 + extra, gap)
    operands = Operands.draw(case)
    result = multiply(ENGINE, kernel, config, case, operands)
    check(ENGINE, kernel, config, case, left=LEFT, change=rounding_of(kernel))
    rounding_of(kernel)(operands)
    np.testing.assert_array_equal(result, multiply(ENGINE, kernel, config, case, operands))


def kinds_of(kernel, config):
    """Both kinds of one form of each kernel; of others what has no epilogue: all forms store by the same code, and
    `test_the_checker_finds_nothing` runs each with an epilogue."""
    return [kind for kind in kinds(kernel, config) if (kernel, config) in EACH or kind.epilogue == Epilogue()]


@pytest.mark.further
@forms
@pytest.mark.parametrize("sizes", [(1, 1, 1), (65, 49, 33), (129, 7, 161)])
def test_sizes_that_nothing_divides_are_right(kernel, config, sizes):
    """Sizes are run with the kinds that are drawn below, which are compiled anyway."""
    for layout, arithmetic, aligned, epilogue in kinds_of(kernel, config):
        a, b = orders(layout)
        ld = 8 * (max(sizes) // 8 + 1) if aligned else max(sizes)
        lines = {name: one._replace(ld=ld) for name, one in (("a", a), ("b", b), ("d", Layout()))}
        case = Case(Problem(*sizes, arithmetic, **lines, epilogue=epilogue), Scalars(0.75, 0.0), offset=not aligned)
        check(ENGINE, kernel, config, case, left=LEFT, change=rounding_of(kernel))


@pytest.mark.first(2)
@forms
@given(data=st.data())
@drawing(8)
def test_a_drawn_problem_is_right(kernel, config, data):
    case = data.draw(cases(kernel, config, kinds_of(kernel, config)))
    check(ENGINE, kernel, config, case, left=LEFT, change=rounding_of(kernel))


@pytest.mark.first(1)
@forms
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@drawing(5)
def test_nan_and_infinity_come_out_as_those_of_numpy(kernel, config, data, seed):
    among = [kind for kind in kinds_of(kernel, config) if kind.epilogue == Epilogue()]
    case = data.draw(cases(kernel, config, among, depths=(1, 7, 31, 32, 33, 64)))
    alone = replace(case, scalars=Scalars(), separate_c=False, problem=replace(case.problem, c=None))
    check_specials(ENGINE, kernel, config, alone, seed, LEFT, rounding_of(kernel))


def test_products_of_nothing_are_c():
    """Whose copies have no elements."""
    case = Case(Problem(3, 200, 0), Scalars(0.75, 0.5))
    check(ENGINE, KERNEL, CONFIG, case, left=LEFT)


COPIED = {
    "NN": (("B",), (), ("A", "B")),
    "NT": ((), ("B",), ("A",)),
    "TN": (("A", "B"), ("A",), ("B",)),
    "TT": (("A",), ("A", "B"), ()),
}
"""By order: of gemm_tf32, of gemm_tf32_nn and of gemm_tf32_tt."""


def test_only_what_lies_in_another_order_or_unaligned_is_copied():
    for layout, expected in COPIED.items():
        a, b = orders(layout)
        for kernel, config, one in zip(KERNELS, CONFIGS, expected, strict=True):
            assert copied(kernel, config, Problem(64, 64, 64, a=a, b=b)) == one
    unaligned_k, unaligned_n = (64, 64, 66), (64, 66, 64)
    assert copied(KERNEL, CONFIG, Problem(*unaligned_k, b=Layout("column"))) == ("A", "B")
    assert copied(ROW_MAJOR, OF_ROWS, Problem(*unaligned_k)) == ("A",)
    assert copied(ROW_MAJOR, OF_ROWS, Problem(*unaligned_n)) == ("B",)
    for kernel, config, b in ((KERNEL, CONFIG, Layout("column")), (ROW_MAJOR, OF_ROWS, Layout())):
        assert copied(kernel, config, Problem(64, 64, 64, a=Layout(ld=65), b=b)) == ("A",)
        assert copied(kernel, config, Problem(64, 64, 64, b=b), Addresses(b=4)) == ("B",)


@pytest.mark.further
@pytest.mark.parametrize(("kernel", "config"), [*zip(KERNELS, CONFIGS, strict=True)], ids=named)
def test_all_kernels_of_warpgroups_make_the_same_bits(kernel, config):
    """One order of sums, whichever factor is in registers, gives equal bits."""
    case = of_size(KERNEL, "NN", 70, 90, 130)
    operands = Operands.draw(case)
    expected = multiply(ENGINE, KERNEL, KERNEL.config({"BN": 64, "STAGES": 2}), case, operands)
    np.testing.assert_array_equal(multiply(ENGINE, kernel, config, case, operands), expected)


@pytest.mark.first(1)
@each
def test_the_error_is_that_of_rounding_to_nearest(kernel, config):
    """Factors that are cut off would err by 2.6 times as much."""
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 512), (512, 64)))
    exact = a.astype(np.float64) @ b
    result = tilewright.matmul(a, b, kernel=kernel, config=config, engine=ENGINE)
    error = np.linalg.norm(result - exact) / np.linalg.norm(exact)
    of_rounding = np.linalg.norm(rounded(a).astype(np.float64) @ rounded(b) - exact) / np.linalg.norm(exact)
    assert error == pytest.approx(of_rounding, rel=0.01)


LARGEST_TF32 = float(np.uint32(0x7F7FE000).view(np.float32))
ENDS = {
    np.nan: np.nan,
    -np.inf: -np.inf,
    2.0**-149: 0.0,
    2.0**-130: 2.0**-130,
    LARGEST_TF32: LARGEST_TF32,
    2.0**128 - 2.0**116 - 2.0**104: LARGEST_TF32,
    float(np.finfo(np.float32).max): np.inf,
    1 + 2.0**-11: 1.0,
    1 + 3 * 2.0**-11: 1 + 2.0**-9,
}
"""Results of rounding elements: at the ends of float32's range, and of ties the even one."""
AWAY = {1 + 2.0**-11: 1 + 2.0**-10}
"""By warps, of ties the one that is further from zero."""


@pytest.mark.first(1)
@each
@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_ends_of_the_range_and_ties(kernel, config, layout):
    a, b = np.zeros((64, 32), np.float32), np.ones((32, 48), np.float32)
    a[: len(ENDS), 7] = [*ENDS]
    b = b if layout == "NN" else np.asfortranarray(b)
    with np.errstate(all="ignore"):
        result = tilewright.matmul(a, b, kernel=kernel, config=config, engine=ENGINE)
    expected = ENDS | (AWAY if kernel is OF_WARPS else {})
    np.testing.assert_array_equal(result[: len(ENDS), 0], np.array([*expected.values()], np.float32))


@pytest.mark.first(1)
@each
def test_a_cached_operand_gives_the_same_bits(kernel, config):
    random = np.random.default_rng(6)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((70, 67), (67, 50)))
    how = {"kernel": kernel, "config": config, "engine": ENGINE}
    cached = tilewright.prepare(b, engine=ENGINE)
    np.testing.assert_array_equal(tilewright.matmul(a, cached, **how), tilewright.matmul(a, b, **how))


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("kernel", "config", "gap"), [(*one, number % 2 * 3) for number, one in enumerate(FORMS)], ids=named
)
def test_the_checker_finds_nothing(kernel, config, gap):
    """Rows that are aligned and rows that are not, in turns."""
    layout = kernel.layout_read(config, "NN")
    assert (
        findings(kernel, config, of_size(kernel, layout, 72, 72, 200, gap), left=LEFT, change=rounding_of(kernel)) == []
    )


def test_tf32_across_k_does_not_compile(tmp_path):
    """As wgmma has no such product."""
    source = tmp_path / "across.cu"
    source.write_text("""
#include <ptx/wgmma.cuh>
extern "C" __global__ void across(unsigned long long a, unsigned long long b) {
    float sums[4] = {};
    multiply_async<Major::across_k, Major::along_k, float>(sums, {a}, {b});
}
""")
    kernel = replace(KERNEL, name="across", source=source)
    with pytest.raises(CompileError, match="lines of TF32 and of 8 bits lie along k"):
        nvrtc.compile(kernel, CONFIG, Variant(False, False, "float32", "float32", "NT"), "sm_90a")


HELD = [one for one in SHIPPED if one[0] in (ROW_MAJOR, COLUMN_MAJOR)]


@pytest.mark.parametrize(("kernel", "preset"), HELD, ids=named)
def test_registers_that_tensor_cores_read_are_written_after_the_wait(kernel, preset, report_of):
    """In the loop too, whose next step comes while products of this one are in flight. The forms are those whose spills
    are looked at too."""
    config = config_of(kernel, preset)
    for variant in sample(kernel, preset, turn_of(kernel, preset)):
        found = report_of(kernel, config, variant, "sm_90a", of_loop).read
        assert found["products"] == 4 * config.BM // 64 // (1 if config.PINGPONG else config.CONSUMERS)
        assert found["written early"] == []
        assert found["found with a shorter wait"]
