"""Products of warpgroups on a real GPU: the layouts that the headers describe, and rungs 19 on."""

import numpy as np
import pytest

from async_kernels import warpgroup_product
from this_gpu import CAPABILITY
from tilewright.bench.verify import Operands, limit
from tilewright.engines.base import run
from tilewright.kernels import LADDER
from tilewright.problem import Layout, Problem, Scalars
from tilewright.tuning.space import configs

pytestmark = pytest.mark.skipif(CAPABILITY != (9, 0), reason="wgmma is Hopper's alone")

RUNGS = [kernel for kernel in LADDER if kernel.takes.architectures == ("sm_90a",)]
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
    of = Operands.draw(problem, scalars)
    a, b, c = (
        engine.upload(array, ld=layout.ld)
        for array, layout in ((of.a, problem.a), (of.b, problem.b), (of.c, problem.d))
    )
    run(engine, kernel, kernel.config(overrides), problem, a, b, c, scalars)
    return of.error(engine.download(c)), limit(problem)


@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("gap", [0, 3, 8])
def test_rungs_are_right(engine, kernel, shape, gap):
    m, n, k = shape
    layouts = {name: Layout(ld=max(length, 1) + gap) for name, length in (("a", k), ("b", n), ("d", n))}
    problem = Problem(m, n, k, kernel.takes.arithmetic(), **layouts)
    for scalars in (Scalars(), Scalars(0.5, -2.0)):
        found, allowed = error(engine, kernel, problem, scalars)
        assert found <= allowed


@pytest.mark.parametrize("kernel", RUNGS, ids=lambda kernel: kernel.name)
def test_every_config_is_right(engine, kernel):
    """Several blocks a multiprocessor, and stages that are passed round many times."""
    problem = Problem(2050, 1030, 1100, kernel.takes.arithmetic())
    for config in configs(kernel, CAPABILITY):
        found, allowed = error(engine, kernel, problem, overrides=config)
        assert found <= allowed, config
