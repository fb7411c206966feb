"""NVRTC compiles every wrapper of an instruction, for the GPUs that have it; their models have the same names."""

import itertools
import re

import pytest

from tilewright.core.errors import CompileError
from tilewright.emulator import compiler
from tilewright.runtime import nvrtc

MODELS = compiler._HERE / "include"

KERNEL = """
extern "C" __global__ void kernel{number}(const {map}* global, unsigned* out, bool inside) {{
    __shared__ __align__(1024) unsigned char shared[1024];
    {statement}
    __syncthreads();
    out[threadIdx.x] = shared[threadIdx.x];
}}
"""

BARRIER = "Barrier* barrier = reinterpret_cast<Barrier*>(shared);"


def product(columns, a="Major::along_k", b="Major::across_k", element="__nv_bfloat16"):
    return (
        f"{{ float sums[{columns // 2}] = {{}}; fence_sums(sums);"
        "const MatrixDescriptor tile = matrix_descriptor(shared, 1024);"
        f"multiply_async<{a}, {b}, {element}>(sums, tile, tile + 32, inside);"
        f"commit_products(); wait_products<0>(sums); *out = sums[{columns // 2 - 1}] > 1; }}"
    )


def of_fragments(elements):
    return (
        f"float sums[2][4] = {{}}; unsigned a[2][4] = {{{{*global}}}}, b[1][2] = {{{{*global}}}};"
        f"multiply_fragments<{elements}>(sums, a, b); *out = sums[1][3] > 1;"
    )


# By header: the oldest GPU, and uses of every function.
USES = {
    "ptx/async_copy.cuh": (
        "sm_80",
        [
            "copy_async<4>(shared, global, inside);",
            "copy_async<8>(shared, global, inside);",
            "copy_async<16>(shared, global, inside);",
            "copy_async<16>(shared, global, true);",
            "copy_async_first(shared, global, inside ? 16 : 4);",
            "commit_copies();",
            "wait_copies<0>();",
            "wait_copies<3>();",
        ],
    ),
    "ptx/mbarrier.cuh": (
        "sm_90a",
        [
            BARRIER + "barrier_init(barrier, 1);",
            "fence_barrier_init();",
            BARRIER + "barrier_arrive(barrier);",
            BARRIER + "barrier_expect_bytes(barrier, 64);",
            BARRIER + "barrier_wait(barrier, 0); barrier_wait(barrier, inside);",
        ],
    ),
    "ptx/tensor_map.cuh": (
        "sm_90a",
        [
            BARRIER + "load_tile(shared, global, -1, 2, 3, barrier);",
            "prefetch_map(global);",
            "store_tile_async(global, -1, 2, 3, shared); commit_tiles(); wait_tiles_read<1>(); wait_tiles<0>();",
            "fence_async_shared();",
            "fence_async();",
        ],
    ),
    "ptx/cluster.cuh": (
        "sm_90a",
        [
            "*out = cluster_rank();",
            "*in_block(shared, 1) = 1; *out = *in_block(&shared[4], 0);",
            "cluster_sync();",
            "cluster_sync_relaxed();",
            BARRIER + "barrier_arrive_at(barrier, 1);",
            BARRIER + "load_tile_to(3, shared, global, -1, 2, 3, barrier);",
        ],
    ),
    "ptx/load_matrix.cuh": (
        "sm_90a",
        [
            "float four[4]; load_matrices(four, reinterpret_cast<float*>(shared)); *shared = four[1];",
            "unsigned four[4]; load_matrices_transposed(four, reinterpret_cast<unsigned*>(shared)); *shared = four[1];",
            "unsigned four[4] = {*out, *out, *out, *out}; store_matrices_transposed(shared, four);",
        ],
    ),
    "ptx/mma.cuh": (
        "sm_80",
        [
            *map(of_fragments, ("__half", "__nv_bfloat16", "float")),
            "*out = round_to_tf32(__float_as_uint(*global));",
        ],
    ),
    "ptx/wgmma.cuh": (
        "sm_90a alone",
        [
            *("".join(product(columns) for columns in range(first, 257, 64)) for first in range(8, 65, 8)),
            product(128, "Major::along_k", "Major::along_k", "__half"),
            product(192, "Major::across_k", "Major::along_k", "__half"),
            product(256, "Major::across_k", "Major::across_k"),
            "float sums[64] = {}; unsigned a[4] = {*global}; fence_sums(sums, a);"
            "multiply_async<__nv_bfloat16>(sums, a, matrix_descriptor<64>(shared)); commit_products();"
            "wait_products<0>(sums, a); *out = sums[5] > 1;",
            "float sums[128] = {}; unsigned a[4] = {*global}; load_factor(a[0], a[1], shared, inside);"
            "load_factor(a[2], a[3], shared + 2, 1); fence_sums(sums, a);"
            "multiply_async<float>(sums, a, matrix_descriptor(shared)); commit_products();"
            "wait_products<0>(sums, a); *out = sums[99] > 1;",
        ],
    ),
    "ptx/register_budget.cuh": ("sm_90a", ["setmaxnreg_dec<24>();", "setmaxnreg_inc<232>();"]),
    "ptx/named_barrier.cuh": (
        "sm_75",
        ["sync_named<64>(*global % 15 + 1);", "arrive_named<128>(3); sync_named<64>(4);"],
    ),
    "ptx/bundle.cuh": (
        "sm_75",
        [
            "*out = position_in_bundle() + block_number();",
            "sync_block<64>();",
            "SHARED_OF_BLOCK(unsigned, one); one = inside; sync_block<64>(); *out = one;",
            "DYNAMIC_SHARED_OF_BLOCK(unsigned, all, 64); all[threadIdx.x] = inside;",
        ],
    ),
    "ptx/dependent_launch.cuh": ("sm_75", ["grid_dependency_wait();", "grid_dependency_launch();"]),
    "ptx/grid_wait.cuh": ("sm_75", ["wait_for_count(reinterpret_cast<unsigned*>(shared), 3);"]),
    "ptx/prefetch.cuh": ("sm_75", ["prefetch_to_l2(global);"]),
    "ptx/approximate.cuh": (
        "sm_75",
        ["*out = exp2_approx(inside) > 1.5f;", "*out = reciprocal_approx(*global) > 1.5f;"],
    ),
}
NEWER = {
    "sm_75": ["sm_75", "sm_89", "sm_90a", "sm_120a"],
    "sm_80": ["sm_80", "sm_89", "sm_90a", "sm_120"],
    "sm_90a": ["sm_90a", "sm_120a"],
    "sm_90a alone": ["sm_90a"],
}
CASES = [(header, arch) for header, (oldest, _) in USES.items() for arch in NEWER[oldest]]


def compile_uses(header, uses, arch):
    """A kernel of each."""
    element = "TensorMap" if header in ("ptx/tensor_map.cuh", "ptx/cluster.cuh") else "unsigned"
    kernels = (KERNEL.format(number=number, statement=use, map=element) for number, use in enumerate(uses))
    source = f'#include "{header}"\n{"".join(kernels)}'
    return nvrtc.compile_source(source, "kernel.cu", f"kernel{len(uses) - 1}", {"BUNDLE": 2}, arch)


@pytest.mark.first(5)
@pytest.mark.parametrize(("header", "arch"), CASES)
def test_wrappers_compile(header, arch):
    _, uses = USES[header]
    assert compile_uses(header, uses, arch).code[:4] == b"\x7fELF"


@pytest.mark.parametrize("arch", ["sm_89", "sm_90a", "sm_120"])
def test_fragments_of_float8_compile(arch):
    uses = [of_fragments(", ".join(pair)) for pair in itertools.product(("float8_e4m3", "float8_e5m2"), repeat=2)]
    assert compile_uses("ptx/mma.cuh", uses, arch).code[:4] == b"\x7fELF"


@pytest.mark.parametrize("use", ["copy_async<2>(shared, global, inside);", "copy_async<32>(shared, global, inside);"])
def test_a_copy_of_a_size_that_cp_async_lacks_does_not_compile(use):
    with pytest.raises(CompileError, match=r"cp\.async copies 4, 8 or 16 bytes"):
        compile_uses("ptx/async_copy.cuh", [use], "sm_80")


@pytest.mark.parametrize("use", ["setmaxnreg_dec<20>();", "setmaxnreg_inc<260>();", "setmaxnreg_inc<100>();"])
def test_a_register_count_that_there_is_not_does_not_compile(use):
    with pytest.raises(CompileError, match="a register count is a multiple of 8 from 24 to 256"):
        compile_uses("ptx/register_budget.cuh", [use], "sm_90a")


def names(path):
    return set(re.findall(r"__forceinline__ \w+\*? (\w+)\(", path.read_text())) | set(
        re.findall(r"^(?:struct|using simt::)\s*(?:__align__\(\d+\) )?(\w+)", path.read_text(), re.MULTILINE)
    )


@pytest.mark.parametrize("header", [one for one in USES if (MODELS / one).exists()])
def test_every_name_has_a_model(header):
    """A header's names have models; those that it takes from another one, in quotes, may be in that one's file."""
    text = (nvrtc.INCLUDE / header).read_text()
    parts = [names(nvrtc.INCLUDE / part) for part in re.findall(r'#include "([\w/]+\.cuh)"', text)]
    own, modelled = names(nvrtc.INCLUDE / header), names(MODELS / header)
    assert own <= modelled <= own.union(*parts)


@pytest.mark.parametrize("header", USES)
def test_every_function_is_compiled_above(header):
    functions = re.findall(r"__forceinline__ void (\w+)\(", (nvrtc.INCLUDE / header).read_text())
    text = " ".join(USES[header][1])
    assert [name for name in functions if not re.search(rf"\b{name}[<(]", text)] == []
