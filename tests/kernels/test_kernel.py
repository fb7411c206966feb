"""Config, Kernel.variant, Kernel.defines, Kernel.launch and the finding of kernels."""

import dataclasses
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tilewright.core.errors import ConfigError, DtypeError, KernelNotFoundError, LaunchError
from tilewright.core.problem import FAST, LAYOUTS, PRECISIONS, Arithmetic, Epilogue, Layout, Problem
from tilewright.kernels import GROUPED, KERNELS, LADDER, find
from tilewright.kernels.config import Config, parse_overrides
from tilewright.kernels.kernel import Kernel, Launch
from tilewright.kernels.support import PROMISES, Addresses, Support, Variant
from tilewright.runtime.cuda_executable import CudaExecutable

VECTORIZED = find("vectorized")


def test_rungs_are_numbered_as_in_the_ladder():
    assert [kernel.rung for kernel in LADDER] == list(range(1, len(LADDER) + 1))
    assert all(find(str(kernel.rung)) is kernel and find(kernel.name) is kernel for kernel in LADDER)


def test_every_source_is_shipped():
    assert all(kernel.source.is_file() for kernel in LADDER)


def test_a_source_of_the_library_is_short_enough_to_be_read():
    lines = {path.name: len(path.read_text().splitlines()) for path in find("gemm_sm90").source.parent.glob("*.cu")}
    assert {name: count for name, count in lines.items() if count >= 150} == {}


def test_an_unknown_kernel_gets_the_nearest_name():
    with pytest.raises(KernelNotFoundError, match="no kernel is called 'warptield'; did you mean 'warptiled'"):
        find("warptield")


def test_a_config_reads_as_attributes_and_as_text():
    config = VECTORIZED.config({"BM": 64, "BN": 64, "BK": 16, "TM": 4, "TN": 4})
    assert (config.BM, config["TN"], str(config)) == (64, 4, "BM=64,BN=64,BK=16,TM=4,TN=4")
    assert hash(config) == hash(Config(dict(config)))
    with pytest.raises(AttributeError, match="WM"):
        _ = config.WM


def test_overrides_are_read_from_text():
    assert parse_overrides(" BM=64, BN = 32,") == {"BM": 64, "BN": 32}
    for wrong in ("BM", "BM=x", "BM=1.5"):
        with pytest.raises(ConfigError, match="NAME=INTEGER"):
            parse_overrides(wrong)


def test_tuned_values_are_used_where_they_were_measured():
    autotuned = find("autotuned")
    assert autotuned.config(capability=(8, 6)).BK == 16
    assert autotuned.config(capability=(7, 5)) == autotuned.config()
    assert autotuned.config({"BK": 8}, capability=(8, 6)).BK == 8


@pytest.mark.parametrize(
    ("problem", "addresses", "expected"),
    [
        (Problem(256, 128, 64), Addresses(), Variant(edges=False, aligned=True)),
        (Problem(256, 128, 64), Addresses(a=4), Variant(edges=False, aligned=False)),
        (Problem(256, 128, 64, b=Layout(ld=130)), Addresses(), Variant(edges=False, aligned=False)),
        (Problem(255, 128, 64), Addresses(), Variant(edges=True, aligned=True)),
        (Problem(256, 127, 64), Addresses(), Variant(edges=True, aligned=False)),
        (Problem(256, 128, 68), Addresses(), Variant(edges=True, aligned=True)),
    ],
)
def test_guards_are_compiled_in_only_where_the_operands_need_them(problem, addresses, expected):
    assert VECTORIZED.variant(problem, VECTORIZED.config(), addresses) == expected


def test_one_block_is_launched_for_each_tile():
    config = VECTORIZED.config()
    launch = VECTORIZED.launch(Problem(257, 128, 1), config, 132)
    assert (launch.grid, launch.block, launch.shared_bytes) == ((3, 1, 1), (256, 1, 1), 0)
    assert VECTORIZED.launch(Problem(0, 128, 1), config, 132).grid == (0, 1, 1)
    assert VECTORIZED.launch(Problem(257, 128, 1, batch=5), config, 132).grid == (15, 1, 1)


@pytest.mark.parametrize(("count", "blocks"), [(1, 7), (2, 4), (3, 3), (7, 1)])
def test_bundles_stand_along_y(count, blocks):
    launch = Launch((7, 1, 1), (128, 1, 1), 1000).bundled(count)
    assert launch == Launch((blocks, 1, 1), (128, count, 1), count * 1000)


def test_a_grid_is_made_of_whole_clusters():
    kernel = replace(find("naive"), cluster=lambda config: 2)
    assert kernel.launch(Problem(32, 64, 8), kernel.config(), 4, blocks=6).grid == (6, 1, 1)
    with pytest.raises(LaunchError, match="naive: a grid must be a multiple of the 2 blocks of a cluster, got 3"):
        kernel.launch(Problem(32, 64, 8), kernel.config(), 4, blocks=3)
    executable = SimpleNamespace(kernel=kernel, config=kernel.config(), _room=SimpleNamespace(multiprocessors=4))
    with pytest.raises(LaunchError, match="naive: a grid must be a multiple of the 2 blocks of a cluster, got 3"):
        CudaExecutable.geometry(executable, Problem(32, 64, 8), blocks=3)


@pytest.mark.parametrize("blocks", [0, 9])
def test_a_cluster_has_at_most_as_many_blocks_as_every_gpu_takes(blocks):
    with pytest.raises(ConfigError, match=f"naive: a cluster must have 1 to 8 blocks, got {blocks}"):
        replace(find("naive"), cluster=lambda config: blocks).config()


def test_a_kernel_refuses_an_element_type_it_does_not_take():
    with pytest.raises(DtypeError, match="vectorized takes float16, got float32"):
        replace(VECTORIZED, support=Support(factors=("float16",))).check(Problem(1, 1, 1))


def test_the_ladder_is_compiled_with_its_config_and_guards():
    config = VECTORIZED.config()
    macros = VECTORIZED.defines(config, Variant(edges=True, aligned=False))
    assert macros == {**config, "EDGES": 1, "ALIGNED": 0}


def test_the_library_is_compiled_with_orders_types_and_epilogue_too():
    kernel = find("split_k")
    problem = Problem(64, 64, 64, Arithmetic("float32", "bfloat16"), b=Layout("column"), epilogue=Epilogue("row"))
    macros = kernel.defines(kernel.config(), kernel.variant(problem, kernel.config()))
    expected = {
        "TRANSPOSED_A": 0,
        "TRANSPOSED_B": 1,
        "FACTOR": "float",
        "RESULT": "__nv_bfloat16",
        "BIAS": "row_bias",
        "ACTIVATION": "identity",
    }
    assert {name: macros[name] for name in expected} == expected
    gelu = replace(problem, epilogue=Epilogue("column", "gelu"))
    macros = kernel.defines(kernel.config(), kernel.variant(gelu, kernel.config()))
    assert (macros["BIAS"], macros["ACTIVATION"]) == ("column_bias", "gelu")


def test_factors_are_read_in_the_orders_of_their_copies():
    packed, transposed = find("tma_packed"), find("tma_transposed")
    assert {packed.layout_read(packed.config(), layout) for layout in LAYOUTS} == {"TN"}
    assert VECTORIZED.layout_read(VECTORIZED.config(), "NT") == "NT"
    read = [transposed.layout_read(transposed.config({"COPIED": copied}), "NT") for copied in range(4)]
    assert read == ["NT", "TT", "NN", "TN"]


def test_the_source_does_not_know_what_is_copied():
    kernel = find("tma_transposed")
    plain, copied = (kernel.defines(kernel.config({"COPIED": copied}), Variant(False, True)) for copied in (0, 1))
    assert plain == copied
    assert "COPIED" not in plain


def test_each_promise_is_kept_by_what_keeps_the_stricter_ones():
    names = ("vectorized", "gemm_bf16x6", "gemm_fp16x3", "gemm_bf16x3", "gemm_tf32", "gemm_fp8_fast")
    cached = {promise: [name for name in names if find(name).meets(promise)] for promise in PROMISES}
    assert cached == {promise: [*names[:count]] for count, promise in enumerate(PROMISES, 1)}
    assert [*PROMISES] == ["ieee", None, "fp16x3", "bf16x3", "tf32", FAST]
    assert set(PROMISES) - {FAST} == {Arithmetic(precision=precision).precision for precision in PRECISIONS}


def test_a_kernel_that_is_named_must_keep_the_precision_that_is_asked_for():
    kernel = find("gemm_bf16x3")
    kernel.check(Problem(64, 64, 64))
    kernel.check(Problem(64, 64, 64, Arithmetic(precision="bf16x3")))
    with pytest.raises(DtypeError, match="gemm_bf16x3 makes products of bf16x3, got precision 'fp16x3'"):
        kernel.check(Problem(64, 64, 64, Arithmetic(precision="fp16x3")))
    with pytest.raises(DtypeError, match="wmma_tf32 makes products of factors rounded to tf32, got precision 'ieee'"):
        find("wmma_tf32").check(Problem(64, 64, 64, Arithmetic(precision="ieee")))


def test_a_kernel_has_few_fields_and_no_field_is_of_one_kernel_alone():
    fields = dataclasses.fields(Kernel)
    assert len(fields) <= 24
    kernels = (*KERNELS, *GROUPED)
    for field in fields:
        assert sum(getattr(one, field.name) is not field.default for one in kernels) > 1, field.name
