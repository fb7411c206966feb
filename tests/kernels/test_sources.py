"""Kernels from a user's source."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tilewright.core.errors import ConfigError, DtypeError, KernelNotFoundError, LaunchError, ProblemError
from tilewright.core.problem import Arithmetic, Layout, Problem
from tilewright.kernels import find, resolve
from tilewright.kernels.kernel import Tile
from tilewright.kernels.source.lines import is_source
from tilewright.kernels.source.products import START, from_source
from tilewright.tools.bench.check_cases import other_configs
from tilewright.tools.tune import space
from tilewright.tools.tune.journal import source_digest

LAUNCH = "// tilewright: block=(16,8) grid=(ceil(N/16),ceil(M/8))\n"
BODY = """{
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += float(A[ROW_A]) * float(B[ROW_B]);
    C[row * LDC + col] = sum;
}
"""


def written(folder, text, name="own.cu"):
    path = folder / name
    path.write_text(text)
    return str(path)


def source(signature, row_a="row * K + k", row_b="k * N + col", ldc="N", head=LAUNCH):
    body = BODY.replace("ROW_A", row_a).replace("ROW_B", row_b).replace("LDC", ldc)
    return f"{head}__global__ void own({signature}) {body}"


def draw(rows, cols, dtype="float32"):
    return np.random.default_rng([rows, cols]).standard_normal((rows, cols)).astype(dtype)


def product(place, m=33, n=21, k=40, dtype="float32", **named):
    a, b = draw(m, k, dtype), draw(k, n, dtype)
    found = tilewright.matmul(a, b, kernel=place, engine="emulator", **named)
    np.testing.assert_allclose(found.astype("f8"), a.astype("f8") @ b.astype("f8"), rtol=2e-2, atol=1e-2)
    return found


@pytest.mark.parametrize(
    "signature",
    [
        "const float* A, const float* B, float* C, int M, int N, int K",
        "int M, size_t N, long long K, float* C, float* B, float* A",
        "unsigned K, const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int N, int M",
    ],
)
def test_parameters_are_found_by_their_names_in_any_order(tmp_path, signature):
    product(written(tmp_path, source(signature)))


def test_usual_prefixes_and_endings_of_names_do_not_matter(tmp_path):
    text = source("int M, int N, int K, const float* d_A, const float* matB, float* out")
    place = written(tmp_path, text.replace("A[", "d_A[").replace("B[", "matB[").replace("C[", "out["))
    product(place)


def test_args_say_what_names_do_not(tmp_path):
    text = source(
        "float* z, float* x, float* y, int p, int q, int r", head=LAUNCH + "// tilewright: args=C,A,B,M,N,K\n"
    )
    for name, there in {"C[": "z[", "A[": "x[", "B[": "y[", "M ": "p ", ">= N": ">= q", "* N": "* q", "K": "r"}.items():
        text = text.replace(name, there) if name != "K" else text.replace("* K", "* r").replace("< K", "< r")
    product(written(tmp_path, text.replace("(ceil(q", "(ceil(N")))


def test_leading_dimensions_and_narrow_types(tmp_path):
    signature = "int M, int N, int K, const half* A, int lda, const half* B, int ldb, float* C, int ldc"
    place = written(tmp_path, "#include <cuda_fp16.h>\n" + source(signature, "row * lda + k", "k * ldb + col", "ldc"))
    product(place, dtype="float16", out_dtype="float32")
    kernel = find(place)
    assert (kernel.support.factors, kernel.support.results, kernel.support.gaps) == (("float16",), ("float32",), True)
    arithmetic = Arithmetic("float16", "float32")
    assert kernel.why_not(Problem(8, 8, 8, arithmetic, a=Layout("row", 16))) is None


def test_without_leading_dimensions_matrices_have_no_gaps(tmp_path):
    kernel = find(written(tmp_path, source("const float* A, const float* B, float* C, int M, int N, int K")))
    assert kernel.why_not(Problem(8, 8, 8)) is None
    with pytest.raises(
        ProblemError, match="takes matrices without gaps, got B with 12 elements from one line to the next"
    ):
        kernel.check(Problem(8, 8, 8, b=Layout("row", 12)))


def test_from_python(tmp_path):
    text = START.read_text().replace("// tilewright:", "// not so:")
    words = {"block": ("TILE", "TILE"), "grid": ("ceil(N/TILE)", "ceil(M/TILE)"), "TILE": 8}
    kernel = tilewright.Kernel.from_source(text, **words)
    assert kernel.config().TILE == 8
    assert tilewright.Kernel.from_source(text, **words) is kernel
    product(kernel)
    place = written(tmp_path, START.read_text())
    assert tilewright.Kernel.from_source(tmp_path / "own.cu") is find(place)
    assert tilewright.Kernel.from_source(place, "start", TILE=4).config().TILE == 4
    with pytest.raises(ConfigError, match="does not say how start is launched"):
        tilewright.Kernel.from_source(text, block=8)
    with pytest.raises(
        ConfigError,
        match=r"tiel=8 is nothing that start takes: there are block, .*, args, .* and macros of the source in capitals",
    ):
        tilewright.Kernel.from_source(text, **words, tiel=8)


def test_layouts(tmp_path):
    text = source(
        "const float* A, const float* B, float* C, int M, int N, int K",
        "k * M + row",
        "col * K + k",
        head=LAUNCH + "// tilewright: layout=TT\n",
    )
    kernel = find(written(tmp_path, text))
    a, b = draw(40, 33).T, draw(21, 40).T
    found = tilewright.matmul(a, b, kernel=kernel, engine="emulator")
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)
    with pytest.raises(ProblemError, match="takes layouts TT of A and B, got NN"):
        kernel.check(Problem(8, 8, 8))


TEMPLATE = """
// tilewright: entry=own<BM,BN,float> BM=8:4,8 BN=16 block=BM*BN grid=ceil(N/BN)*ceil(M/BM)
template <int BM, int BN, typename T>
__global__ void own(const float* A, const float* B, float* C, int M, int N, int K) {
    const int across = (N + BN - 1) / BN;
    const int row = blockIdx.x / across * BM + threadIdx.x / BN, col = blockIdx.x % across * BN + threadIdx.x % BN;
    T sum = 0;
    for (int k = 0; k < K; ++k) sum += row < M && col < N ? A[row * K + k] * B[k * N + col] : 0;
    if (row < M && col < N) C[row * N + col] = sum;
}
__global__ void other(const float* A, const float* B, float* C, int M, int N, int K) {}
"""


@pytest.mark.parametrize("config", ["", "BM=4,BN=8"])
def test_a_template_is_compiled_for_what_its_entry_says(tmp_path, config):
    product(written(tmp_path, TEMPLATE) + ":own", config=config or None)


def test_a_template_s_arguments_may_be_named_with_it(tmp_path):
    place = written(tmp_path, TEMPLATE.replace("entry=own<BM,BN,float>", "entry=own")) + ":own<8,16,float>"
    product(place)


def test_a_template_s_parameters_may_have_small_letters(tmp_path):
    text = TEMPLATE.replace("entry=own<BM,BN,float> ", "").replace(", typename T", "").replace("T sum", "float sum")
    kernel = find(written(tmp_path, text.replace("BM", "bm").replace("BN", "bn")) + ":own")
    product(kernel, config="bm=4")
    assert kernel.entry_point(kernel.config()) == "own<8,16>"


def test_parameters_of_a_template_s_names_are_its_arguments(tmp_path):
    text = TEMPLATE.replace("entry=own<BM,BN,float> ", "").replace(", typename T", "").replace("T sum", "float sum")
    product(written(tmp_path, text) + ":own", config="BM=4")
    with pytest.raises(ConfigError, match=r"nothing says what T of own is: .*\n// tilewright: T=16 or"):
        from_source(written(tmp_path, TEMPLATE.replace("entry=own<BM,BN,float> ", ""), "typed.cu") + ":own")


def test_the_tile_follows_from_the_grid_or_is_said(tmp_path):
    kernel = find(written(tmp_path, TEMPLATE) + ":own")
    assert kernel.tile(kernel.config()) == Tile(8, 16, 32)
    assert kernel.tile(kernel.config({"BM": 4, "BN": 48})) == Tile(4, 48, 32)
    assert kernel.config().BN == 16
    assert kernel.launch(Problem(30, 40, 8), kernel.config(), 132)[:2] == ((12, 1, 1), (128, 1, 1))
    said = find(written(tmp_path, TEMPLATE.replace("BN=16", "BN=16 tile=(BM,BN*2,8)"), "said.cu") + ":own")
    assert said.tile(said.config()) == Tile(8, 32, 8)


def test_parameters_are_macros_even_if_they_are_letters(tmp_path):
    text = START.read_text().replace("TILE", "T")
    product(written(tmp_path, text, "start.cu"), config="T=8")


@settings(deadline=None)  # the first of a tile is compiled
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.sampled_from([8, 16]))
def test_the_start_is_right_for_every_size(m, n, k, tile):
    a, b = draw(m, k), draw(k, n)
    found = tilewright.matmul(a, b, kernel=f"{START}", config=f"TILE={tile}", engine="emulator", alpha=2.0)
    np.testing.assert_allclose(found, 2 * (a @ b), rtol=1e-4, atol=1e-3)


def test_the_same_file_is_the_same_kernel_until_it_changes(tmp_path):
    place = written(tmp_path, START.read_text())
    kernel = find(place)
    assert find(place) is kernel
    assert resolve(f" {place} ") == (kernel, {})
    written(tmp_path, START.read_text() + "\n")
    assert find(place) is not kernel


@pytest.mark.parametrize(("text", "expected"), [("a.cu", True), ("a.cu:b", True), ("naive", False), ("a.cub", False)])
def test_which_names_are_files(text, expected):
    assert is_source(text) is expected


COLUMN_MAJOR = """// tilewright: block=(16,4) grid=(ceil(M/16),ceil(N/4)) C=column layout=LAYOUT
__global__ void own(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb, float beta,
                    float* C, int ldc) {
    const int row = blockIdx.x * 16 + threadIdx.x, col = blockIdx.y * 4 + threadIdx.y;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[OF_A] * B[OF_B];
    C[col * ldc + row] = alpha * sum + (beta == 0 ? 0 : beta * C[col * ldc + row]);
}
"""


@pytest.mark.parametrize("own", ["TT", "NT", "TN", "NN"])
def test_a_column_major_c_is_the_product_of_the_transposes(tmp_path, own):
    of_a, of_b = ("k * lda + row", "row * lda + k")[own[0] == "N"], ("col * ldb + k", "k * ldb + col")[own[1] == "N"]
    text = COLUMN_MAJOR.replace("LAYOUT", own).replace("OF_A", of_a).replace("OF_B", of_b)
    kernel = find(written(tmp_path, text))
    takes = {"TT": "NN", "NT": "NT", "TN": "TN", "NN": "TT"}[own]
    assert kernel.support.layouts == (takes,)
    assert kernel.tile(kernel.config()) == Tile(4, 16, 32)
    m, n, k = 33, 21, 40
    a = draw(m, k) if takes[0] == "N" else draw(k, m).T
    b = draw(k, n) if takes[1] == "N" else draw(n, k).T
    found = tilewright.matmul(a, b, kernel=kernel, engine="emulator", c=np.ones((m, n), "f4"), alpha=2.0, beta=3.0)
    np.testing.assert_allclose(found, 2 * (a @ b) + 3, rtol=1e-4, atol=1e-4)


def test_findings_of_a_column_major_kernel_have_its_own_names(tmp_path):
    from tilewright.emulator.check import check  # noqa: PLC0415

    text = COLUMN_MAJOR.replace("LAYOUT", "TT").replace("OF_A", "k * lda + row + M").replace("OF_B", "col * ldb + k")
    kernel, problem = find(written(tmp_path, text)), Problem(8, 16, 4)
    found = check(kernel, kernel.config(), problem, draw(8, 4), draw(4, 16), np.zeros((8, 16), "f4"))
    assert any("reads A[" in str(finding) for finding in found.findings), found.findings
    with pytest.raises(ConfigError, match="C must be row or column, got 'col'"):
        from_source(written(tmp_path, text.replace("C=column", "C=col"), "other.cu"))


def test_scalars_that_a_kernel_has_no_parameter_for_are_refused(tmp_path):
    place = written(tmp_path, source("const float* A, const float* B, float* C, int M, int N, int K"))
    with pytest.raises(ProblemError, match=r"own has no alpha, so that it is 1, got 2\.0"):
        product(place, alpha=2.0)
    with pytest.raises(ProblemError, match=r"own has no beta, so that it is 0, got 1\.0"):
        product(place, c=np.zeros((33, 21), "f4"), beta=1.0)


PLAIN = "const float* A, const float* B, float* C, int M, int N, int K"


def lined(words, head=LAUNCH):
    """A right kernel with one more line, or with this line alone."""
    return source(PLAIN, head=f"{head}// tilewright: {words}\n")


LAUNCHING = START.read_text() + "__device__ void f() { start<<<1, 1>>>(); }"
UNREADABLE = {
    "no file": (None, KernelNotFoundError, "no kernel can be read from .*own.cu: No such file"),
    "no kernel": ("int x;", KernelNotFoundError, "own.cu defines no __global__ function"),
    "several": (TEMPLATE, KernelNotFoundError, "several kernels: name one, as in own.cu:own; there are own, other"),
    "a kernel's launch": (LAUNCHING, ConfigError, "own.cu launches kernels"),
    "no launch": (source(PLAIN, head=""), ConfigError, "how own is launched: write above it\n// tilewright: block="),
    "no grid": (lined("block=32", head=""), ConfigError, "does not say how own is launched"),
    "unknown name": (lined("grid=X"), ConfigError, "grid must be .* nothing is called 'X'"),
    "four": (lined("block=(1,2,3,4)"), ConfigError, "block must have one to three numbers"),
    "two": (lined("tile=(1,2)"), ConfigError, "tile must have three numbers"),
    "no word": (lined("hello"), ConfigError, "own.cu:2: a tilewright line must read NAME=VALUE"),
    "unknown word": (lined("blok=1"), ConfigError, "blok=1 is nothing that own takes: .*; did you mean 'block'"),
    "no number": (lined("BM=a"), ConfigError, "BM=a is nothing that own takes: .*, which are integers, as in BM=64"),
    "layout": (lined("layout=XN"), ConfigError, "layout must be one of"),
    "parameter": (source(f"{PLAIN}, int what"), ConfigError, "nothing says what 'what' is: .*\n// tilewright: args="),
    "args": (lined("args=A,B"), ConfigError, "args must name all 6 parameters of own"),
    "args role": (lined("args=A,B,C,M,N,X"), ConfigError, "args has 'X'"),
    "twice": (lined("args=A,B,C,M,N,N"), ConfigError, "two parameters of own are N"),
    "no pointer": (source(PLAIN.replace("float* B", "float B")), ConfigError, "B of own is B, which must be a pointer"),
    "no C": (source(PLAIN.replace("float* C, ", "")), ConfigError, "no parameter of own is C"),
    "float size": (source(PLAIN.replace("int K", "float K")), ConfigError, "K of own must be an integer"),
    "double": (source(PLAIN.replace("float* A", "double* A")), DtypeError, "A of own points to double"),
    "precision": (lined("precision=fp16x3"), ConfigError, "own.cu: precision must be tf32 or float32, got fp16x3"),
    "halves in TF32": (
        source(PLAIN.replace("float*", "half*"), head=f"{LAUNCH}// tilewright: precision=tf32\n"),
        DtypeError,
        "precision=tf32 is for factors of float32, got float16",
    ),
    "mixed": (source(PLAIN.replace("float* A", "half* A")), DtypeError, "must have one type, got float16 and float32"),
}


@pytest.mark.parametrize(("text", "error", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_called_is_said(tmp_path, text, error, words):
    place = str(tmp_path / "own.cu") if text is None else written(tmp_path, text)
    with pytest.raises(error, match=words):
        from_source(place)


def test_a_file_that_is_no_text_is_said_to_be_none(tmp_path):
    (tmp_path / "own.cu").write_bytes(b"\xff\xfe")
    with pytest.raises(KernelNotFoundError, match=r"no kernel can be read from .*own.cu: it is no text"):
        from_source(str(tmp_path / "own.cu"))


def test_an_unknown_entry_names_the_nearest(tmp_path):
    with pytest.raises(KernelNotFoundError, match=r"own.cu has no kernel 'ohter'; did you mean 'other'"):
        from_source(written(tmp_path, TEMPLATE) + ":ohter")


def test_a_kernel_that_reads_past_the_end_is_seen(tmp_path):
    from tilewright.emulator.check import check  # noqa: PLC0415

    kernel = find(written(tmp_path, source(PLAIN).replace("k < K", "k <= K")))
    problem = Problem(24, 39, 35)
    found = check(kernel, kernel.config(), problem, draw(24, 35), draw(35, 39), np.zeros((24, 39), "f4"))
    assert any(finding.kind == "out of bounds" for finding in found.findings), found.findings


def test_a_grid_that_no_gpu_takes_is_refused(tmp_path):
    pytest.importorskip("cuda.core")
    from tilewright.runtime.cuda_executable import CudaExecutable, _DynamicShared  # noqa: PLC0415

    executable = CudaExecutable.__new__(CudaExecutable)
    executable.kernel = kernel = find(written(tmp_path, source(PLAIN)))
    executable.config = kernel.config()
    executable._room = _DynamicShared(132, 233472, 1024, 232448)
    executable._bundle, executable._spreads, executable.attribute = 1, False, 0
    executable.variant = kernel.variant(Problem(8, 8, 8), executable.config)
    from tilewright.core import gpus  # noqa: PLC0415

    executable._limits = gpus.limits((9, 0))
    assert executable.geometry(Problem(30, 40, 8))[:2] == ((3, 4, 1), (16, 8, 1))
    with pytest.raises(
        LaunchError, match=r"a grid must have 1 to 2147483647 x 65535 x 65535 blocks, got \(1, 131072, 1\)"
    ):
        executable.geometry(Problem(2**20, 1, 1))


BARE = """
template <typename T, int BM, int BN>
__global__ void own(const T* A, const T* B, float* C, int M, int N, int K) {
    const int row = blockIdx.y * BM + threadIdx.x / BN, col = blockIdx.x * BN + threadIdx.x % BN;
    float sum = BIAS;
    for (int k = 0; k < K; ++k) sum += row < M && col < N ? float(A[row * K + k]) * float(B[k * N + col]) : 0;
    if (row < M && col < N) C[row * N + col] = sum;
}
"""
WORDS = {"block": "BM*BN", "grid": ("ceil(N/BN)", "ceil(M/BM)")}


def test_defines_are_macros_and_arguments_of_a_template(tmp_path):
    defines = {"T": "half", "BM": "8:4,8", "BN": 16, "BIAS": "0.0f"}
    kernel = tilewright.Kernel.from_source(f"#include <cuda_fp16.h>\n{BARE}", "own", defines, **WORDS)
    assert kernel.support.factors == ("float16",)
    assert [(one.name, one.default, one.values) for one in kernel.parameters] == [("BM", 8, (4, 8)), ("BN", 16, (16,))]
    config = kernel.config({"BM": 4})
    assert kernel.entry_point(config) == "own<half,4,16>"
    assert kernel.defines(config, kernel.variant(Problem(8, 8, 8), config)) == {"BIAS": "0.0f"}
    product(kernel, dtype="float16", out_dtype="float32")
    assert space.distinct(kernel, space.configs(kernel, None), "NN") == [kernel.config(), config]
    assert other_configs(kernel, kernel.config())[0] == config
    assert pickle.loads(pickle.dumps(kernel)) is kernel
    other = tilewright.Kernel.from_source(f"#include <cuda_fp16.h>\n{BARE}", "own", {**defines, "BN": 32}, **WORDS)
    assert source_digest(other) != source_digest(kernel)


def test_what_defines_leave_out_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing says what BN of own is: .*\n.*\nor give --define BN=16"):
        tilewright.Kernel.from_source(BARE, "", {"T": "float", "BM": 8}, **{**WORDS, "block": 1, "grid": 1})


@pytest.mark.parametrize(
    "alias",
    ["typedef __nv_bfloat16 bf16;", "using bf16 = nv_bfloat16;", "#define bf16 __nv_bfloat16", "using T = bf16;"],
)
def test_types_may_have_names_of_the_source_s_own(alias):
    alias += "typedef  __nv_bfloat16 bf16;" if alias.startswith("using T") else ""
    name = "T" if alias.startswith("using T") else "bf16"
    signature = f"const {name}* A, const {name}* B, float* C, int M, int N, int K"
    kernel = from_source(f"#include <cuda_bf16.h>\n{alias}\n{source(signature)}")
    assert kernel.support.factors == ("bfloat16",)


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("", None),
        ('asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 ...");', "tf32"),
        ('asm("wgmma.mma_async.sync.aligned.m64n%8k8.f32.tf32.tf32 ..." :: "n"(N));', "tf32"),
        ("wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;", "tf32"),
        ('// "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"', None),
        ('asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(to) : "f"(from));', None),
        ("helper();", "tf32"),
        ("void (*pointer)() = helper;", "tf32"),
        ("PASTED(hel, per)();", "tf32"),
        ("MULTIPLY;", "tf32"),
        ("other_helper();", None),
    ],
)
def test_the_precision_is_that_of_the_instructions_that_a_kernel_reaches(text, precision):
    helpers = """#define MULTIPLY asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 ...")
    #define PASTED(a, b) a##b
    __device__ void other_helper() {}
    __device__ void helper() { MULTIPLY; }
    __global__ void another() { MULTIPLY; }
    """
    kernel = from_source(helpers + source(PLAIN).replace("float sum", f"{text}\n    float sum"), "own")
    assert kernel.support.precision == precision
    for said, expected in (("tf32", "tf32"), ("float32", None)):
        assert from_source(kernel.source.read_text(), "own", precision=said).support.precision == expected


HALVES = """// tilewright: block=32 grid=(2*ceil(N/32),M) tile=(1,32,32) cluster=2 shared=128
__global__ void __cluster_dims__(2, 1, 1) own(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ float sums[];
    unsigned rank, at = (unsigned)__cvta_generic_to_shared(&sums[threadIdx.x]);
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const int row = blockIdx.y, col = blockIdx.x / 2 * 32 + threadIdx.x;
    float sum = 0.0f, other;
    for (int k = rank; k < K && col < N; k += 2) sum += A[row * K + k] * B[k * N + col];
    sums[threadIdx.x] = sum;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    if (rank == 0 && col < N) {
        asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %1, 1; ld.shared::cluster.f32 %0, [there]; }"
                     : "=f"(other) : "r"(at));
        C[row * N + col] = sum + other;
    }
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""


@pytest.mark.parametrize("said", ["cluster=2", ""])
def test_blocks_of_a_cluster_have_each_others_memory(tmp_path, said):
    kernel = from_source(written(tmp_path, HALVES.replace("cluster=2", said)))
    assert kernel.cluster(kernel.config()) == 2
    a, b = np.ones((3, 21), "f4"), np.arange(21 * 40, dtype="f4").reshape(21, 40)
    np.testing.assert_array_equal(tilewright.matmul(a, b, kernel=kernel), a @ b)
    with pytest.raises(ConfigError, match="a cluster must have 1 to 8 blocks, got 9"):
        from_source(written(tmp_path, HALVES.replace("cluster=2", "cluster=9"))).config()
    with pytest.raises(ConfigError, match=r"clusters must have blocks along x alone, got 1, 2, 1 of own"):
        from_source(written(tmp_path, HALVES.replace("cluster=2", "").replace("(2, 1, 1)", "(1, 2, 1)")))
