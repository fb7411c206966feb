"""Rungs 13 and 14 on a real GPU, matrix fragments as their model has them, and cuBLAS in the same arithmetic."""

import numpy as np
import pytest

import tilewright
from this_gpu import CAPABILITY
from tilewright.core.errors import DtypeError
from tilewright.core.problem import Layout, Problem, Scalars
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels import find
from tilewright.kernels.kernel import Choice, Kernel, Tile
from tilewright.kernels.support import Support
from tilewright.runtime.base import run
from tilewright.tools.bench.cublas import BEST, DEFAULT, CublasBaseline
from tilewright.tools.bench.run import bench
from tilewright.tools.bench.verify import Operands, limit

RUNGS = [
    (kernel, dtype, preset)
    for kernel in (find("wmma_tf32"), find("wmma_f16"))
    for dtype in kernel.support.factors
    for preset in ("", *kernel.presets)
    if kernel.support.capability_for(dtype) <= CAPABILITY
]
HAS_TF32 = [()] if CAPABILITY >= (8, 0) else []

SHAPES = [(1, 1, 1), (17, 1, 5), (64, 64, 0), (128, 256, 64), (127, 129, 131), (777, 333, 500), (1024, 1024, 1024)]

FRAGMENTS = """
#include <ptx/wmma.cuh>
extern "C" __global__ void fragments(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                                     float beta, float* C, int ldc) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sums;
    wmma::load_matrix_sync(a, A, lda);
    wmma::load_matrix_sync(b, B, ldb);
    if (alpha == 2) {
        for (int i = 0; i < a.num_elements; ++i) a.x[i] = wmma::__float_to_tf32(a.x[i]);
    }
    wmma::fill_fragment(sums, 0.0f);
    wmma::mma_sync(sums, a, b, sums);
    wmma::store_matrix_sync(C, sums, ldc, wmma::mem_row_major);
}
"""


@pytest.mark.parametrize(("kernel", "dtype", "preset"), RUNGS, ids=lambda value: getattr(value, "name", value))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("alpha", "beta", "gap"), [(1.0, 0.0, 0), (-0.5, 2.0, 3)])
def test_a_product_is_right(engine, kernel, dtype, preset, shape, alpha, beta, gap):
    m, n, k = shape
    a, b, d = (Layout(ld=max(length, 1) + gap) for length in (k, n, n))
    problem, scalars = Problem(m, n, k, dtype, a=a, b=b, d=d), Scalars(alpha, beta)
    operands = Operands.draw(problem, scalars)
    lds = (problem.a.ld, problem.b.ld, problem.d.ld)
    a, b, c = (engine.upload(array, ld) for array, ld in zip((operands.a, operands.b, operands.c), lds, strict=True))
    run(engine, kernel, kernel.config(kernel.preset(preset) if preset else {}), problem, a, b, c, scalars)
    assert operands.error(engine.download(c)) <= limit(problem, kernel.support.precision)


@pytest.mark.parametrize((), HAS_TF32)
@pytest.mark.parametrize("rounds", [False, True])
def test_fragments_are_cut_off_and_rounded_as_in_the_model(engine, tmp_path, rounds):
    source = tmp_path / "fragments.cu"
    source.write_text(FRAGMENTS)
    kernel = Kernel(
        rung=0, name=f"fragments {tmp_path.name}", idea="", source=source, parameters=(),
        support=Support(vectorized=False), tile=lambda _: Tile(16, 16, 8), block=lambda _: (32, 1, 1),
    )  # fmt: skip
    random = np.random.default_rng(0)
    values = random.standard_normal((16, 8), np.float32)
    values[0] = (values[0].view(np.uint32) & 0xFFFFE000 | 0x1000).view(np.float32)  # ties
    problem, scalars = Problem(16, 16, 8), Scalars(alpha=2.0 if rounds else 1.0)
    results = []
    for where in (engine, EmulatorEngine()):
        out = where.upload(np.full((16, 16), np.nan, np.float32))
        one = where.upload(np.eye(8, 16, dtype=np.float32))
        run(where, kernel, kernel.config(), problem, where.upload(values), one, out, scalars)
        results.append(where.download(out))
    np.testing.assert_array_equal(*results)


@pytest.fixture(scope="module")
def baseline(engine):
    pytest.importorskip("nvmath.bindings.cublas", reason="pip install nvmath-python nvidia-cublas")
    return CublasBaseline(engine)


@pytest.mark.parametrize(("kernel", "dtype", "preset"), RUNGS, ids=lambda value: getattr(value, "name", value))
@pytest.mark.parametrize("shape", [(512, 512, 512), (1000, 300, 777), (33, 65, 17)], ids=str)
def test_cublas_computes_as_the_kernel_next_to_it(engine, baseline, kernel, dtype, preset, shape):
    problem, scalars = Problem(*shape, dtype), Scalars(-1.5, 0.5)
    operands = Operands.draw(problem, scalars)
    sets = [tuple(map(engine.upload, (operands.a, operands.b, operands.c)))]
    works = baseline.works(problem, sets, kernel.support.precision, scalars)
    suffix = " TF32" if kernel.support.precision else ""
    assert DEFAULT + suffix in works
    assert set(works) <= {DEFAULT + suffix, BEST + suffix}
    for work in works.values():
        fresh = engine.upload(operands.c)
        sets[0] = (*sets[0][:2], fresh)
        with engine.current:
            work(0, engine.stream)
        error = operands.error(engine.download(fresh))
        assert error <= limit(problem, kernel.support.precision)


@pytest.mark.parametrize((), HAS_TF32)
def test_each_kernel_is_compared_in_its_own_precision(engine, baseline):
    choices = [Choice(find(name), find(name).config()) for name in ("wmma_tf32", "warptiled")]
    ((rounding, exact),) = bench(engine, [(choices, Problem(2048, 2048, 2048))], samples=3, library=baseline)
    assert rounding.verified and exact.verified
    assert rounding.baseline.name.endswith(" TF32") and not exact.baseline.name.endswith(" TF32")
    assert rounding.baseline.gflops > 2 * exact.baseline.gflops, "tensor cores are faster than that"
    assert rounding.gflops > exact.gflops


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"] if CAPABILITY >= (8, 0) else ["float16"])
def test_halves_of_pytorch_and_numpy_are_multiplied_on_the_gpu(dtype):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    a, b = (
        torch.from_numpy(random.standard_normal((200, 200), np.float32)).cuda().to(getattr(torch, dtype)) for _ in "ab"
    )
    expected = a.double() @ b.double()
    result = tilewright.matmul(a, b.T.contiguous().T)
    assert (result.dtype, result.device) == (a.dtype, a.device)
    assert float((result - expected).norm()) <= {"float16": 5e-4, "bfloat16": 4e-3}[dtype] * float(expected.norm())
    exact = tilewright.matmul(a, b.T.contiguous().T, out_dtype="float32")
    assert float((exact - expected).norm()) <= 1e-5 * float(expected.norm())
    host = tilewright.matmul(a.cpu(), b.cpu(), out_dtype="float32")
    assert float((host - expected.cpu()).norm()) <= 1e-5 * float(expected.norm())
    with pytest.raises(DtypeError, match="b must have the element type of a"):
        tilewright.matmul(a, b.float())
