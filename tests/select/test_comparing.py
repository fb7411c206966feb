"""Models that are compared: the compiled formulas are those of Python, to the last bit."""

import math
import random
import sysconfig
from array import array

import pytest

from tilewright.core.gpus import find_gpu
from tilewright.core.problem import Arithmetic, Problem, orders
from tilewright.kernels import KERNELS, find
from tilewright.kernels.cost_family import Streaming
from tilewright.runtime.host_compiler import find_compiler
from tilewright.select.cost import comparing
from tilewright.select.cost import prediction as cost
from tilewright.select.cost.comparing import CostModels
from tilewright.select.cost.prediction import CostModel, Dims
from tilewright.select.measured import measured
from tilewright.select.selector import _own
from tilewright.select.tables import store
from tilewright.select.tables.cases import Case

GPUS = [("NVIDIA H200", (9, 0)), ("NVIDIA A100-SXM4-80GB", (8, 0)), ("NVIDIA GeForce RTX 3060", (8, 6))]


@pytest.fixture
def compiled():
    if comparing._compiled() is None:
        pytest.skip("no C++ compiler")


def drawn(seed, dtype, layout, count):
    """Problems of all kinds of sizes, with copies kept or not."""
    a, b = orders(layout)
    draw = random.Random(seed)
    for _ in range(count):
        m, n, k = (draw.choice([draw.randint(1, 300), draw.randint(1, 9000), 8 * draw.randint(1, 1000)]) for _ in "mnk")
        problem = Problem(m, n, k, Arithmetic(dtype, dtype), batch=draw.choice([1, 1, 1, 7]), a=a, b=b)
        yield Dims.of(problem, cached=draw.choice([None, None, "A", "B"]))


def together_of(models):
    """Models that are compared."""
    return CostModels(models.__getitem__, len(models))


def python(models, sizes):
    """Times that Python predicts."""
    found = [model.terms(sizes) for model in models]
    return [math.inf if terms is None else terms[0] for terms in found]


@pytest.mark.first(1)
@pytest.mark.parametrize("promise", [None, "ieee", "fp16x3", "tf32"])
def test_compiled_formulas_are_those_of_python_for_what_tables_have(compiled, promise):
    gpu = find_gpu("NVIDIA H200", (9, 0))
    cases = dict.fromkeys(map(Case.parse, next(iter(store.load("NVIDIA H200"))).cases))
    for case in cases:
        if (known := measured("NVIDIA H200", (9, 0), case, promise, None, None)) is None:
            continue
        models = [CostModel(kernel, known.config(number), gpu) for number, kernel in enumerate(known.kernels)]
        together, numbers = together_of(models), list(range(len(models)))
        for sizes in drawn(str(case), case.factors, case.layout, 2):
            expected = python(models, sizes)
            for _ in range(2):  # the second time without Python
                assert together.us(sizes, numbers) == expected


@pytest.mark.parametrize(("device", "capability"), GPUS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_so_are_they_for_every_kernels_own_configs(compiled, device, capability, dtype):
    gpu = find_gpu(device, capability)
    kernels = [one for one in KERNELS if dtype in one.support.factors and one.support.runs_on(capability, dtype)]
    models = [model for kernel in kernels for _, model in _own(kernel, gpu)]
    together, numbers = together_of(models), list(range(len(models)))
    for layout in ("NN", "TT"):
        for sizes in drawn(device, dtype, layout, 6):
            expected = python(models, sizes)
            for _ in range(2):
                assert together.us(sizes, numbers) == expected


def test_python_predicts_each_model_once_for_a_form(compiled, monkeypatch):
    gpu = find_gpu("NVIDIA H200", (9, 0))
    kernels = [find(name) for name in ("gemm_bf16x6", "tma_transposed", "skinny")]
    together = together_of([CostModel(kernel, kernel.config(), gpu) for kernel in kernels])
    asked = []
    terms = CostModel.terms
    monkeypatch.setattr(CostModel, "terms", lambda model, sizes: asked.append(model._kernel) or terms(model, sizes))
    for m in (1024, 2048):
        first = together.us(Dims.of(Problem(m, 1024, 1024)), [2, 0, 1])
        assert together.us(Dims.of(Problem(m, 1024, 1024)), [0, 1, 2]) == [first[1], first[2], first[0]]
    streaming = [kernel for kernel in kernels if isinstance(kernel.cost, Streaming)]
    assert asked == [kernels[2], kernels[0], kernels[1]] + 3 * streaming
    together.us(Dims.of(Problem(1000, 1024, 1024)), [0])  # with edges
    assert asked[-1] is kernels[0]


def test_without_a_compiler_python_predicts(monkeypatch):
    monkeypatch.setattr(comparing, "_compiled", lambda: None)
    gpu = find_gpu("NVIDIA H200", (9, 0))
    models = [CostModel(find(name), find(name).config(), gpu) for name in ("gemm_bf16x6", "split_k")]
    (sizes,) = drawn(0, "float32", "NT", 1)
    assert together_of(models).us(sizes, [1, 0]) == python(models[::-1], sizes)


def test_blocks_that_a_gpu_cannot_hold_take_for_ever(compiled):
    gpu, kernel = find_gpu("NVIDIA GeForce RTX 3060", (8, 6)), find("gemm_sm90")
    together = together_of([CostModel(kernel, kernel.config(), gpu)])
    sizes = Dims.of(Problem(512, 512, 512, Arithmetic("bfloat16", "bfloat16")))
    assert [together.us(sizes, [0]) for _ in range(2)] == [[math.inf]] * 2


def test_arrays_that_do_not_fit_are_refused(compiled):
    module, constants = comparing._compiled(), cost.CONSTANTS
    models, rooms = array("d", [1.0] * 18 + [0.0]), array("d", [1.0] * 26)
    sizes = (8, 8, 8, 1, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0)
    assert module.predict(constants, models, rooms, [0], *sizes)[0] > 0
    for wrong in ((constants, models, rooms[1:]), (constants, models[1:], rooms), (constants[1:], models, rooms)):
        with pytest.raises(ValueError, match="of one size"):
            module.predict(*wrong, [0], *sizes)
    with pytest.raises(IndexError, match="there is no model 1"):
        module.predict(constants, models, rooms, [1], *sizes)
    with pytest.raises(TypeError):
        module.predict(constants, models, rooms, ["0"], *sizes)


@pytest.mark.further
def test_it_compiles_without_warnings():
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-fsyntax-only"]
    include = f"-I{sysconfig.get_path('include')}"
    find_compiler().run([*options, '-DSOURCE_DIGEST=""', include, str(comparing._SOURCE)])
