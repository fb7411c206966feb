"""Kernels in the style of well-known sources, as they are found: with host code, and no line on how they are launched.

Right ones pass the check and are counted and compiled; a fault in one is named. `test_cli_options_of_sources` has the
options that say the same on the command line.
"""

import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tilewright.core.gpus import gpu_named
from tilewright.core.problem import Problem, Scalars
from tilewright.emulator.engine import EmulatorEngine
from tilewright.emulator.launches import check_launch
from tilewright.kernels.source.products import from_source
from tilewright.kernels.source.source_launch import read_launch
from tilewright.tools.bench.case import CheckCase
from tilewright.tools.bench.checking import outcomes
from tilewright.tools.bench.measure import verify
from tilewright.tools.bench.references import Reference
from tilewright.tools.bench.verify import Operands, limit
from tilewright.tools.explain.explanation import explain
from tilewright.tools.explain.launch_explanation import explain_launch

FOUND = Path(__file__).parents[2] / "own_kernels" / "unmodified"
H200 = gpu_named("H200")


@dataclass(frozen=True)
class Product:
    """A matrix product, and what options say of it."""

    place: str
    words: dict[str, str]
    shape: tuple[int, int, int]
    defines: dict[str, int] = field(default_factory=dict)
    layout: str = "NN"
    scaled: bool = True
    """Whether it has alpha and beta."""
    loads: int = 0
    """Requests of global loads, with beta = 1."""

    def kernel(self, folder):
        return from_source(f"{folder}/{self.place}", "", self.defines, **self.words)


TILED = {"block": "BM*BN//(TM*TN)", "grid": "(ceil(N/BN),ceil(M/BM))"}
PRODUCTS = {
    # Lanes are along M: each of 2 * 32 warps loads 24 elements of A and of B, and one of C.
    "naive": Product(
        "sgemm_steps.cu:sgemm_naive", {"block": "(32,32)", "grid": "(ceil(M/32),ceil(N/32))"}, (50, 32, 24),
        loads=2 * 32 * (2 * 24 + 1),
    ),
    "coalesced": Product(
        "sgemm_steps.cu:sgemm_coalesced",
        {"block": "BLOCKSIZE*BLOCKSIZE", "grid": "(ceil(M/BLOCKSIZE),ceil(N/BLOCKSIZE))"}, (64, 32, 24),
        {"BLOCKSIZE": 32},
    ),
    # A warp loads a tile's line, of A and of B, for each of 2 steps.
    "shared": Product(
        "sgemm_steps.cu:sgemm_shared", {"block": "BLOCKSIZE*BLOCKSIZE", "grid": "(M/BLOCKSIZE,N/BLOCKSIZE)"},
        (64, 32, 64), {"BLOCKSIZE": 32}, loads=2 * 32 * (2 * 2 + 1),
    ),
    "1-D tiles": Product(
        "sgemm_steps.cu:sgemm_1d_tiles", {"block": "BM*BN//TM", "grid": "(N//BN,M//BM)"}, (32, 64, 16),
        {"BM": 32, "BN": 32, "BK": 8, "TM": 4},
    ),
    "vectorized": Product(
        "sgemm_steps.cu:sgemm_vectorized", TILED, (64, 64, 16), {"BM": 64, "BN": 64, "BK": 8, "TM": 8, "TN": 4},
        loads=4 * (2 * 2 + 8),
    ),
    "2-D tiles": Product("sgemm.cu", TILED, (50, 30, 20), {"BM": 32, "BN": 32, "BK": 8, "TM": 4, "TN": 4}),
    "matrixMul": Product(
        "matrix_mul.cu",
        {"block": "(BLOCK_SIZE,BLOCK_SIZE)", "grid": "(N/BLOCK_SIZE,M/BLOCK_SIZE)", "args": "C,A,B,K,N"},
        (32, 64, 48), {"BLOCK_SIZE": 16}, scaled=False,
    ),
    "bfloat16": Product(
        "bf16_steps.cu", {"block": "BM*BN", "grid": "(ceil(M/BM),ceil(N/BN))", "layout": "NT", "C": "column"},
        (40, 33, 20), layout="NT", scaled=False,
    ),
    "inline PTX": Product(
        "hgemm_ptx.cu", {"block": "128", "grid": "(N/BN,M/BM)"}, (64, 128, 96),
        {"BM": 64, "BN": 64, "BK": 32, "A_PAD": 8, "B_PAD": 8}, scaled=False,
    ),
    "two barriers": Product(
        "sgemm_async.cu", {"block": "NUM_THREADS", "grid": "(N/BN,M/BM)"}, (32, 64, 48),
        {"BM": 32, "BN": 32, "BK": 16, "TM": 8, "NUM_THREADS": 128},
    ),
    "float32 next to TF32": Product(
        "tf32_product.cu:in_float32", {"block": "(16,16)", "grid": "(ceil(N/16),ceil(M/16))"}, (33, 21, 40),
        scaled=False,
    ),
    "TF32": Product(
        "tf32_product.cu:in_tf32", {"block": "32", "grid": "(N/16,M/16)"}, (32, 48, 64), scaled=False,
    ),
    "a tensor map's first step": Product(
        "tma_first_step.cu",
        {"block": "128", "grid": "M/BM*(N/BN)", "args": "M,N,K,C,A,B,0", "layout": "NT", "C": "column",
         "tile": "(BM,BN,BK)",
         "maps": "tensorMapA:A(BM,BK,swizzle=128B),tensorMapB:B(BN,BK,swizzle=128B)"},
        (32, 128, 128), {"BM": 64, "BN": 32, "BK": 64}, layout="NT", scaled=False,
    ),
    "a queue of tiles": Product(
        "tma_steps.cu",
        {"block": "384", "grid": "M/BM*(N/BN)", "shared": "(BM+BN)*BK*2*QSIZE+16*QSIZE", "args": "M,N,K,C,A,B",
         "layout": "NT", "C": "column", "tile": "(BM,BN,BK)",
         "maps": "tensorMapA:A(BM,BK,swizzle=128B,panel=64),tensorMapB:B(BN,BK,swizzle=128B,panel=64)"},
        (32, 128, 512), {"BM": 128, "BN": 32, "BK": 128, "QSIZE": 2}, layout="NT", scaled=False,
    ),
    "an answer": Product(
        "leet_matmul.cu", {"block": "(TILE,TILE)", "grid": "(ceil(N/TILE),ceil(M/TILE))", "args": "A,B,C,M,K,N"},
        (20, 33, 40), scaled=False,
    ),
}  # fmt: skip

HALF = "g_idata=int32[n] g_odata=out:int32[4] n=512"
LAUNCHES = {
    "transpose": (
        "transposes.cu:transposeNaive",
        "odata=out:float32[width,height] idata=float32[height,width] width=64 height=32",
        {"block": "TILE_DIM,BLOCK_ROWS", "grid": "width/TILE_DIM,height/TILE_DIM", "reference": "transpose"}, {},
    ),
    "padded transpose": (
        "transposes.cu:transposeNoBankConflicts",
        "odata=out:float32[width,height] idata=float32[height,width] width=64 height=32",
        {"block": "TILE_DIM,BLOCK_ROWS", "grid": "width/TILE_DIM,height/TILE_DIM", "reference": "transpose"},
        {"TILE_DIM": "32", "BLOCK_ROWS": "8"},
    ),
    "interleaved sums": (
        "reductions.cu:reduce0", HALF, {"block": "128", "grid": "4", "shared": "512", "reference": "sums"},
        {"T": "int"},
    ),
    "sums of pairs": (
        "reductions.cu:reduce4", HALF, {"block": "64", "grid": "4", "shared": "256", "reference": "sums"},
        {"T": "int", "blockSize": "64"},
    ),
    "sums of many": (
        "reductions.cu:reduce7<float,128,false>", "g_idata=float32[n] g_odata=out:float32[1] n=1000",
        {"block": "128", "grid": "1", "shared": "512", "reference": "total"}, {},
    ),
    "vector addition": (
        "leet_vector_add.cu", "A=float32[N] B=float32[N] C=out:float32[N] N=1000",
        {"block": "256", "grid": "ceil(N/256)", "reference": "vector_add"}, {},
    ),
    "softmax": (
        "leet_softmax.cu", "input=float32[N] output=out:float32[N] N=1000",
        {"block": "THREADS", "grid": "1", "reference": "softmax"}, {},
    ),
    "histogram": (
        "leet_histogram.cu", "input=int32[N]:0..15 histogram=zeros:int32[num_bins] N=1000 num_bins=16",
        {"block": "64", "grid": "2", "shared": "4*num_bins", "reference": "histogram"}, {},
    ),
    "constant memory": (
        "leet_blur.cu", "input=float32[N] output=out:float32[N] N=1000 c_weights=float32[2*RADIUS+1]",
        {"block": "128", "grid": "ceil(N/128)", "reference": "blur"}, {},
    ),
    "convolution": (
        "leet_convolution.cu",
        "input=float32[input_size] kernel=float32[kernel_size] output=out:float32[input_size-kernel_size+1] "
        "input_size=300 kernel_size=7",
        {"block": "BLOCK", "grid": "ceil((input_size-kernel_size+1)/BLOCK)", "reference": "convolution"}, {},
    ),
}  # fmt: skip


def launch_of(name, folder):
    place, args, words, defines = LAUNCHES[name]
    words = words | {"reference": f"{folder}/references.py:{words['reference']}"}
    return read_launch(f"{folder}/{place}", args, defines, **words)


def problem_of(product, kernel):
    problem = Problem.parse("x".join(map(str, product.shape)), arithmetic=kernel.support.arithmetic(""))
    a, b = (problem.a, problem.b) if product.layout == "NN" else (problem.a, problem.b._replace(order="column", ld=0))
    return Problem(*product.shape, kernel.support.arithmetic(""), a=a._replace(ld=0), b=b)


def faults_of_product(product, folder):
    """Findings of `check`, in words."""
    kernel = product.kernel(folder)
    scalars = Scalars(1.5, 0.5) if product.scaled else Scalars()
    (outcome,) = outcomes(kernel, [CheckCase(problem_of(product, kernel), scalars, kernel.config())])
    wrong = [] if outcome.right else [f"wrong result: {outcome.error:.1e}: {outcome.wrong}"]
    return [f"{one.kind}: {one}" for one in outcome.checked.findings] + wrong


def faults_of_launch(name, folder):
    launch = launch_of(name, folder)
    checked = check_launch(launch)
    compared = Reference(launch).compare(checked.inputs, checked.outputs)
    wrong = [f"wrong result: {one.worst}" for one in compared if not one.right]
    return [f"{one.kind}: {one}" for one in checked.findings] + wrong


@pytest.mark.first(3)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_passes(name):
    assert faults_of_product(PRODUCTS[name], FOUND) == []


@pytest.mark.further
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_passes(name):
    assert faults_of_launch(name, FOUND) == []


# Some whose loads are counted by hand, and of the others what the compiler reads otherwise.
EXPLAINED = ("naive", "shared", "vectorized", "bfloat16", "inline PTX", "two barriers", "a tensor map's first step")


@pytest.mark.usefixtures("unasked_nvrtc")
@pytest.mark.first(1)
@pytest.mark.parametrize("name", EXPLAINED)
def test_a_product_is_explained(name):
    pytest.importorskip("cuda.core")
    product = PRODUCTS[name]
    kernel = product.kernel(FOUND)
    one = explain(kernel, kernel.config(), problem_of(product, kernel), H200, scalars=Scalars(1, int(product.scaled)))
    assert one.predicted.us >= max(one.times_us.values()) > 0
    if product.loads:
        assert one.traffic.groups["global_load"].requests == product.loads


@pytest.mark.further
@pytest.mark.parametrize(("name", "gpu"), [("a tensor map's first step", "H100"), ("inline PTX", "A100 40GB")])
def test_tensor_cores_are_predicted_as_such(name, gpu):
    """Faster than threads could multiply, and slower than tensor cores can."""
    pytest.importorskip("cuda.core")
    product, on = replace(PRODUCTS[name], shape=(4096, 4096, 4096)), gpu_named(gpu)
    kernel = product.kernel(FOUND)
    one = explain(kernel, kernel.config(), problem_of(product, kernel), on)
    speed = one.problem.gflops(one.predicted.us) / 1e3
    assert 2 * on.peak_tflops("float32") < speed < on.peak_tflops(one.arithmetic)


BARRIERS = "    __shared__ barrier barA;\n    __shared__ barrier barB;\n"
TILE = "    __shared__ alignas(128) bf16 sA"


@pytest.mark.parametrize("first", ["tiles", "barriers"])
def test_tiles_that_ask_for_less_alignment_than_their_swizzle_lie_as_on_a_gpu(tmp_path, first):
    text = (FOUND / "tma_first_step.cu").read_text().replace("alignas(1024)", "alignas(128)")
    if first == "barriers":
        text = text.replace(BARRIERS, "").replace(TILE, BARRIERS + TILE)
    (tmp_path / "tma_first_step.cu").write_text(text)
    kernel = PRODUCTS["a tensor map's first step"].kernel(tmp_path)
    case = CheckCase(problem_of(PRODUCTS["a tensor map's first step"], kernel), Scalars(), kernel.config())
    (outcome,) = outcomes(kernel, [case])
    done = outcome.checked
    kind = "chance alignment" if first == "tiles" else "shifted swizzle"
    assert {one.kind for one in done.notes} == {kind}
    assert all("declare the array with alignas(1024)" in str(one) for one in done.notes)
    assert [one.kind for one in done.findings] == ([] if first == "tiles" else ["misuse"])
    assert outcome.right == (first == "tiles")


@pytest.mark.usefixtures("unasked_nvrtc")
@pytest.mark.further
@pytest.mark.parametrize("name", ["padded transpose", "histogram"])
def test_a_launch_is_explained(name):
    pytest.importorskip("cuda.core")
    assert explain_launch(launch_of(name, FOUND), H200).traffic.groups["global_load"].requests > 0


@pytest.mark.parametrize("name", ["1-D tiles", "matrixMul"])
def test_bench_verifies_a_product(name):
    kernel = PRODUCTS[name].kernel(FOUND)
    problem = problem_of(PRODUCTS[name], kernel)
    _, error = verify(
        EmulatorEngine(), kernel, kernel.config(), Operands.draw(problem, Scalars(1, int(PRODUCTS[name].scaled)))
    )
    assert error <= limit(problem)


@pytest.mark.further
@pytest.mark.parametrize("name", ["sums of pairs", "softmax"])
def test_a_launch_compiles_for_a_gpu(name):
    pytest.importorskip("cuda.core")
    from tilewright.runtime import nvrtc  # noqa: PLC0415 it is slow to load

    launch = launch_of(name, FOUND)
    assert nvrtc.compile_user_source(launch.file, launch.entry, launch.macros, "sm_80").report.spill_bytes == 0


FAULTS = {
    "a barrier less": (
        "shared", "        __syncthreads();  // before the tiles change\n", "",
        r"race: .* [AB]s\[\d+\] at sgemm_steps.cu:\d+; .* nothing orders the two",
    ),
    "tiles read too early": ("matrixMul", "__syncthreads();  // the tiles are loaded", "",
                             r"race: .*[AB]s\[\d+\]\[\d+\]"),
    "an edge too far": ("naive", "x < M && y < N", "x <= M && y < N",
                        r"out of bounds: .* C\[50, \d+\], outside of its 50"),
    "a column of B": ("coalesced", "B[i * N + cCol]", "B[i * N + cRow]", r"(wrong result|out of bounds): "),
    "a stage less waited for": ("inline PTX", "CP_ASYNC_WAIT_GROUP(1);", "CP_ASYNC_WAIT_GROUP(2);",
                                r"unfinished copy: .* reads s_[ab]\[\d\]\[\d+\]\[\d+\] at hgemm_ptx.cu:\d+"),
    "a stage that is overwritten": ("inline PTX", "    }\n    __syncthreads();\n  }", "    }\n  }",
                                    r"race: .* starts a copy to s_[ab]\[\d\]\[\d+\]\[\d+\] at hgemm_ptx.cu:\d+"),
    "factors not rounded": ("TF32", "        round_all(a);\n        round_all(b);\n", "",
                            r"wrong result: \d.*: factors of float32 may be cut off to TF32, and not rounded"),
    "rows of another lane": ("inline PTX", "+ i * 16 + lane_id % 16]", "+ i * 16 + lane_id % 8]", "wrong result: "),
    "a queue that is not waited for": ("a queue of tiles", "wait(&s.full[qidx], p);", "",
                                       r"unfinished copy: .* tma_steps.cu:\d+"),
    "half of the readers": ("a queue of tiles", "init_barrier(&s.empty[i], 2);", "init_barrier(&s.empty[i], 1);",
                            r"barrier: .* 1 of 1 arrivals and 0 bytes of its phase 2 are missing"),
    "a barrier's copies not waited for": ("two barriers", "front->arrive_and_wait();", "(void)back->arrive();",
                                          r"unfinished copy: .* reads [AB]s\[\d\]\[\d+\] at sgemm_async.cu:\d+"),
    "a buffer that is overwritten": ("two barriers", "    __syncthreads(); // before the tiles change\n", "",
                                     r"(race|unfinished copy): .* [AB]s\[\d\]\[\d+\] at sgemm_async.cu:\d+"),
    "a tile not waited for": ("a tensor map's first step", "barB.wait(std::move(tokenB));", "",
                              r"unfinished copy: .*sB at tma_first_step.cu:\d+"),
    "bytes that never come": ("a tensor map's first step", "barrier_arrive_tx(barB, 1, sizeof(sB))",
                              "barrier_arrive_tx(barB, 1, 2 * sizeof(sB))",
                              r"barrier: .* bytes of its phase 0 are missing"),
    "products not waited for": ("a queue of tiles", "            warpgroup_wait<0>();\n", "",
                                r"race: .*tma_steps.cu:\d+"),
    "past the tile": ("1-D tiles", "Bs[dotIdx * BN + threadCol]", "Bs[(dotIdx + 1) * BN + threadCol]",
                      r"out of bounds: .* reads Bs\[\d+\], outside of its 256 elements"),
    "no float4": ("vectorized", "&B[innerRowB * N + innerColB * 4]", "&B[innerRowB * N + innerColB * 4 + 1]",
                  r"misaligned access: .*sgemm_steps.cu:\d+"),
    "sums not begun": ("2-D tiles", "sums[TM * TN] = {0.0f}", "sums[TM * TN]", "wrong result: "),
    "a tile read across": ("padded transpose", "    cg::sync(cta);\n", "", r"race: .*tile\[\d+\]\[\d+\]"),
    "a width for a height": ("transpose", "int index_out = yIndex + height * xIndex;",
                             "int index_out = yIndex + width * xIndex;", r"out of bounds: .* writes odata\[\d+, \d+\]"),
    "half a block's sums": ("sums of pairs", "blockSize >= 64", "blockSize > 64", r"wrong result: g_odata\[\d\] is "),
    "lanes beyond a mask": ("sums of many", "mySum = warpReduceSum<T>(mask, mySum);\n    }",
                            "mySum = warpReduceSum<T>(0xf, mySum);\n    }", r"(wrong result|launch|barrier): "),
    "sums in one step": ("interleaved sums", "sdata[tid] += sdata[tid + s];\n        cg::sync(cta);",
                         "sdata[tid] += sdata[tid + s];", r"race: .*dynamic shared memory"),
    "a lane's maximum": ("softmax", "    __syncthreads();  // before they are written again\n", "",
                         r"race: .*parts\[\d\]"),
    "no guard": ("vector addition", "if (i < N) {", "if (i <= N) {",
                 r"out of bounds: .*A\[1000\], outside of its 1000"),
    "no atomic": ("histogram", "atomicAdd(&bins[input[i]], 1)", "bins[input[i]]++", "race: .*dynamic shared memory"),
    "a weight of a neighbour": ("constant memory", "c_weights[k + RADIUS]", "c_weights[RADIUS - k]",
                                r"wrong result: output\[\d+\]"),
    "no halo": ("convolution", "i < BLOCK + kernel_size - 1; i += BLOCK", "i < BLOCK; i += BLOCK",
                r"uninitialized read: .*window\[128\]"),
}  # fmt: skip


@pytest.mark.usefixtures("unasked_nvrtc")
@pytest.mark.first(8)
@pytest.mark.parametrize(("name", "before", "after", "words"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_named(tmp_path, name, before, after, words):
    place = PRODUCTS[name].place if name in PRODUCTS else LAUNCHES[name][0]
    text = (FOUND / place.partition(":")[0]).read_text()
    assert before in text
    (tmp_path / place.partition(":")[0]).write_text(text.replace(before, after, 1))
    shutil.copy(FOUND / "references.py", tmp_path)
    product = PRODUCTS.get(name)
    found = faults_of_product(product, tmp_path) if product else faults_of_launch(name, tmp_path)
    assert any(re.search(words, one) for one in found), found
