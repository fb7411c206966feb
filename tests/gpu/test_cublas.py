"""The cuBLAS baseline on a real GPU."""

import re

import numpy as np
import pytest

from starting import poisoned
from tilewright.core.problem import LAYOUTS, Arithmetic, Layout, Problem, Scalars, orders
from tilewright.runtime.base import Matrix
from tilewright.tools.bench.cublas import BEST, DEFAULT, CublasBaseline
from tilewright.tools.bench.measure import operand_sets
from tilewright.tools.bench.verify import Operands, limit

CASES = [
    (Problem(512, 512, 512), Scalars()),
    (Problem(1000, 300, 777), Scalars()),
    (Problem(33, 65, 17), Scalars(-1.5, 0.5)),
    (Problem(128, 192, 256, a=Layout(ld=260), b=Layout(ld=200), d=Layout(ld=196)), Scalars(2.0, -1.0)),
    (Problem(127, 63, 255, a=Layout(ld=301), b=Layout(ld=77), d=Layout(ld=65)), Scalars(beta=1.0)),
    (Problem(1, 4096, 64), Scalars()),
    (Problem(4096, 1, 64), Scalars()),
]


@pytest.fixture(scope="module")
def baseline(engine):
    pytest.importorskip("nvmath.bindings.cublas", reason="pip install nvmath-python nvidia-cublas")
    return CublasBaseline(engine)


def operands(problem, random):
    shapes = (problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n)
    return [random.standard_normal(shape, dtype=np.float32) for shape in shapes]


def upload(engine, problem, a, b, c):
    return engine.upload(a, problem.a.ld), engine.upload(b, problem.b.ld), engine.upload(c, problem.d.ld)


@pytest.mark.parametrize(("problem", "scalars"), CASES, ids=[problem.shape for problem, _ in CASES])
@pytest.mark.parametrize("name", [DEFAULT, BEST])
def test_a_product_is_right_to_fp32(engine, baseline, problem, scalars, name):
    """TF32 would be 3e-4 off."""
    a, b, c = operands(problem, np.random.default_rng(0))
    sets = [upload(engine, problem, a, b, c) for _ in range(3)]
    work = baseline.works(problem, sets, scalars=scalars)[name]
    fresh = engine.upload(c if scalars.beta else poisoned(*c.shape), problem.d.ld)
    sets[1] = (*sets[1][:2], fresh)
    with engine.current:
        work(4, engine.stream)
    expected = scalars.alpha * a.astype(np.float64) @ b + scalars.beta * c
    result = engine.download(fresh)
    assert np.linalg.norm(result - expected) < 2e-6 * np.linalg.norm(expected)
    gaps = engine.download(Matrix(fresh.pointer, problem.m - 1, fresh.ld, fresh.ld, "float32"))[:, problem.n :]
    assert np.isnan(gaps).all(), "written between the rows"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize(
    "arithmetic",
    [Arithmetic(), Arithmetic("float16"), Arithmetic("float16", "float16"), Arithmetic("bfloat16", "bfloat16")],
)
def test_layouts_batches_and_types_are_those_of_the_problem(engine, baseline, layout, batch, arithmetic):
    a, b = orders(layout)
    problem = Problem(72, 136, 264, arithmetic, batch, a, b)
    operands = Operands.draw(problem)
    for name in (DEFAULT, BEST):
        sets = operand_sets(engine, operands, count=2)
        work = baseline.works(problem, sets)[name]
        sets[1] = sets[1]._replace(c=operand_sets(engine, operands, count=1)[0].c)
        with engine.current:
            work(1, engine.stream)
        assert operands.error(engine.download(sets[1].c)) <= limit(problem), name


def test_types_that_cublas_does_not_multiply_have_no_baseline(baseline):
    assert baseline.works(Problem(8, 8, 8, Arithmetic("float32", "float16")), []) == {}


def test_both_are_timed_in_one_run(engine, baseline):
    problem = Problem(2048, 2048, 2048)
    sets = [upload(engine, problem, *operands(problem, np.random.default_rng(i))) for i in range(3)]
    works = baseline.works(problem, sets)
    assert list(works) == [DEFAULT, BEST]
    default, best = (min(samples) for samples in engine.time(list(works.values()), 10, rotation=3))
    assert problem.gflops(default) > 1000, "a GPU that is not busy otherwise"
    assert best < 1.2 * default


def test_operands_off_the_usual_alignment(engine, baseline):
    problem = Problem(100, 99, 98, a=Layout(ld=101), b=Layout(ld=101), d=Layout(ld=101))
    a, b, c = operands(problem, np.random.default_rng(0))
    matrices = [
        Matrix(whole.pointer + 4, whole.rows, whole.cols - 1, whole.ld, "float32", owner=whole.owner)
        for whole in (engine.upload(np.pad(array, ((0, 0), (1, 0))), 101) for array in (a, b, c))
    ]
    works = baseline.works(problem, [tuple(matrices)])
    for work in works.values():
        with engine.current:
            work(0, engine.stream)
        expected = a.astype(np.float64) @ b
        assert np.linalg.norm(engine.download(matrices[2]) - expected) < 2e-6 * np.linalg.norm(expected)


def test_products_that_are_none_are_left_out(baseline):
    for problem in (Problem(0, 4, 4), Problem(4, 0, 4), Problem(4, 4, 0)):
        assert baseline.works(problem, []) == {}


def test_the_version_is_the_librarys(baseline):
    assert re.fullmatch(r"1\d\.\d+\.\d+", baseline.version)
