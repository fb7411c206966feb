"""Judgement of a check's results: NaN, infinities, products that underflow, C separate from D, groups."""

import pytest

from left_out import copied
from tilewright.core.dtypes import ITEM_BYTES
from tilewright.core.problem import Arithmetic, Epilogue, Layout, Problem, Scalars, Scale, Scaling
from tilewright.kernels import find
from tilewright.tools.bench.case import INFINITY, NAN, TINY, CheckCase
from tilewright.tools.bench.check_cases import stages
from tilewright.tools.bench.checking import outcomes

SCALARS = Scalars(1.5, 0.5)


def planted(name, folder, file, before, after):
    """A kernel with a text of its source, or of a header, replaced."""
    kernel = copied(find(name), folder)
    path = folder / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    return kernel


def outcome(kernel, problem, scalars=SCALARS, **named):
    (found,) = outcomes(kernel, [CheckCase(problem, scalars, kernel.config(), **named)])
    return found


RELU = Problem(70, 45, 30, Arithmetic("float16"), epilogue=Epilogue(activation="relu"))
PLAIN = Problem(70, 45, 30)
FAULTS = {
    "NaN becomes 0": ("gemm_wmma", "epilogue/activations.cuh", "x < 0.0f ? 0.0f : x", "x > 0.0f ? x : 0.0f", RELU, NAN),
    "infinity becomes NaN": ("naive", "naive.cu", "sum, beta", "sum + 0 * sum, beta", PLAIN, INFINITY),
    "infinity becomes a number": ("naive", "naive.cu", "sum, beta", "fminf(sum, 1e30f), beta", PLAIN, INFINITY),
    "small sums become 0": ("naive", "naive.cu", "sum, beta", "(fabsf(sum) < 1e-37f ? 0 : sum), beta", PLAIN, TINY),
}


@pytest.mark.first(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_becomes_another_value_is_found_where_elements_have_such_and_nowhere_else(fault, tmp_path):
    *change, problem, values = FAULTS[fault]
    kernel = planted(change[0], tmp_path, *change[1:])
    assert outcome(kernel, problem).clean
    assert not outcome(kernel, problem, values=values).right
    assert outcome(find(change[0]), problem, values=values).clean


def test_an_element_that_is_another_than_it_should_be_is_named(tmp_path):
    kernel = planted("naive", tmp_path, "naive.cu", "sum, beta", "sum + 0 * sum, beta")
    assert outcome(kernel, PLAIN, values=INFINITY).wrong.endswith("by float64")


@pytest.mark.further
def test_c_apart_from_d_has_lines_of_its_own_and_is_not_written(tmp_path):
    problem = Problem(70, 45, 30, Arithmetic("float16"), c=Layout("row", 61))
    assert outcome(find("gemm_wmma"), problem).clean
    change = "epilogue/result.cuh", "*at(D, ldd, row, col) =", "*at(const_cast<T*>(C), ldc, row, col) ="
    found = outcome(planted("gemm_wmma", tmp_path, *change), problem)
    assert "write to an input" in {one.kind for one in found.checked.findings}


@pytest.mark.further
def test_groups_are_multiplied_with_their_own_matrices(tmp_path):
    kernel = find("grouped_sm90")
    problem = Problem(150, 24, 40, kernel.support.arithmetic(), 4, grouped=True)
    config = {"BM": 64, "BN": 32, "STAGES": 2, "PINGPONG": 1}
    faulty = planted("grouped_sm90", tmp_path, "grouped_sm90.cu", "tile.group * sizes.step_b", "0")
    for one, right in ((kernel, True), (faulty, False)):
        (found,) = outcomes(one, [CheckCase(problem, Scalars(), kernel.config(config))])
        assert found.right == right


@pytest.mark.further
def test_what_the_copy_engine_stores_without_a_fence_is_found(tmp_path):
    """By a case that check has of its own."""
    kernel = find("gemm_sm90")
    cases = [
        case
        for stage in stages(kernel, kernel.config(), [SCALARS])
        for case in stage
        if kernel.stored_box(case.config, ITEM_BYTES[case.problem.result])
        and kernel.variant(case.problem, case.config).aligned
        and not case.config.SWAP_AB
    ]
    least = min(cases, key=lambda one: one.problem.flops)
    faulty = planted("gemm_sm90", tmp_path, "epilogue/stored_tiles.cuh", "fence_async_shared();", ";")
    (found,) = outcomes(faulty, [least])
    assert "missing fence" in {one.kind for one in found.checked.findings}


@pytest.mark.further
def test_blocks_of_a_cluster_that_have_nothing_of_d_read_no_scales():
    """Where tiles divide all sizes, so that accesses are not checked against them, and clusters do not."""
    kernel = find("gemm_fp8")
    config = {"BM": 64, "BN": 32, "STAGES": 2, "PINGPONG": 1, "CLUSTER_M": 2, "CLUSTER_N": 2}
    scaling = Scaling(Scale("line"), Scale("line"))
    problem = Problem(64, 32, 128, kernel.support.arithmetic(), scaling=scaling)
    assert not kernel.variant(problem, kernel.config(config)).edges
    (found,) = outcomes(kernel, [CheckCase(problem, SCALARS, kernel.config(config))])
    assert found.clean, found.checked.findings
