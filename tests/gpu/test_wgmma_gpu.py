"""Products of warpgroups on a real GPU: the layouts that the headers describe, rungs 19 on, and gemm_sm90."""

from random import Random

import numpy as np
import pytest

import library_cases
from async_kernels import warpgroup_product
from library_cases import Case, check, check_specials, multiply
from this_gpu import CAPABILITY
from tilewright.core.problem import LAYOUTS, Arithmetic, Epilogue, Layout, Problem, Scalars
from tilewright.kernels import LADDER, find
from tilewright.runtime.base import run
from tilewright.tools.bench.case import fitting
from tilewright.tools.bench.verify import Operands, limit
from tilewright.tools.tune.space import configs

pytestmark = pytest.mark.skipif(CAPABILITY != (9, 0), reason="wgmma is Hopper's alone")

RUNGS = [kernel for kernel in LADDER if kernel.support.architectures == ("sm_90a",)]
SM90 = find("gemm_sm90")
SHAPES = [(1, 1, 1), (17, 1, 5), (64, 64, 0), (128, 256, 64), (127, 129, 131), (777, 333, 500), (1024, 2048, 1024)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("across_a", [False, True])
@pytest.mark.parametrize("across_b", [False, True])
def test_a_product_of_tiles_in_either_order(engine, tmp_path, dtype, across_a, across_b):
    random = np.random.default_rng(7)
    a, b = (random.integers(-8, 9, (64, 64)).astype(dtype) for _ in "ab")
    left, right = a.astype(np.float32), b.astype(np.float32)
    expected = (left.T if across_a else left) @ (right if across_b else right.T)
    np.testing.assert_array_equal(warpgroup_product(engine, tmp_path, a, b, across_a, across_b), expected)


def error(engine, kernel, problem, scalars=Scalars(), overrides=None):
    """The error, and the largest that is right."""
    scalars = fitting(scalars, problem.result)
    of = Operands.draw(problem, scalars)
    a, b, c = (
        engine.upload(array, ld=layout.ld)
        for array, layout in ((of.a, problem.a), (of.b, problem.b), (of.c, problem.d))
    )
    run(engine, kernel, kernel.config(overrides), problem, a, b, c, scalars)
    return of.error(engine.download(c)), limit(problem, kernel.support.precision)


@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("gap", [0, 3, 8])
def test_rungs_are_right(engine, kernel, shape, gap):
    m, n, k = shape
    layouts = {name: Layout(ld=max(length, 1) + gap) for name, length in (("a", k), ("b", n), ("d", n))}
    problem = Problem(m, n, k, kernel.support.arithmetic(), **layouts)
    for scalars in (Scalars(), Scalars(0.5, -2.0)):
        found, allowed = error(engine, kernel, problem, scalars)
        assert found <= allowed


@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.name)
def test_every_config_is_right(engine, kernel):
    """Several blocks a multiprocessor, and stages that are passed round many times."""
    problem = Problem(2050, 1030, 1100, kernel.support.arithmetic())
    for config in configs(kernel, CAPABILITY):
        found, allowed = error(engine, kernel, problem, overrides=config)
        assert found <= allowed, config


# The default, consumers with tiles of their own, clusters, blocks that share the k of a tile, the most sums, few sums
# and two stages, tiles whose last block of 64 columns is read in part, one and three consumers, and tiles of D^T.
FORMS = [
    {},
    {"BM": 64, "BN": 64, "PINGPONG": 1},
    {"BN": 128, "PINGPONG": 1, "CLUSTER_M": 2},
    {"BN": 80, "CLUSTER_M": 2},
    {"BN": 64, "SPLITS": 4},
    {"BM": 256, "BN": 192},
    {"BM": 256, "BN": 64, "STAGES": 2, "GROUP_M": 2},
    {"BN": 72, "GROUP_M": 1},
    {"BN": 208},
    {"BM": 192, "BN": 176, "CONSUMERS": 3, "CLUSTER_N": 2},
    {"BM": 64, "BN": 64, "CONSUMERS": 1, "CLUSTER_M": 2, "CLUSTER_N": 2},
    {"BM": 64, "BN": 64, "CONSUMERS": 1, "SPLITS": 2},
    {"BM": 64, "BN": 96, "CONSUMERS": 1, "CLUSTER_M": 2, "SPLITS": 4},
    {"BM": 128, "BN": 104, "STAGES": 5, "TMA_STORE_STAGES": 1, "SWAP_AB": 1},
    {"BM": 64, "BN": 136, "STAGES": 5, "PINGPONG": 1, "TMA_STORE_STAGES": 3, "CLUSTER_M": 2, "SWAP_AB": 1},
    {"BM": 192, "BN": 48, "CONSUMERS": 3, "CLUSTER_M": 2, "CLUSTER_N": 2, "SWAP_AB": 1},
    {"BM": 64, "BN": 96, "CONSUMERS": 1, "SPLITS": 2, "TMA_STORE_STAGES": 1, "SWAP_AB": 1},
]
TYPES = [("bfloat16", "bfloat16"), ("float16", "float16"), ("bfloat16", "float32"), ("float16", "bfloat16")]
LIBRARY_SHAPES = [
    (1, 1, 1),
    (64, 64, 0),
    (256, 384, 192),
    (260, 200, 72),
    (9, 300, 700),
    (300, 17, 200),
    (1000, 777, 333),
    (4096, 1024, 512),
]


def library_case(shape, layout, types, gap, offset=0, plain=False):
    """A problem of these orders with `gap` elements between lines, all that an epilogue does, and two matrices."""
    m, n, k = shape
    a, b = (
        Layout("row", max(cols, 1) + gap) if order == "N" else Layout("column", max(rows, 1) + gap)
        for order, (rows, cols) in zip(layout, ((m, k), (k, n)), strict=True)
    )
    rows = Layout("row", n + gap)
    if plain:
        return Case(Problem(m, n, k, Arithmetic(*types), 1, a, b, rows), offset=offset)
    problem = Problem(m, n, k, Arithmetic(*types), 2, a, b, rows, rows, Epilogue("row" if m % 2 else "column", "gelu"))
    return Case(problem, Scalars(0.75, -0.5), separate_c=True, offset=offset)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", LIBRARY_SHAPES, ids=str)
@pytest.mark.parametrize(("gap", "offset"), [(0, 0), (8, 0), (3, 1)])
def test_the_librarys_kernel_is_right(engine, layout, shape, gap, offset):
    for number, form in enumerate(FORMS):
        types = TYPES[number % len(TYPES)]
        check(engine, SM90, SM90.config(form), library_case(shape, layout, types, gap, offset, plain=gap == 0))


@pytest.mark.parametrize("sides", [(9, 1024), (1024, 9)], ids=str)
def test_what_products_left_in_shared_memory_does_not_matter(engine, sides):
    """Lines of a tile beyond those of a factor with fewer lines are not loaded. They hold NaN here."""
    before = library_case((4096, 4096, 256), "NT", TYPES[0], 8, plain=True)
    operands = library_cases.Operands.draw(before)
    operands.a[:] = operands.b[:] = np.nan
    for form in FORMS:
        config = SM90.config(form)
        multiply(engine, SM90, config, before, operands)
        check(engine, SM90, config, library_case((*sides, 512), "NT", TYPES[0], 8, plain=True))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_nan_and_infinity_come_out_as_those_of_numpy(engine, layout, types):
    for seed in range(20):
        check_specials(engine, SM90, SM90.config(), library_case((300, 200, 130), layout, types, 6, plain=True), seed)


def test_a_sample_of_the_configs_of_the_librarys_kernel_is_right(engine):
    case = library_case((2050, 1030, 1100), "NN", TYPES[0], 2, plain=True)
    for config in Random(0).sample(list(configs(SM90, CAPABILITY)), 30):
        check(engine, SM90, config, case)
