"""Counted traffic: against Nsight Compute's records, and extrapolated counts against those of whole launches."""

import json

import pytest

from tilewright.core.dtypes import FLOAT8
from tilewright.core.problem import Arithmetic, Layout, Problem, Scalars, orders
from tilewright.kernels import find
from tilewright.kernels.support import Variant
from tilewright.tools.explain import traffic
from tilewright.tools.explain.instruction_mix import shared_widths
from tilewright.tools.explain.machine_code import machine_code
from tilewright.tools.explain.traffic import count

PROFILED = {
    "6-vectorized": ("vectorized", {}),
    "7-conflict_free": ("conflict_free", {}),
    "8-padded-PAD_5": ("padded", {"PAD": 5}),
}


def counted(name, problem, overrides=None, beta=0.0, **options):
    kernel = find(name)
    return count(kernel, kernel.config(overrides), problem, scalars=Scalars(beta=beta), **options)


@pytest.mark.further
@pytest.mark.parametrize("file", PROFILED)
def test_shared_memory_agrees_with_nsight_compute_at_2048(file, request):
    """Counted on an H200. Its counters of wavefronts include some that wait for other traffic, most of them stores."""
    path = request.config.rootpath / "results/h200/ncu/bank_conflicts.json"
    measured = {one["way"]: one["facts"]["counters"] for one in json.loads(path.read_text())["measurements"]}
    theirs = measured[file]
    kernel, overrides = find(PROFILED[file][0]), PROFILED[file][1]
    config = kernel.config(overrides)
    code = machine_code(kernel, config, Variant(edges=False, aligned=True), "sm_90a")
    groups = count(kernel, config, Problem.parse("2048"), shared_widths(code.instructions)).groups
    loads, stores = groups["shared_load"], groups["shared_store"]
    assert loads.requests == theirs["smsp__inst_executed_op_shared_ld.sum"]
    assert stores.requests == theirs["smsp__inst_executed_op_shared_st.sum"]
    wavefronts, conflicts = (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op",
    )
    assert loads.wavefronts == pytest.approx(theirs[f"{wavefronts}_ld.sum"], rel=2e-4)
    assert loads.bank_conflicts == pytest.approx(theirs[f"{conflicts}_ld.sum"], rel=1e-3, abs=6000)
    assert stores.wavefronts == pytest.approx(theirs[f"{wavefronts}_st.sum"], rel=0.12)


SAMPLED = [
    (
        "naive",
        {"BLOCK_X": 16, "BLOCK_Y": 8, "X_ALONG_N": 1},
        Problem(70, 45, 61, a=Layout(ld=67), b=Layout(ld=45), d=Layout(ld=50)),
    ),
    (
        "vectorized",
        {"BM": 32, "BN": 32, "BK": 8, "TM": 4, "TN": 4},
        Problem(96, 160, 100, a=Layout(ld=104), b=Layout(ld=164)),
    ),
    ("async_copy", {}, Problem(70, 140, 200)),
    ("wmma_f16", {}, Problem(130, 300, 200, "float16")),
    ("tma_store", {"BN": 64}, Problem(3 * 128 - 8, 200, 5 * 64, Arithmetic("bfloat16", "bfloat16"))),
    ("gemm_sm90", {"BN": 64, "CLUSTER_M": 2}, Problem(384, 192, 5 * 64, Arithmetic("bfloat16", "bfloat16"))),
    (
        "gemm_sm90",
        {"BM": 64, "BN": 64, "CONSUMERS": 1, "CLUSTER_N": 2},
        Problem(192, 384, 5 * 64, Arithmetic("bfloat16", "bfloat16")),
    ),
    (
        "gemm_sm90",
        {"BM": 64, "BN": 40, "CONSUMERS": 1, "CLUSTER_M": 2, "TMA_STORE_STAGES": 1, "SWAP_AB": 1},
        Problem(120, 640, 5 * 64, Arithmetic("bfloat16", "bfloat16")),
    ),
    ("gemm_sm90", {"BN": 64, "SPLITS": 2}, Problem(260, 200, 8 * 64, Arithmetic("bfloat16", "bfloat16"))),
]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "overrides", "problem"), SAMPLED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_few_blocks_tell_the_counts_of_all(name, overrides, problem, monkeypatch):
    monkeypatch.setattr(traffic, "_WHOLE", 10**9)
    whole = counted(name, problem, overrides, multiprocessors=132)
    assert not whole.extrapolated
    monkeypatch.setattr(traffic, "_WHOLE", 0)
    sampled = counted(name, problem, overrides, multiprocessors=132)
    assert sampled.exact
    assert sampled.extrapolated
    assert sampled.groups == whole.groups
    assert sampled.tile_bytes == whole.tile_bytes
    assert sampled.operations == whole.operations
    assert set(sampled.lines) == set(whole.lines)


def test_the_coalesced_kernel_touches_a_quarter_of_the_sectors_by_column():
    """A warp reads one element of A, and 32 neighbours of B: 1 + 4 sectors; naive it reads 32 rows of A: 32 + 1."""
    problem = Problem.parse("256")
    naive, coalesced = (counted(name, problem).groups for name in ("naive", "coalesced"))
    warps_and_k = 256 * 256 // 32 * 256
    assert (naive["global_load"].requests, naive["global_load"].sectors) == (2 * warps_and_k, 33 * warps_and_k)
    assert (coalesced["global_load"].requests, coalesced["global_load"].sectors) == (2 * warps_and_k, 5 * warps_and_k)
    assert naive["global_store"].sectors == 8 * coalesced["global_store"].sectors == 256 * 256


def test_rows_off_a_sectors_boundary_cost_more():
    aligned, off = (
        counted("coalesced", Problem(32, 64, 64, b=Layout(ld=ldb))).groups["global_load"] for ldb in (64, 65)
    )
    assert aligned.requests == off.requests
    assert off.sectors - aligned.sectors == 32 * 2 * 64 * 7 // 8, "seven rows of B in eight begin within a sector"


def test_beta_decides_whether_c_is_read():
    without, with_beta = (counted("coalesced", Problem(64, 64, 64), beta=beta).groups for beta in (0.0, 1.0))
    assert with_beta["global_load"].accesses - without["global_load"].accesses == 64 * 64
    assert with_beta["global_store"] == without["global_store"]


def test_asynchronous_copies_are_a_kind_of_their_own():
    groups = counted("async_copy", Problem.parse("256")).groups
    assert groups["global_load"].requests == groups["shared_store"].requests == 0
    assert groups["async_copy"].bytes == 4 * 256 * 256 * (256 // 64 + 256 // 128)
    assert groups["async_copy"].sectors * 32 == groups["async_copy"].bytes
    assert groups["async_copy"].wavefronts * 128 == groups["async_copy"].bytes


@pytest.mark.further
def test_tiles_of_tensor_maps_are_bytes_and_no_requests():
    found = counted("tma_packed", Problem(128, 256, 64), {"WORKERS": 0})
    assert found.tile_bytes == 2 * 2 * 4 * 32 * (128 + 128)
    assert found.groups["global_load"].requests == found.groups["async_copy"].requests == 0


@pytest.mark.further
def test_what_the_copy_engine_stores_is_bytes_and_no_requests():
    """Bytes of C alone are counted: those of the last tiles that lie outside are not stored."""
    m, n, k = 200, 120, 128
    found = counted("tma_store", Problem(m, n, k, Arithmetic("bfloat16", "bfloat16")), {"BN": 64, "CLUSTER_M": 1})
    loaded = 2 * 2 * 2 * 2 * 64 * (128 + 64)  # four tiles, two steps, two bytes an element
    assert found.tile_bytes == loaded + 2 * m * n
    assert found.groups["global_store"].requests == 0
    assert found.groups["shared_store"].bank_conflicts == 0


@pytest.mark.further
@pytest.mark.parametrize("rows", [40, 96])
def test_a_tile_of_d_transposed_is_written_on_distinct_banks_and_stored_once(rows):
    """Two tiles, of which each matrix of 16 rows x 16 columns is written by an instruction."""
    m, n, k = 2 * rows - 4, 64, 128
    config = {"BM": 64, "BN": rows, "CONSUMERS": 1, "TMA_STORE_STAGES": 1, "SWAP_AB": 1}
    found = counted("gemm_sm90", Problem(m, n, k, Arithmetic("bfloat16", "bfloat16")), config)
    assert found.tile_bytes == 2 * 2 * (rows + n) * k + 2 * m * n
    assert found.groups["global_store"].requests == 0
    stores = found.groups["shared_store"]
    assert stores.requests == 2 * 4 * -(-rows // 16)
    assert stores.bank_conflicts == 0


@pytest.mark.further
@pytest.mark.parametrize(("columns", "layout"), [(64, "TN"), (96, "NT")])
def test_products_of_warpgroups_read_a_and_b_from_shared_memory(layout, columns):
    a, b = orders(layout)
    problem = Problem(128, 2 * columns, 64, Arithmetic("bfloat16", "bfloat16"), a=a, b=b)
    found = counted("gemm_sm90", problem, {"BN": columns, "STAGES": 3})
    product, instructions = found.groups["product"], 2 * 2 * 4
    assert product.requests == instructions
    assert product.bytes == instructions * 2 * 16 * (64 + columns)
    assert product.wavefronts * 128 == product.bytes
    assert product.bank_conflicts == found.groups["shared_load"].requests == 0
    (line,) = (line for line in found.lines if line.pipe == "product")
    assert line.source.file == "gemm_sm90.cu"


@pytest.mark.further
@pytest.mark.parametrize(("columns", "consumers"), [(64, 1), (192, 3)])
def test_a_row_major_factor_of_float8_is_loaded_once_and_read_on_distinct_banks(columns, consumers):
    """By TMA in blocks of 64 or 128 columns of D, by threads 16 bytes a lane."""
    k, rows = 256, 64
    problem = Problem(rows, columns, k, Arithmetic(FLOAT8[0], "bfloat16"))
    found = counted("gemm_fp8_nn", problem, {"BM": columns, "BN": rows, "CONSUMERS": consumers, "STAGES": 2})
    assert found.tile_bytes == k * (columns + rows)
    loads = found.groups["shared_load"]
    assert loads.wavefronts * 128 == loads.bytes == k * columns
    assert loads.bank_conflicts == 0


@pytest.mark.further
def test_factors_that_are_split_in_registers_are_moved_on_distinct_banks():
    """Elements of the large one, parts of the other, also where a step has several tiles."""
    a, b = orders("NT")
    found = counted("small_m_bf16x6", Problem(64, 64, 256, a=a, b=b), {"BM": 64, "BN": 64, "BK": 64, "STAGES": 3})
    assert found.groups["shared_load"].bank_conflicts == 0
    parts = max((line.group for line in found.lines if line.pipe == "shared_store"), key=lambda group: group.bytes)
    assert parts.wavefronts * 128 == parts.bytes == 3 * 2 * 64 * 256


@pytest.mark.further
@pytest.mark.parametrize(("ld", "ends"), [(96, 0), (97, 4)])
def test_warpgroups_store_pieces_of_16_bytes_wherever_rows_start(ld, ends):
    """Requests for 8 rows, 32 columns an instruction; for each end of a row, one element a lane, then its other one."""
    problem = Problem(64, 96, 64, Arithmetic("bfloat16", "bfloat16"), d=Layout("row", ld))
    found = counted("gemm_sm90", problem, {"BM": 64, "BN": 96, "STAGES": 3, "PINGPONG": 1}).groups["global_store"]
    assert found.requests == 64 // 8 * (96 // 32 + ends)
    assert found.bytes == 2 * 64 * 96


SHARED = [
    ("split_k", {"WORKERS": 2}, Problem(300, 200, 700), 7),
    (
        "gemm_mma",
        {"BM": 64, "BN": 64, "WM": 32, "WN": 32, "GROUP_M": 1, "WORKERS": 2},
        Problem(300, 200, 704, Arithmetic("bfloat16")),
        7,
    ),
]


@pytest.mark.further
@pytest.mark.parametrize(("name", "overrides", "problem", "multiprocessors"), SHARED)
def test_so_they_do_where_blocks_share_tiles(name, overrides, problem, multiprocessors, monkeypatch):
    """Some workers have parts of two tiles, and some tiles edges."""
    monkeypatch.setattr(traffic, "_WHOLE", 10**9)
    whole = counted(name, problem, overrides, multiprocessors=multiprocessors)
    assert not whole.extrapolated
    monkeypatch.setattr(traffic, "_WHOLE", 0)
    sampled = counted(name, problem, overrides, multiprocessors=multiprocessors)
    assert sampled.exact
    assert sampled.blocks_run < whole.blocks_run or multiprocessors < 20
    assert sampled.groups == whole.groups
    assert sampled.tile_bytes == whole.tile_bytes
    assert sampled.operations == whole.operations


@pytest.mark.further
def test_partial_sums_are_loaded_once_for_each_worker_but_one():
    """Tiles of 128 x 128, of which 264 workers share 20."""
    found = counted("tma_packed", Problem(520, 392, 2640), multiprocessors=132)
    assert found.extrapolated
    loads = found.groups["global_load"].bytes
    assert 0 < loads <= 4 * 128 * 128 * (2 * 264)
    assert loads % (4 * 128 * 128) == 0


@pytest.mark.further
def test_the_skinny_rung_reads_the_large_factor_once():
    found = counted("skinny", Problem(16, 4096, 1024))
    assert found.exact
    assert found.extrapolated
    assert 1 <= 32 * found.groups["global_load"].sectors / (4 * 1024 * (16 + 4096)) < 2


@pytest.mark.further
def test_tiles_that_nobody_shares_are_known_exactly_though_a_smaller_problem_would_share_them():
    found = counted(
        "tma_packed", Problem(128 * 264, 128, 1024), {"BM": 128, "BN": 128, "WORKERS": 2}, multiprocessors=132
    )
    assert found.exact
    assert found.groups["global_store"].accesses * 4 == 128 * 264 * 128


@pytest.mark.first(1)
@pytest.mark.parametrize("shape", ["0x5x3", "5x0x3", "4x4x0"])
def test_nothing_to_multiply(shape):
    found = counted("warptiled", Problem.parse(shape))
    assert found.groups["global_load"].requests == 0
    assert found.groups["global_store"].bytes == (4 * 16 if shape == "4x4x0" else 0)
    assert found.operations.ffma == 0


def test_lines_name_the_kernels_own_source():
    found = counted("warptiled", Problem.parse("256"))
    assert {line.source.file for line in found.lines} == {"warptiled.cu"}
    for pipe, group in found.groups.items():
        assert sum(line.group.requests for line in found.lines if line.pipe == pipe) == group.requests


@pytest.mark.further
def test_what_cannot_be_counted_as_operations():
    tensor = counted("wmma_tf32", Problem.parse("128"))
    assert tensor.operations is None
    assert any("fragments" in note for note in tensor.notes)


@pytest.mark.parametrize(
    "kernel", [*map(find, ("coalesced", "vectorized", "async_copy"))], ids=lambda kernel: kernel.name
)
def test_a_launch_of_4096_takes_few_blocks(kernel):
    found = count(kernel, kernel.config(), Problem.parse("4096", arithmetic=kernel.support.factors[0]))
    assert found.exact
    assert found.blocks_run <= 12
    assert found.operations.ffma == 4096**3


@pytest.mark.further
@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_a_kernel_behind_a_relayout_is_counted_as_it_reads_its_operands(layout):
    a, b = orders(layout)
    for name, overrides in (
        ("tma_packed", {}),
        ("tma_transposed", {"BM": 128, "K_SLICES": 1, "MIN_BLOCKS": 1, "COPIED": 3}),
    ):
        found = counted(name, Problem(256, 256, 256, a=a, b=b), {"WORKERS": 0, **overrides})
        assert found.groups["shared_store"].requests == 0, "a tile is transposed"
        assert found.groups["shared_load"].requests > 0
        copied = {"NT": "A and B", "TN": ""}[layout]
        assert [note for note in found.notes if "relayout" in note] == [
            f"without the relayout of {names} beforehand" for names in (copied,) if names
        ]
