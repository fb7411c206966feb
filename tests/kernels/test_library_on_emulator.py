"""The library's kernels, run by the emulator on drawn problems of every kind that they take, against float64."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from library_cases import DEPTHS, Case, cases, check, check_specials, findings, kinds
from tilewright.core.problem import ACTIVATIONS, Arithmetic, Epilogue, Layout, Problem, Scalars
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.config import Config
from tilewright.kernels.library import KERNELS as LIBRARY
from tilewright.runtime.tensor_maps import layouts
from tilewright.tools.tune.space import distinct

ENGINE = EmulatorEngine()

# Every way in which a kernel's source can be taken, where defaults and presets are not that.
CONFIGS = {
    "gemm_wmma": [
        {},
        {"BM": 64, "BN": 64, "BK": 16, "WM": 16, "WN": 64},
    ],
    "gemm_mma": [
        {"BM": 64, "BN": 64, "BK": 64, "WM": 32, "WN": 32, "STAGES": 2},
        {"BM": 16, "BN": 128, "BK": 32, "WM": 16, "WN": 64, "STAGES": 4, "GROUP_M": 2},
        {"BM": 64, "BN": 64, "BK": 16, "WM": 32, "WN": 32, "STAGES": 3, "GROUP_M": 1, "WORKERS": 3},
        {"BM": 16, "BN": 32, "BK": 32, "WM": 16, "WN": 32, "STAGES": 4, "GROUP_M": 1, "WORKERS": 2},
    ],
    "gemm_sm90": [
        {"BM": 256, "BN": 72, "STAGES": 2, "GROUP_M": 2},
        {"BM": 64, "BN": 48, "STAGES": 3, "PINGPONG": 1, "CLUSTER_M": 2, "GROUP_M": 1},
        {"BM": 128, "BN": 32, "STAGES": 3, "SPLITS": 4},
        {"BM": 192, "BN": 48, "STAGES": 2, "CONSUMERS": 3, "CLUSTER_N": 2},
        {"BM": 64, "BN": 72, "STAGES": 2, "CONSUMERS": 1, "CLUSTER_M": 8},
        {"BM": 64, "BN": 32, "STAGES": 3, "CONSUMERS": 1, "SPLITS": 2},
        {"BM": 64, "BN": 128, "STAGES": 3, "PINGPONG": 1, "TMA_STORE_STAGES": 1, "GROUP_M": 2},
        {"BM": 256, "BN": 64, "STAGES": 2, "TMA_STORE_STAGES": 2, "CLUSTER_M": 4, "CLUSTER_N": 2},
        {"BM": 128, "BN": 40, "STAGES": 2, "TMA_STORE_STAGES": 1, "CLUSTER_M": 2, "CLUSTER_N": 2, "SWAP_AB": 1},
        {"BM": 64, "BN": 136, "STAGES": 2, "PINGPONG": 1, "TMA_STORE_STAGES": 3, "GROUP_M": 1, "SWAP_AB": 1},
        {"BM": 64, "BN": 48, "STAGES": 3, "CONSUMERS": 1, "SPLITS": 2, "SWAP_AB": 1},
        {"BM": 64, "BN": 32, "STAGES": 3, "CONSUMERS": 1, "CLUSTER_M": 2, "CLUSTER_N": 2, "SPLITS": 2},
        {"BM": 192, "BN": 72, "STAGES": 3, "CONSUMERS": 3, "SWAP_AB": 1},
    ],
    "small_m_bf16x6": [
        {"BM": 8, "BN": 64, "STAGES": 3, "MIN_BLOCKS": 2},
        {"BM": 16, "BN": 192, "BK": 64, "STAGES": 2, "SPLITS": 8},
        {"BM": 128, "BN": 64, "K_SLICES": 2, "STAGES": 3, "SPLITS": 2},
        {"BM": 64, "BN": 128, "STAGES": 3},
    ],
    "small_m_fp16x3": [
        {"BM": 8, "BN": 64, "BK": 64, "STAGES": 3, "SPLITS": 2},
        {"BM": 128, "BN": 64, "K_SLICES": 2, "STAGES": 3},
    ],
    "split_k": [
        {"WORKERS": 1},
        {"BM": 32, "BN": 128, "BK": 64, "K_SLICES": 2, "TM": 8, "STAGES": 2, "WORKERS": 2},
        {"BM": 16, "BN": 32, "TN": 4, "K_SLICES": 4, "MIN_BLOCKS": 4},
    ],
    "tma_packed": [
        {"WORKERS": 1},
        {"BM": 64, "BN": 64, "BK": 52, "WORKERS": 2},
        {"BM": 128, "BN": 256, "TN": 16, "BK": 16, "MIN_BLOCKS": 1, "WORKERS": 0},
    ],
    "tma_transposed": [
        {"WORKERS": 2},
        {"BM": 64, "BN": 64, "BK": 128, "K_SLICES": 4, "MIN_BLOCKS": 1, "WORKERS": 1},
        {"BM": 32, "BN": 64, "K_SLICES": 4, "UNROLL": 8, "WORKERS": 3, "BUNDLE": 2},
        {"BM": 64, "BN": 64, "BK": 48, "UNROLL": 4, "A_BUFFERS": 1, "WORKERS": 0},
    ],
    "skinny": [
        {},
        {"TM": 2, "TN": 4, "THREADS_N": 8, "GROUPS": 4, "DEPTH": 8, "AHEAD": 0},
        {"TM": 4, "TN": 3, "THREADS_N": 1, "THREADS_M": 8, "GROUPS": 4},
    ],
}
CONFIGS |= {
    kernel.name: [{}, *kernel.presets.values()]
    for kernel in LIBRARY
    if kernel.source.stem == kernel.name and kernel.name not in CONFIGS and not kernel.support.grouped
}
FORMS = [(find(name), overrides) for name, configs in CONFIGS.items() for overrides in configs]
KERNELS = [find(name) for name in CONFIGS]

forms = pytest.mark.parametrize(("kernel", "overrides"), FORMS, ids=lambda value: getattr(value, "name", str(value)))


def drawing(examples):
    """Settings of a test that draws this number of problems."""
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


def of_size(kernel, layout, m, n, k, gap=8, result=None):
    """Two products of these orders, with `gap` elements between the rows, and all that an epilogue does."""
    a, b = (
        Layout("row", cols + gap) if order == "N" else Layout("column", rows + gap)
        for order, (rows, cols) in zip(layout, ((m, k), (k, n)), strict=True)
    )
    arithmetic = Arithmetic(kernel.support.factors[-1], result or kernel.support.results[0])
    rows = Layout("row", n + gap)
    side = "row" if layout[0] == "N" else "column"
    problem = Problem(m, n, k, arithmetic, 2, a, b, rows, rows, epilogue=Epilogue(side, "gelu"))
    return Case(problem, Scalars(0.75, -0.5), separate_c=True)


def result_of(overrides):
    """The type of results that a config is about; None for whichever."""
    return "bfloat16" if overrides.get("TMA_STORE_STAGES") else None


def with_copies(kernel, config):
    """A config with every value of the parameters that say which factors are copied beforehand: all are one source."""
    parameters = [one for one in kernel.parameters if not one.compiled]
    values = itertools.product(*(one.values for one in parameters))
    return [Config({**config, **dict(zip((one.name for one in parameters), of, strict=True))}) for of in values]


def activation_of(kernel, overrides):
    """One of all and none: forms take turns."""
    every = (None, *ACTIVATIONS)
    return every[FORMS.index((kernel, overrides)) % len(every)]


def drawn_kinds(kernel, overrides):
    return kinds(kernel, overrides, activation_of(kernel, overrides))


def kind_of(kernel, overrides):
    """One kind for each form of a kernel, since each is compiled, without an epilogue: all forms store by the same
    code, and `test_the_checker_finds_nothing` runs each with one."""
    return [kind for kind in kinds(kernel, overrides, activation_of(kernel, overrides)) if kind.epilogue == Epilogue()][
        :1
    ]


@pytest.mark.one_of_each("kernel")
@forms
@given(data=st.data())
@drawing(8)
def test_a_drawn_problem_is_right(kernel, overrides, data):
    config = kernel.config(overrides)
    depth = kernel.tile(config).k  # of whole steps, which come before the last one
    depths = (*DEPTHS, depth + 3, 2 * depth + 8)
    check(ENGINE, kernel, config, data.draw(cases(kernel, config, kind_of(kernel, overrides), depths=depths)))


@pytest.mark.first(2)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@given(data=st.data())
@drawing(8)
def test_a_drawn_epilogue_is_right(kernel, data):
    """By one form of each kernel, with every set of factors that it can have copied."""
    overrides = CONFIGS[kernel.name][0]
    among = [kind for kind in drawn_kinds(kernel, overrides) if kind.epilogue != Epilogue()]
    config = data.draw(st.sampled_from(with_copies(kernel, kernel.config(overrides))))
    check(ENGINE, kernel, config, data.draw(cases(kernel, config, among)))


# The checker runs every third form so.
DIVIDED = [
    (kernel, overrides, "NN" if number else "TT")
    for kernel in KERNELS
    for number, overrides in enumerate(CONFIGS[kernel.name][: 3 if kernel.name == "gemm_sm90" else 1])
    if number != 1
]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("kernel", "overrides", "layout"), DIVIDED, ids=lambda value: getattr(value, "name", str(value))
)
def test_a_problem_that_tiles_divide_is_right(kernel, overrides, layout):
    for config in distinct(kernel, with_copies(kernel, kernel.config(overrides)), layout):
        tile = kernel.tile(config)
        case = of_size(kernel, layout, 2 * tile.m, 2 * tile.n, 3 * tile.k, result=result_of(overrides))
        check(ENGINE, kernel, config, case)


# Of consumers side by side, which add up sums of a cluster, and in turns, whose results the copy engine stores; of D^T.
@pytest.mark.first(1)
@pytest.mark.parametrize("overrides", [CONFIGS["gemm_sm90"][form] for form in (0, 2, 6, 9)], ids=str)
@given(data=st.data())
@drawing(10)
def test_rows_of_16_bits_may_start_anywhere(overrides, data):
    """Every offset of D, every remainder of its leading dimension and its columns, in one tile and several."""
    kernel = find("gemm_sm90")
    config = kernel.config(overrides)
    tile = kernel.tile(config)
    m = data.draw(st.sampled_from((1, 15, tile.m, tile.m + 9)))
    n = data.draw(st.one_of(st.integers(1, 2 * tile.n + 9), st.sampled_from((tile.n, 2 * tile.n))))
    gap = data.draw(st.integers(0, 9))
    arithmetic = Arithmetic("bfloat16", "bfloat16")
    rows = Layout("row", n + gap)
    problem = Problem(m, n, 8, arithmetic, 2, d=rows, c=rows, epilogue=Epilogue("row", "relu"))
    beta = data.draw(st.sampled_from((0.0, 0.5)))
    case = Case(problem, Scalars(0.75, beta), separate_c=True, offset=data.draw(st.integers(0, 7)))
    check(ENGINE, kernel, config, case)


@pytest.mark.parametrize("layout", ("NN", "NT", "TN", "TT"))
@pytest.mark.parametrize("warps", ({"WM": 32, "WN": 16}, {"WM": 64, "WN": 64}), ids=str)
def test_a_matrix_without_gaps_may_start_anywhere(layout, warps):
    """Something else lies right before its first line alone. With eight warps lines of a thread start alike."""
    kernel = find("gemm_mma")
    case = replace(of_size(kernel, layout, 77, 67, 77, gap=0), offset=3)
    check(ENGINE, kernel, kernel.config({"BM": 64, "BN": 64, "BK": 64, "STAGES": 2, **warps}), case)


def test_groups_of_tiles_cover_the_result():
    """Tiles are 5 high, so that the last of three groups has one row of them, and each block has several."""
    kernel = find("gemm_sm90")
    config = kernel.config({"BM": 128, "BN": 8, "STAGES": 2, "GROUP_M": 2})
    check(ENGINE, kernel, config, of_size(kernel, "NN", 4 * 128 + 3, 3 * 8, 8))


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("kernel", "overrides"),
    [(kernel, CONFIGS[kernel.name][0]) for kernel in KERNELS],
    ids=lambda one: getattr(one, "name", ""),
)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@drawing(5)
def test_nan_and_infinity_come_out_as_those_of_numpy(kernel, overrides, data, seed):
    config, among = kernel.config(overrides), kind_of(kernel, overrides)
    case = data.draw(cases(kernel, config, among, sizes=(1, 31, 32, 33, 64, 65), depths=(1, 7, 31, 32, 33, 64)))
    alone = replace(case, scalars=Scalars(), separate_c=False, problem=replace(case.problem, c=None))
    check_specials(ENGINE, kernel, config, alone, seed)


SHORT = [
    ({"BM": 128, "BN": 32, "STAGES": 3, "SPLITS": 4}, "NT", (8, 72), (8, 32)),
    ({"BM": 64, "BN": 48, "STAGES": 3, "PINGPONG": 1, "CLUSTER_M": 2}, "NT", (35, 17), (40, 24)),
    ({"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1}, "TN", (9, 9), (64, 64)),
    ({"BM": 64, "BN": 104, "STAGES": 3, "CONSUMERS": 1, "SWAP_AB": 1}, "NT", (35, 17), (40, 24)),
    ({"BM": 64, "BN": 72, "STAGES": 2, "CONSUMERS": 1, "CLUSTER_M": 2, "SWAP_AB": 1}, "NN", (35, 17), (40, 64)),
]
"""Config and orders; rows of A and columns of B; rows of the boxes that load them. Blocks that share a tile load equal
parts, in eights, of as many as it has or more."""


@pytest.mark.first(1)
@pytest.mark.parametrize(("overrides", "layout", "sides", "rows"), SHORT, ids=str)
def test_a_factor_that_is_shorter_than_a_tile_is_loaded_in_eights(overrides, layout, sides, rows):
    """Lines along k that a block loads for itself; what a tile has behind them is NaN here."""
    kernel = find("gemm_sm90")
    config = kernel.config(overrides)
    case = of_size(kernel, layout, *sides, 3 * 64 + 8)
    boxes = layouts(kernel, config, case.problem, aligned=True)
    assert (boxes["A"].box.rows, boxes["B"].box.rows) == rows
    assert findings(kernel, config, case) == []


WAYS = {"whole tiles": (0, 8), "edges": (8, 8), "unaligned rows": (3, 2)}
"""Elements added to whole tiles, and to rows."""

# One way and one pair of orders of each form: they take turns.
CHECKED = [
    (kernel, overrides, ("NT", "NN", "TN", "TT")[form % 4], list(WAYS)[(form + 2) % 3])
    for kernel in KERNELS
    for form, overrides in enumerate(CONFIGS[kernel.name])
    if kernel.name != "small_m_bf16x6"
    or form == 1  # others of its source are in test_emulator_left_out and test_small_m
]


@pytest.mark.one_of_each("kernel.source")
@pytest.mark.parametrize(
    ("kernel", "overrides", "layout", "way"), CHECKED, ids=lambda value: getattr(value, "name", str(value))
)
def test_the_checker_finds_nothing(kernel, overrides, layout, way):
    config = kernel.config(overrides)
    tile = kernel.tile(config)
    extra, gap = WAYS[way]
    sizes = (tile.m + extra, tile.n + extra, 2 * tile.k + extra)
    assert findings(kernel, config, of_size(kernel, layout, *sizes, gap, result_of(overrides))) == []
