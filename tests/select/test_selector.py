"""Which kernel and config are picked where none is named."""

import cProfile
import pstats
import subprocess
import sys
from dataclasses import replace
from itertools import product

import pytest

from tilewright.core.dtypes import FACTORS, INT8
from tilewright.core.errors import DtypeError, ProblemError
from tilewright.core.gpus import find_gpu
from tilewright.core.problem import ACTIVATIONS, LAYOUTS, Arithmetic, Epilogue, Layout, Problem, orders
from tilewright.kernels import KERNELS, LADDER, find
from tilewright.kernels.support import Addresses
from tilewright.select import model, selector
from tilewright.select.selector import select, tile_of, unhidden_us
from tilewright.select.tables import store
from tilewright.select.tables.cases import problem_of
from tilewright.select.tables.entry import Entry
from tilewright.select.tables.table import SurveyModels, Table

CAPABILITIES = [None, (7, 5), (8, 0), (8, 6), (9, 0), (12, 0)]
GPUS = [("NVIDIA H200", (9, 0)), ("NVIDIA A100-SXM4-80GB", (8, 0)), ("unheard of", (8, 6))]
H100 = ((9, 0), "NVIDIA H100 80GB HBM3")


@pytest.fixture(scope="module", autouse=True)
def nothing_read():
    """Forget tables that other tests read, and those that are read here."""
    store.forget()
    yield
    store.forget()


@pytest.fixture(autouse=True)
def own_tables(tmp_path, monkeypatch):
    """The folder of the user's tables, which is not there yet. While it is not, all tests read the same."""
    folder = tmp_path / "tables"
    monkeypatch.setenv(store.FOLDER_VARIABLE, str(folder))
    yield folder
    if folder.exists():
        store.forget()


def entry(shape, kernel, gflops, config=None, case="NN float32", **others):
    problem = Problem.parse(shape)
    fields = {"m": problem.m, "n": problem.n, "k": problem.k, "config": dict(find(kernel).config(config))}
    return Entry(**fields, case=case, kernel=kernel, gflops=gflops, **others)


@pytest.mark.first(60)
@pytest.mark.parametrize("dtype", FACTORS)
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("shape", ["0", "1", "17x1x5", "64", "100", "128", "1000x1x1000", "1024", "1x70000x3", "8192"])
def test_every_problem_gets_a_kernel_and_a_config_that_it_takes(shape, capability, dtype):
    problem = Problem.parse(shape, arithmetic=Arithmetic(dtype))
    if capability and not any(k.support.runs_on(capability, dtype) for k in KERNELS if dtype in k.support.factors):
        with pytest.raises(DtypeError, match=f"no kernel takes NN {dtype}"):
            select(problem, capability)
        return
    kernel, config = select(problem, capability)
    kernel.check(problem)
    assert config == kernel.config(config)
    assert kernel.meets(None)
    assert capability is None or kernel.support.runs_on(capability, dtype)


@pytest.mark.parametrize("capability", [None, (8, 0), (9, 0)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_case_gets_a_kernel(layout, dtype, capability):
    a, b = orders(layout)
    for result in ("float32", dtype):
        problem = Problem(96, 80, 64, Arithmetic(dtype, result), 3, a, b, epilogue=Epilogue("row", "gelu"))
        kernel, config = select(problem, capability, "NVIDIA H200" if capability == (9, 0) else "")
        kernel.check(problem)
        assert config == kernel.config(config)


def test_what_no_kernel_takes_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(selector, "KERNELS", (find("naive"),))
    monkeypatch.setattr(selector, "compared_on", lambda *_, **__: None)
    with pytest.raises(ProblemError, match=r"no kernel takes NN float32 bias .* 8\.0: naive has no bias"):
        select(Problem(64, 64, 64, epilogue=Epilogue("row")), (8, 0))
    with pytest.raises(ProblemError, match=r"no kernel takes TN .*: naive takes layouts NN"):
        select(Problem(64, 64, 64, a=orders("TN")[0]), (8, 0))


@pytest.mark.parametrize(("device", "capability"), GPUS)
def test_a_large_matrix_gets_large_tiles_and_a_small_one_more_and_smaller(device, capability):
    def tile(shape):
        kernel, config = select(Problem.parse(shape), capability, device)
        return kernel.tile(config), kernel.threads(config)

    (large, threads), (small, _) = tile("4096"), tile("256")
    assert large.m * large.n >= 64 * 64
    assert large.m * large.n / threads >= 16
    assert small.m * small.n < large.m * large.n


def test_one_whole_tile_is_enough_for_the_emulator():
    assert select(Problem.parse("128"), None)[0] is find("warptiled")
    assert select(Problem.parse("8x8x4096"), None)[0] is find("coalesced")


def test_a_tabled_shape_gets_what_was_fastest_there(own_tables):
    store.save("NVIDIA H200", (9, 0), [entry("300x200x100", "vectorized", 50), entry("300x200x100", "padded", 60)])
    store.forget()
    assert select(Problem.parse("300x200x100"), (9, 0), "NVIDIA H200")[0] is find("padded")


def test_what_errs_little_is_preferred(own_tables):
    def picked(*ratios):
        names = ("vectorized", "padded", "conflict_free")
        entries = [
            entry("300x200x100", name, gflops, error_ratio=ratio)
            for name, gflops, ratio in zip(names, (50, 60, 70), ratios, strict=True)
        ]
        store.save("NVIDIA H200", (9, 0), entries)
        store.forget()
        return select(Problem.parse("300x200x100"), (9, 0), "NVIDIA H200")[0].name

    assert picked(1.0, 1.4, 1.6) == "padded"
    assert picked(2.0, None, 1.6) == "padded"
    assert picked(2.0, 2.0, 1.6) == "conflict_free"


def test_the_users_table_comes_before_the_shipped_one():
    shipped = next(table for table in store.shipped() if table.gpu == "NVIDIA H200")
    of_case = (e for e in shipped.entries if e.case == "NN float32" and e.batch == 1 and e.meets(None))
    one = max((e for e in of_case if e.accurate and e.after_other_work), key=lambda e: e.gflops)
    problem = problem_of(one.m, one.n, one.k, one.case, one.batch)
    kernel, config = select(problem, (9, 0), "NVIDIA H200")
    assert (kernel.name, config) == (one.kernel, one.config)
    other = "coalesced" if one.kernel != "coalesced" else "naive"
    store.save("NVIDIA H200", (9, 0), [entry(problem.shape, other, 1e-3, after_other_work=True)])
    store.forget()
    assert select(problem, (9, 0), "NVIDIA H200")[0].name == other


def test_where_c_is_added_kernels_that_leave_it_alone_come_first(own_tables):
    store.save("GPU", (9, 0), [entry("96", "warptiled", 9.0), entry("96", "split_k", 8.0)])
    problem = Problem.parse("96")
    assert select(problem, (9, 0), "GPU")[0].name == "warptiled"
    assert select(problem, (9, 0), "GPU", adds_c=True)[0].name == "split_k"
    nearby = Problem.parse("97x96x96")
    assert select(nearby, (9, 0), "GPU", adds_c=True)[0].support.separate_c


def test_near_a_tabled_shape_the_model_decides(own_tables):
    usual = select(Problem.parse("1000x1016x1000"), *H100)
    store.save("NVIDIA H100 80GB HBM3", (9, 0), [entry("1000x1000x1000", "naive", 1e6)])
    assert select(Problem.parse("1000"), *H100)[0] is find("naive")
    assert select(Problem.parse("1000x1016x1000"), *H100) == usual


def test_a_kernel_that_spares_other_launches_is_picked_where_these_take_longer():
    kernel, problem = find("split_k"), Problem.parse("720x704x688")
    usual = select(problem, *H100)
    assert usual[0] is not kernel
    assert select(problem, *H100, spares=(kernel, 0)) == usual
    assert select(problem, *H100, spares=(usual[0], 2.0**40))[0] is usual[0]
    assert select(problem, *H100, spares=(kernel, 2.0**40))[0] is kernel


def test_a_tabled_shape_s_best_is_not_picked_where_it_does_not_take_the_operands(own_tables):
    entries = [entry("512", "vectorized", 400), entry("512", "split_k", 300), entry("512", "gemm_tf32", 900)]
    store.save("NVIDIA X", (8, 0), entries)
    problem = Problem.parse("512")

    def picked(problem, addresses=Addresses()):
        return select(problem, (8, 0), "NVIDIA X", addresses)[0].name

    assert picked(problem) == "vectorized"
    column = replace(problem, a=Layout("column"))
    assert picked(column) in {"split_k", "async_copy"}, "no table has this order"
    store.save("NVIDIA X", (8, 0), [entry("512", "vectorized", 400, case="TN float32")])
    assert picked(column) != "vectorized", "it takes row-major factors alone"


def test_what_was_measured_of_float16_counts_for_bfloat16_where_that_was_not_measured(own_tables):
    wide, narrow = {"BM": 128, "BN": 128}, {"BM": 64, "BN": 64}
    store.save(
        "NVIDIA X",
        (8, 0),
        [
            entry("64", "gemm_wmma", 900, wide, case="NN float16"),
            entry("128", "gemm_wmma", 900, wide, case="NN float16"),
            entry("128", "gemm_wmma", 800, narrow, case="NN bfloat16"),
        ],
    )
    picked = [select(Problem.parse(shape, arithmetic="bfloat16"), (8, 0), "NVIDIA X") for shape in ("64", "128")]
    assert [(kernel.name, config.BM) for kernel, config in picked] == [("gemm_wmma", 128), ("gemm_wmma", 64)]


INTEGERS = [("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")]


@pytest.mark.parametrize("types", INTEGERS, ids=str)
@pytest.mark.parametrize("measured", INT8)
def test_what_was_measured_of_8_bit_integers_counts_for_the_other_type_and_for_mixed_ones(own_tables, types, measured):
    wide, narrow = {"BM": 128, "BN": 256}, {"BM": 128, "BN": 64, "STAGES": 6}
    a, b = orders("NT")
    for shape, config in (("512", wide), ("640", narrow)):
        store.save("NVIDIA X", (9, 0), [entry(shape, "gemm_int8", 900, config, case=f"NT {measured}->int32")])
        problem = Problem.parse(shape, arithmetic=Arithmetic(types[0], "int32", of_b=types[1]), a=a, b=b)
        assert select(problem, (9, 0), "NVIDIA X") == (find("gemm_int8"), find("gemm_int8").config(config))


@pytest.fixture
def surveyed_int8(own_tables):
    """A GPU of compute capability 9.0, surveyed with int8 alone: by the model, one config is always the fastest."""
    kernel = find("gemm_int8")
    us = dict(zip(kernel.candidates((9, 0))[:2], (9.0, 1.0), strict=True))
    zeros = (0.0,) * (len(model.TERMS) - 1)
    fitted = [model.Fitted(kernel, config, 1, (launch, *zeros)) for config, launch in us.items()]
    store.save("NVIDIA X", (9, 0), [], {"int8": SurveyModels(fitted)})
    selector.compared_on.cache_clear()
    yield kernel, min(us, key=us.__getitem__)
    selector.compared_on.cache_clear()


@pytest.mark.parametrize("types", INTEGERS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_models_of_int8_are_those_of_all_8_bit_integers(surveyed_int8, types, layout):
    (a, b), arithmetic = orders(layout), Arithmetic(types[0], "int32", of_b=types[1])
    for sizes in ((128, 512, 1024), (1000, 1000, 1000), (4096, 4096, 4096)):
        assert select(Problem(*sizes, arithmetic, a=a, b=b), (9, 0), "NVIDIA X") == surveyed_int8


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn"])
def test_models_of_int8_change_no_other_types_picks(surveyed_int8, dtype):
    for device in ("NVIDIA X", "NVIDIA H200"):
        store.forget()
        found = store.fitted(device, (9, 0), dtype)[1].configs
        assert {"gemm_int8"}.isdisjoint(one.kernel.name for one in found)


def test_8_bit_integers_have_models_of_a_gpu_that_was_surveyed_with_them():
    for device, capability in (("NVIDIA A100-SXM4-80GB", (8, 0)), ("NVIDIA GeForce RTX 5090", (12, 0)), H100[::-1]):
        gpu, models = store.fitted(device, capability, "uint8")
        assert gpu.name == "H200" and models.configs[0].kernel.name in ("gemm_int8", "gemm_mma_int8", "skinny_int8")


def test_models_of_a_users_survey_come_before_those_that_ship(own_tables):
    gpu, problem = H100[1], Problem.parse("3000x3100x3200", arithmetic="bfloat16")
    usual = select(problem, *H100)
    fitted = store.fitted(gpu, (9, 0), "bfloat16")[1].configs
    slow = [one for one in fitted if one.kernel is usual[0] and one.config != usual[1]]
    slow += [
        one._replace(coefficients=tuple(9 * c for c in one.coefficients))
        for one in fitted
        if (one.kernel, one.config) == usual
    ]
    store.save(gpu, (9, 0), [], {"bfloat16": SurveyModels(slow)})
    selector.compared_on.cache_clear()
    try:
        assert select(problem, *H100) != usual
    finally:
        selector.compared_on.cache_clear()


def test_entries_of_kernels_and_configs_that_are_gone_are_passed_over(own_tables):
    stale = replace(entry("64", "vectorized", 1000), config={"BM": 7})
    gone = replace(entry("64", "vectorized", 1000), kernel="gone")
    own_tables.mkdir()
    Table.of("NVIDIA X", (8, 0), [stale, gone, entry("64", "coalesced", 900)]).save(own_tables / "nvidia_x.json")
    store.forget()
    assert select(Problem.parse("64"), (8, 0), "NVIDIA X")[0] is find("coalesced")


def test_a_corrupt_user_table_is_no_obstacle(own_tables):
    usual = select(Problem.parse("1024"), (9, 0), "NVIDIA H200")
    own_tables.mkdir()
    (own_tables / "nvidia_h200.json").write_text("{")
    store.forget()
    with pytest.warns(RuntimeWarning, match="a table is left out"):
        assert select(Problem.parse("1024"), (9, 0), "NVIDIA H200") == usual


@pytest.mark.parametrize(("device", "capability"), GPUS)
def test_it_is_quick(device, capability):
    """By the calls it makes, a fifth of a microsecond each where it was written: a time depends on who else runs."""
    select(Problem(1012, 1004, 1012), capability, device)  # the first pick finds what all of its kind need
    profile = cProfile.Profile()
    profile.runcall(select, Problem(1000, 1004, 1008), capability, device)
    assert 30 < pstats.Stats(profile).total_calls < 90


def test_it_loads_no_cuda():
    lines = (
        "import sys",
        "from tilewright.core.problem import Problem",
        "from tilewright.select.selector import select",
        "assert 'pydantic' not in sys.modules",
        "select(Problem.parse('1000'), (9, 0), 'NVIDIA H200')",
        "assert not [name for name in sys.modules if name.split('.')[0] == 'cuda'], sys.modules",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)


@pytest.mark.parametrize("shape", ["4096"])
def test_where_activations_take_long_consumers_take_turns(shape):
    """Tables are of products without activations. Where multiprocessors have many tiles, others hide them."""

    def picked(activation):
        problem = Problem.parse(
            shape, arithmetic=Arithmetic("bfloat16", "bfloat16"), epilogue=Epilogue("row", activation)
        )
        return select(problem, *H100)

    _, plain = picked(None)
    kernel, activated = picked("gelu")
    assert activated["PINGPONG"] == 1
    problem, gpu = Problem.parse(shape, epilogue=Epilogue(None, "gelu")), find_gpu(H100[1], H100[0])
    assert unhidden_us(tile_of(kernel, activated), problem, gpu) == 0
    if not plain["PINGPONG"]:
        assert unhidden_us(tile_of(kernel, plain), problem, gpu) > 5


def test_of_one_tile_each_an_activation_is_never_hidden():
    problem = Problem.parse("2048", arithmetic=Arithmetic("bfloat16", "bfloat16"))
    kernel, config = select(problem, *H100)
    gpu = find_gpu(H100[1], H100[0])
    took = {
        name: unhidden_us(tile_of(kernel, config), replace(problem, epilogue=Epilogue(None, name)), gpu)
        for name in (None, *ACTIVATIONS)
    }
    assert took[None] == 0
    assert all(0 < us < 10 for name, us in took.items() if name)


def test_entries_of_the_case_come_before_those_of_another():
    store.save(
        "NVIDIA X", (8, 0), [entry("64", "split_k", 900), entry("64", "skinny", 90, case="NT float32 bias+relu")]
    )
    a, b = orders("NT")
    assert select(Problem(64, 64, 64, a=a, b=b), (8, 0), "NVIDIA X")[0] is find("skinny")
    assert select(Problem(64, 64, 64), (8, 0), "NVIDIA X")[0] is find("split_k")


def test_a_batch_is_another_problem_than_one_product():
    store.save("NVIDIA X", (8, 0), [entry("64", "split_k", 900), entry("64", "skinny", 90, batch=50)])
    assert select(Problem(64, 64, 64, batch=50), (8, 0), "NVIDIA X")[0] is find("skinny")
    assert select(Problem(64, 64, 64), (8, 0), "NVIDIA X")[0] is find("split_k")


def test_short_products_are_not_shared_among_blocks():
    """On 785x1331x92 a config whose blocks share tiles took 1.76 times as long as the fastest."""
    _, config = select(Problem.parse("785x1331x92"), (9, 0), "NVIDIA H200")
    assert config.get("WORKERS", 0) == 0


RUNGS = [kernel for kernel in LADDER if kernel.support.architectures == ("sm_90a",)]
HOPPERS = [((9, 0), "NVIDIA H200"), ((9, 0), "NVIDIA H100"), ((9, 0), "")]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("capability", "device"), HOPPERS)
def test_a_surveyed_kernel_is_picked_in_configs_that_were_surveyed(capability, device, dtype):
    known = store.fitted(device, capability, dtype)[1].choices
    for sides in product((19, 40, 312, 1003, 4104), repeat=3):
        pick = select(Problem(*sides, Arithmetic(dtype, dtype)), capability, device)
        assert pick in known or pick[0] not in {kernel for kernel, _ in known}, (sides, pick)


@pytest.mark.parametrize(("capability", "device"), [(None, ""), *HOPPERS])
@pytest.mark.parametrize("shape", ["1", "100", "777", "4096", "8192x128x4096", "16x4096x11008", "4x4x100000"])
def test_the_courses_kernels_of_warpgroups_are_not_picked(shape, capability, device):
    problems = {Problem.parse(shape, arithmetic=kernel.support.arithmetic()) for kernel in RUNGS}
    assert len(RUNGS) == 13
    assert {problem.dtype for problem in problems} == {"bfloat16", "float32", "int8"}
    for problem in problems:
        for adds_c in (False, True):
            assert selector.select(problem, capability, device, adds_c=adds_c)[0] not in RUNGS


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_librarys_kernel_of_warpgroups_is_picked_on_a_hopper_alone(layout, dtype):
    sm90 = find("gemm_sm90")
    a, b = orders(layout)
    for shape, batch, epilogue in (("304", 3, Epilogue()), ("8192x4096x1024", 1, Epilogue("row", "gelu"))):
        problem = Problem.parse(shape, arithmetic=dtype, batch=batch, a=a, b=b, epilogue=epilogue)
        assert sm90.why_not(problem) is None
        for capability, device in HOPPERS:
            assert selector.select(problem, capability, device)[0] is sm90
        for capability in (None, (8, 0), (10, 0), (12, 0)):
            assert selector.select(problem, capability)[0] is not sm90


TERMS = {"fp16x3": "gemm_fp16x3", "bf16x3": "gemm_bf16x3"}
BF16X6 = {device: {"1012", "4096", "8193x2501x5008"} for device in ("NVIDIA H200", "NVIDIA A100-SXM4-80GB")}
"""By GPU, what kernels of six products are picked for."""


@pytest.mark.parametrize("precision", TERMS)
def test_terms_are_picked_where_they_are_expected_to_be_faster(precision):
    def picked(shape, capability=(9, 0), device="NVIDIA H200"):
        return select(Problem.parse(shape, arithmetic=Arithmetic(precision=precision)), capability, device)[0].name

    assert picked("4096") == picked("8193x2501x5008") == TERMS[precision]  # of the first, float32 is in the table
    assert picked("4096", device="") == TERMS[precision]
    for other in (picked("64"), picked("1x4096x4096"), picked("64", (8, 0), ""), picked("4096", (12, 0), "")):
        assert find(other).support.precision is None
    assert find(picked("4096x4096x0")).support.precision is None


@pytest.mark.parametrize(
    ("device", "capability", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", (8, 0), "gemm_mma"),
        ("NVIDIA GeForce RTX 3090", (8, 6), None),
        ("NVIDIA GeForce RTX 4090", (8, 9), None),
        ("NVIDIA H200", (9, 0), "gemm_sm90_precisions"),
        ("NVIDIA GeForce RTX 5090", (12, 0), None),
    ],
)
@pytest.mark.parametrize("precision", [None, *TERMS])
def test_large_products_are_made_of_terms_where_tensor_cores_are_so_much_faster(
    precision, device, capability, expected
):
    problem = Problem(4096, 4096, 4096, Arithmetic(precision=precision))
    kernel, _ = select(problem, capability, device)
    assert (kernel.source.stem if kernel.split else None) == expected
    assert kernel.support.precision == ((precision or "bf16x6") if expected else None)


WITHOUT_WGMMA = {
    "NVIDIA A100-SXM4-80GB": ((8, 0), {"bfloat16": "gemm_mma", "tf32": "gemm_mma_tf32"}),
    "NVIDIA RTX A6000": ((8, 6), {"bfloat16": "gemm_mma", "tf32": "gemm_mma_tf32"}),
    "NVIDIA B200": ((10, 0), {"float16": "gemm_mma", "tf32": "gemm_mma_tf32", "float8_e4m3fn": "gemm_mma_fp8"}),
    "NVIDIA L40S": ((8, 9), {"float8_e4m3fn": "gemm_mma_fp8"}),
    "NVIDIA GeForce RTX 4090": ((8, 9), {"tf32": None, "float8_e4m3fn": "gemm_mma_fp8"}),
    "NVIDIA H200": ((9, 0), {"bfloat16": "gemm_sm90", "tf32": "gemm_tf32_nn", "float8_e4m3fn": "gemm_fp8"}),
}
"""By GPU, what is picked for large products of a type or in TF32; None: CUDA cores, which are as fast there."""


@pytest.mark.parametrize("device", WITHOUT_WGMMA)
@pytest.mark.parametrize("batch_invariant", [False, True])
def test_tensor_cores_multiply_where_there_is_no_wgmma(device, batch_invariant):
    capability, expected = WITHOUT_WGMMA[device]
    for name, kernel in expected.items():
        if batch_invariant and (kernel is None or name.startswith("float8")):
            continue
        factors, precision = ("float32", name) if name == "tf32" else (name, None)
        arithmetic = Arithmetic(factors, "float32", precision, batch_invariant=batch_invariant)
        picked = select(Problem(4096, 4096, 4096, arithmetic), capability, device)[0]
        assert (picked.name if kernel else picked.support.precision) == kernel


@pytest.mark.parametrize("shape", ["64", "1000x1x1000", "1012", "4096", "8193x2501x5008"])
@pytest.mark.parametrize(("device", "capability"), GPUS)
def test_ieee_is_float32_on_cuda_cores_alone(device, capability, shape):
    plain = select(Problem.parse(shape), capability, device)
    alone = select(Problem.parse(shape, arithmetic=Arithmetic(precision="ieee")), capability, device)
    assert alone[0].support.precision is None
    if plain[0].support.precision is None:
        assert plain == alone
    else:
        assert shape in BF16X6[device]
        assert plain[0].support.precision == "bf16x6"


def test_measured_terms_are_taken_by_the_precisions_that_they_keep(monkeypatch):
    speeds = {"vectorized": 300.0, "gemm_bf16x6": 400.0, "gemm_fp16x3": 500.0, "gemm_bf16x3": 600.0}
    configs = {name: dict(find(name).config()) for name in speeds}
    entries = [
        Entry(m=m, n=m, k=m, case="NN float32", kernel=name, config=configs[name], gflops=gflops)
        for m in (512, 1024)
        for name, gflops in speeds.items()
    ]
    entries += [replace(one, error_ratio=20.0) for one in entries if one.kernel == "gemm_bf16x3"]
    store.save("NVIDIA X", (9, 0), entries)
    monkeypatch.setattr(store, "shipped", lambda: ())
    for precision, name in (
        ("ieee", "vectorized"),
        (None, "gemm_bf16x6"),
        ("fp16x3", "gemm_fp16x3"),
        ("bf16x3", "gemm_bf16x3"),
    ):
        problem = Problem.parse("512", arithmetic=Arithmetic(precision=precision))
        assert select(problem, (9, 0), "NVIDIA X")[0].name == name


@pytest.mark.parametrize("precision", [None, *TERMS])
def test_the_emulator_s_pick_keeps_the_precision(precision):
    for shape in ("4", "128", "100x100x0"):
        kernel, _ = select(Problem.parse(shape, arithmetic=Arithmetic(precision=precision)), None)
        assert kernel.meets(precision)
