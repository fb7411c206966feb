"""The timing protocol, on the emulator."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.stand_ins import NumPyEngine

from tilewright.api import activations
from tilewright.core.errors import DtypeError
from tilewright.core.problem import LAYOUTS, Arithmetic, Epilogue, Problem, Scalars, orders
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice
from tilewright.kernels.support import Support
from tilewright.runtime.plan import Pointers
from tilewright.tools.bench.measure import measure, operand_sets
from tilewright.tools.bench.records import LaunchedKernel
from tilewright.tools.bench.run import NumpyBaseline, baseline_library, bench, verify
from tilewright.tools.bench.verify import Operands, limit

ENGINE = EmulatorEngine()
CHOICES = [Choice(find(name), find(name).config()) for name in ("coalesced", "vectorized")]


def measured(problems, choices=CHOICES, **options):
    settings = {"samples": 2, "library": NumpyBaseline()} | options
    tasks = [(choices, problem) for problem in problems]
    return [record for records in bench(ENGINE, tasks, **settings) for record in records]


def test_a_record_a_choice_and_problem_in_order():
    records = measured([Problem(33, 20, 10), Problem(16, 16, 16)])
    expected = [(kernel, m) for m in (33, 16) for kernel in ("coalesced", "vectorized")]
    assert [(record.kernel, record.m) for record in records] == expected
    assert all(record.verified and record.engine == "emulator" for record in records)
    assert records[1].config == dict(find("vectorized").config())


def test_results_alone_come_in_order_whatever_their_problems_share():
    halves = Problem(33, 20, 10, find("wmma_f16").support.arithmetic())
    names = [("coalesced", Problem(33, 20, 10)), ("wmma_f16", halves), ("vectorized", Problem(33, 20, 10))]
    tasks = [(Choice(find(name), find(name).config()), problem) for name, problem in names]
    steps = []
    found = verify(ENGINE, tasks, scalars=Scalars(beta=0.5), on_step=lambda *step: steps.append(step))
    assert [(one.kernel, one.dtype, one.beta) for one in found] == [
        ("coalesced", "float32", 0.5),
        ("wmma_f16", "float16", 0.5),
        ("vectorized", "float32", 0.5),
    ]
    assert all(one.verified and not hasattr(one, "time_us") for one in found)
    timed = measured([Problem(33, 20, 10)], scalars=Scalars(beta=0.5))
    assert [one.error for one in timed] == [found[0].error, found[2].error]
    assert [step[1:] for step in steps] == [(1, 3), (2, 3), (3, 3)]


def test_of_results_alone_nothing_runs_where_a_kernel_does_not_take_its_problem():
    ran = []
    with pytest.raises(DtypeError, match="vectorized takes float32, got bfloat16"):
        verify(
            ENGINE,
            [(CHOICES[0], Problem(8, 8, 8)), (CHOICES[1], Problem(8, 8, 8, Arithmetic("bfloat16")))],
            on_step=lambda *step: ran.append(step),
        )
    assert not ran


class Gpu(NumPyEngine):
    """Runs of a work take 10 us, 15 after other work, which takes 3."""

    def __init__(self):
        super().__init__((9, 0))
        self.started_other = 0

    def start_other(self, stream=None):
        self.started_other += 1

    def time(self, works, samples, *, rotation=1, on_sample=lambda: None):
        times = []
        for work in works:
            before = self.started_other, len(self.started)
            work(0, None)
            runs, others = len(self.started) - before[1], self.started_other - before[0]
            times.append(
                [{(1, 0): 10.0, (1, 1): 18.0, (0, 1): 3.0}[runs, others] + sample for sample in range(samples)]
            )
            for _ in range(samples):
                on_sample()
        return times


def test_on_a_gpu_runs_are_timed_after_other_work_too_whose_time_is_taken_off():
    steps = []
    choice = Choice(find("coalesced"), find("coalesced").config())
    (record,) = measure(
        Gpu(), [choice], Problem(33, 20, 10), samples=3, library=None, on_step=lambda *step: steps.append(step[1:])
    )
    assert (record.time_us.median, record.after_other_work_us.median, record.usual_us) == (11.0, 15.0, 13.0)
    assert steps == [(number, 10) for number in range(1, 11)]


def test_on_the_emulator_nothing_is_timed_after_other_work():
    (record,) = measured([Problem(16, 16, 16)], CHOICES[:1])
    assert (
        record.after_other_work_us is None
        and record.baseline.after_other_work_us is None
        and record.after_other_work_ratio is None
    )


def test_speed_and_ratio_come_from_the_medians():
    (record, _) = measured([Problem(64, 64, 64)], samples=3)
    assert 0 < record.time_us.min <= record.time_us.median
    assert record.gflops == pytest.approx(2 * 64**3 / record.time_us.median / 1e3)
    assert record.baseline.name == "NumPy"
    assert record.ratio == pytest.approx(record.baseline.time_us.median / record.time_us.median)


def test_without_a_library_there_is_no_ratio():
    (record, _) = measured([Problem(8, 8, 8)], library=None)
    assert record.baseline is None
    assert record.ratio is None


@pytest.mark.parametrize("shape", ["0x5x3", "5x0x3", "5x3x0", "1x1x1", "1x7x3"])
def test_tiny_and_empty_problems_are_measured_too(shape):
    records = measured([Problem.parse(shape)])
    assert all(record.verified for record in records)


def test_alpha_and_beta_are_measured_as_asked():
    records = measured([Problem(40, 30, 20)], scalars=Scalars(0.5, 2.0))
    assert all(record.verified and (record.alpha, record.beta) == (0.5, 2.0) for record in records)


class Library:
    """A library whose ways are distinguished by precision; what rounds is as slow as many products."""

    version = "1"

    def works(self, problem, sets, precision=None, scalars=Scalars()):
        product = NumpyBaseline().works(problem, sets)["NumPy"]

        def slow(index, stream):
            for _ in range(20):
                product(index, stream)

        return {"tf32": {"rounding": slow}, None: {"exact": product}}[precision]

    def result(self, work, sets):
        exact = ENGINE.download(sets[0].a).astype(float) @ ENGINE.download(sets[0].b).astype(float)
        return exact * (1 + 1e-3)

    def kernels(self, work):
        return [LaunchedKernel(name=work.__name__, grid=(2, 1, 1), block=(32, 1, 1))]


def test_a_kernel_that_rounds_is_compared_with_a_library_that_does():
    names = ("wmma_tf32", "naive", "vectorized")
    choices = [Choice(find(name), find(name).config()) for name in names]
    records = measured([Problem(100, 90, 80)], choices, library=Library())
    assert [record.baseline.name for record in records] == ["rounding", "exact", "exact"]
    assert [record.arithmetic for record in records] == ["tf32", "float32", "float32"]
    assert records[0].baseline.time_us.median > records[1].baseline.time_us.median
    assert all(record.verified for record in records)
    assert records[0].error.limit > 100 * records[1].error.limit
    assert records[0].error.relative_frobenius > records[1].error.limit


def test_the_kernels_of_the_baseline_are_named_where_asked():
    choices = [Choice(find(name), find(name).config()) for name in ("wmma_tf32", "naive")]
    problem = Problem(20, 20, 20)
    named = measured([problem], choices, library=Library(), name_kernels=True)
    assert [kernel.name for record in named for kernel in record.baseline.kernels] == ["slow", "work"]
    assert all(record.baseline.kernels is None for record in measured([problem], choices, library=Library()))


def test_the_error_of_the_baseline_is_compared_with_the_kernels():
    choices = [Choice(find("naive"), find("naive").config())]
    (plain,) = measured([Problem(20, 20, 20)], choices, library=Library())
    (added,) = measured([Problem(20, 20, 20)], choices, library=Library(), scalars=Scalars(beta=1.0))
    assert plain.baseline.error == pytest.approx(1e-3)
    assert plain.error_ratio == pytest.approx(plain.error.relative_frobenius / 1e-3)
    assert added.baseline.error is None and added.error_ratio is None
    assert all(record.error_ratio is None for record in measured([Problem(8, 8, 8)]))  # NumPy has other operands


def test_numpy_runs_no_kernels():
    assert measured([Problem(8, 8, 8)], name_kernels=True)[0].baseline.kernels == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_measured(dtype):
    choice = Choice(find("wmma_f16"), find("wmma_f16").config())
    (record,) = measured([Problem(37, 41, 43, Arithmetic(dtype))], [choice], scalars=Scalars(beta=0.5))
    assert record.verified
    assert (record.dtype, record.baseline.name) == (dtype, "NumPy")


def test_copies_of_halves_begin_at_multiples_of_16_bytes():
    operands = Operands.draw(Problem(3, 5, 7, Arithmetic("float16")))
    sets = operand_sets(replace_capability(ENGINE, cache_bytes=1000), operands)
    assert len(sets) > 5
    for chosen in sets:
        assert all(matrix.pointer % 16 == 0 for matrix in chosen[:3])
        np.testing.assert_array_equal(ENGINE.download(chosen.a), operands.a)
        np.testing.assert_array_equal(ENGINE.download(chosen.b), operands.b)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 3])
def test_operands_are_uploaded_as_the_problem_says_they_lie(layout, batch):
    a, b = orders(layout)
    problem = Problem(3, 5, 7, Arithmetic("float16", "bfloat16"), batch, a, b, epilogue=Epilogue("column"))
    operands = Operands.draw(problem, Scalars(beta=1.0))
    for chosen in operand_sets(ENGINE, operands, count=2):
        for name in ("a", "b", "c"):
            matrix = getattr(chosen, name)
            np.testing.assert_array_equal(ENGINE.download(matrix), getattr(operands, name))
            if name != "c":
                assert (matrix.order, matrix.ld) == (getattr(problem, name).order, getattr(problem, name).ld)
        np.testing.assert_array_equal(ENGINE.download(chosen.bias)[0], operands.bias)
        a_b_c = (chosen.a.pointer, chosen.b.pointer, chosen.c.pointer)
        assert chosen.pointers == Pointers(*a_b_c, bias=chosen.bias.pointer)


@pytest.mark.first(2)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_library_kernel_is_measured_in_its_case(layout):
    a, b = orders(layout)
    arithmetic, epilogue = Arithmetic("float32", "bfloat16"), Epilogue("row", "gelu")
    problem = Problem(37, 40, 33, arithmetic, 3, a, b, epilogue=epilogue)
    kernel = find("split_k")
    (record,) = measured([problem], [Choice(kernel, kernel.config())], scalars=Scalars(1.5, 0.5))
    assert record.verified and 1e-4 < record.error.relative_frobenius < record.error.limit
    assert record.problem == problem
    assert (record.layout, record.batch, record.out_dtype) == (layout, 3, "bfloat16")
    assert (record.bias, record.activation) == ("row", "gelu")
    assert record.gflops == pytest.approx(2 * 3 * 37 * 40 * 33 / record.time_us.median / 1e3)


def test_a_wrong_activation_is_found_out():
    problem = Problem(64, 64, 64, epilogue=Epilogue(activation="gelu"))
    operands = Operands.draw(problem)
    tanh = activations.apply("gelu_tanh", operands.sums)
    assert operands.error(operands.reference.astype(np.float32)) < limit(problem) < operands.error(tanh)


def test_the_baselines_error_is_left_out_where_it_computes_less():
    choice = Choice(find("split_k"), find("split_k").config())
    (record,) = measured([Problem(20, 20, 20, epilogue=Epilogue("row"))], [choice], library=Library())
    assert record.baseline.error is None


def replace_capability(engine, **attributes):
    """An engine with these methods, said to be a GPU."""
    facts = {"capability": (9, 0), "upload": engine.upload, **attributes}
    return SimpleNamespace(**facts)


def test_a_wrong_kernel_is_found_out(tmp_path):
    right = find("coalesced")
    source = tmp_path / right.source.name
    source.write_text(right.source.read_text().replace("k < K", "k < K - 1"))
    wrong = replace(right, name="wrong", source=source)
    (record,) = measured([Problem(32, 32, 32)], [Choice(wrong, wrong.config())])
    assert not record.verified
    assert record.error.relative_frobenius > record.error.limit


def test_a_kernel_that_leaves_elements_out_is_found_out(tmp_path):
    right = find("coalesced")
    source = tmp_path / right.source.name
    source.write_text(right.source.read_text().replace("row >= M", "row >= M - 1"))
    lazy = replace(right, name="lazy", source=source)
    (record,) = measured([Problem(31, 32, 32)], [Choice(lazy, lazy.config())])
    assert not record.verified
    assert record.error.relative_frobenius is None


def test_a_wrong_element_type_is_refused_before_anything_runs():
    half = replace(find("naive"), support=Support(factors=("float16",)))
    with pytest.raises(DtypeError, match="naive takes float16, got float32"):
        next(bench(ENGINE, [([*CHOICES, Choice(half, half.config())], Problem(8, 8, 8))], samples=1, library=None))


def test_every_step_is_reported():
    steps = []
    measured([Problem(8, 8, 8)], on_step=lambda what, done, total: steps.append((done, total)))
    total = 2 + 2 * 3  # two verifications, two samples of two kernels and of NumPy
    assert steps == [(done, total) for done in range(1, total + 1)]


def test_the_emulator_is_compared_with_numpy():
    assert isinstance(baseline_library(ENGINE), NumpyBaseline)
