"""The baseline on a GPU: cuBLAS's default, and the best algorithm that cuBLASLt's heuristics offer.

Both compute as the kernels that they are compared with, on the same layouts and element types: float32 without rounding
factors, or in TF32 next to kernels that round to it; float16 and bfloat16 with results in float32 or in the factors'
type. Sums are float32. Neither adds a bias or applies an activation. Of float8 factors there is cuBLASLt alone, which
takes lines along k (NT), with sums promoted to float32 or, next to kernels that do not promote either, by its fast
accumulation; with scales of all or of lines, and none of blocks. Of int8 factors too, with int32 sums and results.
"""

import contextlib
import importlib
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.dtypes import ELEMENT_TYPES, FLOAT8, INT8, RESULTS, SUMS_OF_INT8
from tilewright.core.errors import EngineUnavailableError
from tilewright.core.problem import FAST, Layout, Problem, Scalars
from tilewright.runtime.base import Work
from tilewright.runtime.captured_kernels import captured_kernels
from tilewright.runtime.cuda import CudaEngine
from tilewright.runtime.driver import Allocation
from tilewright.tools.bench.records import LaunchedKernel
from tilewright.tools.bench.verify import limit

DEFAULT, BEST = "cuBLAS", "cuBLASLt"
"""Names of the two works: cublasGemmEx, and the best algorithm of cuBLASLt's heuristics. TF32 has its name added."""

WORKSPACE_BYTES = 64 * 2**20
"""Scratch memory offered to cuBLAS: twice what NVIDIA recommends on Hopper."""

ALGORITHMS = 16
"""How many algorithms cuBLASLt's heuristics are asked for."""

SAMPLES = 3
"""Timed samples of each algorithm, to choose the best."""

AGREEMENT = 5e-5
"""Relative Frobenius distance between two algorithms' results, at most, or twice what the precision allows if that is
more. An algorithm in TF32 where that is not asked for would be off by about 3e-4."""

_SCALE_MODES = {"tensor": 0, "line": 3}
"""CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F and _OUTER_VEC_32F of cublasLtMatmulMatrixScale_t."""
_COMPUTE_32F = 68  # CUBLAS_COMPUTE_32F of cublasComputeType_t: products and sums in float32, never TF32
_COMPUTE_TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32
_COMPUTE_32I = 72  # CUBLAS_COMPUTE_32I: sums of int8 products, and scalars, in int32
_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT of cublasGemmAlgo_t: cuBLAS chooses
_OPERATIONS = {"row": 0, "column": 1}  # CUBLAS_OP_N and CUBLAS_OP_T, for memory that is read by columns

OperandSets = Sequence[Sequence[Any]]
"""A, B and D in the engine's memory, several times, and whatever follows them."""


def _kinds(problem: Problem) -> tuple[int, int, int]:
    """Types of A, B and D, as cuBLAS numbers them."""
    a, b, d = (ELEMENT_TYPES[one].cuda_type for one in (problem.dtype, problem.dtype_b, problem.result))
    return a, b, d


def _compute(precision: str | None) -> int:
    return _COMPUTE_TF32 if precision == "tf32" else _COMPUTE_32F


def gemm_arguments(
    problem: Problem, precision: str | None, pointers: Sequence[int], alpha: int, beta: int
) -> tuple[int, ...]:
    """Arguments of cublasGemmEx after its handle, or of cublasGemmStridedBatchedEx for a batch.

    Args:
        problem: the product.
        precision: 'tf32' to round factors to it.
        pointers: addresses of A, B and D.
        alpha, beta: addresses of the scalars.
    """
    (of_a, of_b, of_d), batched = _kinds(problem), problem.batch != 1

    def operand(pointer: int, kind: int, layout: Layout) -> tuple[int, ...]:
        return (pointer, kind, layout.ld, *([layout.batch_stride or 0] if batched else []))

    a, b, d = pointers
    return (
        *(_OPERATIONS[problem.b.order], _OPERATIONS[problem.a.order], problem.n, problem.m, problem.k, alpha),
        *operand(b, of_b, problem.b),
        *operand(a, of_a, problem.a),
        beta,
        *operand(d, of_d, problem.d),
        *([problem.batch] if batched else []),
        *(_compute(precision), _ALGORITHM),
    )


class CublasBaseline:
    """cuBLAS on an engine's GPU.

    Both libraries store matrices by columns, so they are asked for the transposed product: D^T = B^T A^T, in
    which each row-major operand is its own transpose, and a column-major one is transposed by them.

    Raises:
        EngineUnavailableError: the libraries or their bindings are not installed; the message says how to.
    """

    def __init__(self, engine: CudaEngine) -> None:
        try:
            self._cublas = importlib.import_module("nvmath.bindings.cublas")
            self._lt = importlib.import_module("nvmath.bindings.cublasLt")
            with engine.current:
                self._handle: int = self._cublas.create()
                self._lt_handle: int = self._lt.create()
        except (ImportError, RuntimeError) as error:
            raise EngineUnavailableError(
                f"cuBLAS, the baseline, cannot be loaded: pip install nvmath-python 'nvidia-cublas==13.*'. {error}"
            ) from error
        self._cublas.set_math_mode(self._handle, self._cublas.Math.DEFAULT_MATH)  # no TF32, no emulation
        self.version = ".".join(str(self._cublas.get_property(part)) for part in range(3))
        self._engine = engine
        self._workspace = Allocation(engine.current, WORKSPACE_BYTES)

    def works(
        self, problem: Problem, sets: OperandSets, precision: str | None = None, scalars: Scalars = Scalars()
    ) -> Mapping[str, Work]:
        """Works to time next to a kernel: `DEFAULT` and, where the heuristics offer anything, `BEST`.

        cuBLASLt's algorithms are compared here, on these operands: what is in the sets' C is lost.

        Args:
            problem: the product.
            sets: operands; run i of a work takes set i, counted round.
            precision: 'tf32' to round factors to it; None to take them as they come. Of float8 factors 'fast', for
                sums that stay in tensor cores.

        Returns:
            works by name; none where the product has no elements or no k, or cuBLAS has no such types.
        """
        eight = problem.dtype in (*FLOAT8, *INT8)
        results = RESULTS if problem.dtype in FLOAT8 else (SUMS_OF_INT8,) if eight else ("float32", problem.dtype)
        if problem.is_empty or not problem.k or problem.result not in results or problem.scaling.kind == "blocks":
            return {}
        suffix = f" {precision.upper()}" if precision else ""
        works = {} if eight else {DEFAULT + suffix: self.default(problem, sets, precision, scalars)}
        best = self._best(problem, sets, precision, scalars)
        if best is not None:
            works[BEST + suffix] = best
        return works

    def heuristics(self, problem: Problem, sets: OperandSets, most: int) -> list[Work]:
        """The first of cuBLASLt's algorithms for float32 or 16-bit factors that run, in the order of its heuristics."""
        product = _LtProduct(self._lt, self._lt_handle, self._workspace.pointer, problem, sets, None)
        works = (product.work(algorithm, Scalars()) for algorithm in product.algorithms)
        return list(itertools.islice(filter(self._runs, works), most))

    def kernels(self, work: Work) -> list[LaunchedKernel]:
        """The kernels that cuBLAS chose for one of these works, in the order of their launches.

        Raises:
            LaunchError: the GPU reports an error.
        """
        with self._engine.current:
            found = captured_kernels(work, self._engine.stream)
        return [LaunchedKernel(**kernel._asdict()) for kernel in found]

    def default(self, problem: Problem, sets: OperandSets, precision: str | None, scalars: Scalars = Scalars()) -> Work:
        """cublasGemmEx, which chooses an algorithm by itself; arguments as of `works`."""
        cublas, handle, workspace = self._cublas, self._handle, self._workspace.pointer
        multiply = cublas.gemm_ex if problem.batch == 1 else cublas.gemm_strided_batched_ex
        numbers = _ScalarAddresses(scalars)

        def work(run: int, stream: Any) -> None:
            pointers = [matrix.pointer for matrix in sets[run % len(sets)][:3]]
            cublas.set_stream(handle, int(stream.handle))
            cublas.set_workspace(handle, workspace, WORKSPACE_BYTES)  # set_stream takes it away
            multiply(handle, *gemm_arguments(problem, precision, pointers, numbers.alpha, numbers.beta))

        return work

    def _best(self, problem: Problem, sets: OperandSets, precision: str | None, scalars: Scalars) -> Work | None:
        """The fastest algorithm of cuBLASLt's heuristics that runs and agrees with cublasGemmEx, if that multiplies
        such factors."""
        product = _LtProduct(self._lt, self._lt_handle, self._workspace.pointer, problem, sets, precision)
        algorithms = [algorithm for algorithm in product.algorithms if self._runs(product.work(algorithm, scalars))]
        if not algorithms:
            return None
        works = [product.work(algorithm, scalars) for algorithm in algorithms]
        times = self._engine.time(works, SAMPLES, rotation=len(sets))
        if problem.dtype in (*FLOAT8, *INT8):
            return works[min(range(len(works)), key=lambda index: min(times[index]))]
        expected = self._floats(self.default(problem, sets, precision, Scalars()), sets)
        agreement = max(AGREEMENT, 2 * limit(problem, precision))
        for index in sorted(range(len(works)), key=lambda index: min(times[index])):
            difference = self._floats(product.work(algorithms[index], Scalars()), sets) - expected
            if np.linalg.norm(difference) <= agreement * np.linalg.norm(expected):
                return works[index]
        return None

    def _runs(self, work: Work) -> bool:
        """Whether cuBLASLt takes an algorithm for these operands, as its heuristics say."""
        try:
            with self._engine.current:
                work(0, self._engine.stream)
        except self._lt.cuBLASLtError:
            return False
        return True

    def _floats(self, work: Work, sets: OperandSets) -> NDArray[np.float32]:
        return self.result(work, sets).astype(np.float32, copy=False)

    def result(self, work: Work, sets: OperandSets) -> NDArray[Any]:
        """D of the first set after one run of such a work."""
        with self._engine.current:
            work(0, self._engine.stream)
        return self._engine.download(sets[0][2])


class _ScalarAddresses:
    """Addresses of alpha and beta in host memory."""

    def __init__(self, scalars: Scalars, dtype: str = "float32") -> None:
        self._values = np.array((scalars.alpha, scalars.beta), dtype=dtype)
        self.alpha: int = self._values.ctypes.data
        self.beta = self.alpha + self._values.itemsize


class _LtProduct:
    """cuBLASLt's descriptors of one product, and the algorithms that its heuristics offer for it, best guess first."""

    def __init__(
        self, lt: ModuleType, handle: int, workspace: int, problem: Problem, sets: OperandSets, precision: str | None
    ) -> None:
        self._lt, self._handle, self._workspace, self._sets = lt, handle, workspace, sets
        with contextlib.ExitStack() as created:
            integers = problem.result == SUMS_OF_INT8
            self._number = SUMS_OF_INT8 if integers else "float32"
            compute = _COMPUTE_32I if integers else _compute(precision)
            self._operation = lt.matmul_desc_create(compute, ELEMENT_TYPES[self._number].cuda_type)
            created.callback(lt.matmul_desc_destroy, self._operation)
            of_desc = lt.MatmulDescAttribute
            set_operation = partial(_set, lt.matmul_desc_set_attribute, self._operation)
            set_operation(of_desc.TRANSA, np.int32(_OPERATIONS[problem.b.order]))
            set_operation(of_desc.TRANSB, np.int32(_OPERATIONS[problem.a.order]))
            if precision == FAST:  # sums of float8 products stay in tensor cores
                set_operation(of_desc.FAST_ACCUM, np.int8(1))
            # cuBLASLt's own A is our B. All sets have the same scales.
            for name, scale, index in (("A", problem.scaling.b, 5), ("B", problem.scaling.a, 4)):
                if scale is not None:
                    set_operation(getattr(of_desc, f"{name}_SCALE_POINTER"), np.int64(sets[0][index].pointer))
                    set_operation(getattr(of_desc, f"{name}_SCALE_MODE"), np.int32(_SCALE_MODES[scale.kind]))
            self._layouts = []
            sides = (
                (problem.m, problem.k, problem.a),
                (problem.k, problem.n, problem.b),
                (problem.m, problem.n, problem.d),
            )
            for kind, (rows, cols, place) in zip(_kinds(problem), sides, strict=True):
                lines, length = place.lines(rows, cols)
                layout = lt.matrix_layout_create(kind, length, lines, place.ld)
                created.callback(lt.matrix_layout_destroy, layout)
                self._layouts.append(layout)
                if problem.batch != 1:
                    of_layout = lt.MatrixLayoutAttribute
                    set_layout = partial(_set, lt.matrix_layout_set_attribute, layout)
                    set_layout(of_layout.BATCH_COUNT, np.int32(problem.batch))
                    set_layout(of_layout.STRIDED_BATCH_OFFSET, np.int64(place.batch_stride or 0))
            self.algorithms = self._heuristics()
            weakref.finalize(self, created.pop_all().close).atexit = False

    def work(self, algorithm: NDArray[Any], scalars: Scalars) -> Work:
        """The product by one algorithm."""
        lt, handle, workspace = self._lt, self._handle, self._workspace
        numbers = _ScalarAddresses(scalars, self._number)
        layout_a, layout_b, layout_c = self._layouts

        def work(run: int, stream: Any) -> None:
            a, b, c = self._sets[run % len(self._sets)][:3]
            lt.matmul(
                *(handle, self._operation, numbers.alpha, b.pointer, layout_b, a.pointer, layout_a),
                *(numbers.beta, c.pointer, layout_c, c.pointer, layout_c),
                *(algorithm.ctypes.data, workspace, WORKSPACE_BYTES, int(stream.handle)),
            )

        return work

    def _heuristics(self) -> list[NDArray[Any]]:
        lt = self._lt
        attributes = lt.MatmulPreferenceAttribute
        wishes: dict[Any, Any] = {attributes.MAX_WORKSPACE_BYTES: np.uint64(WORKSPACE_BYTES)}
        # cuBLASLt's own A is our B; it takes 256 bytes for granted unless it is told.
        a, b, c = (np.uint32(_alignment([operands[i].pointer for operands in self._sets])) for i in range(3))
        wishes |= {attributes.MIN_ALIGNMENT_A_BYTES: b, attributes.MIN_ALIGNMENT_B_BYTES: a}
        wishes |= {attributes.MIN_ALIGNMENT_C_BYTES: c, attributes.MIN_ALIGNMENT_D_BYTES: c}
        results = np.zeros(ALGORITHMS, dtype=lt.matmul_heuristic_result_dtype)
        count = np.zeros(1, dtype=np.int32)
        layout_a, layout_b, layout_c = self._layouts
        preference = lt.matmul_preference_create()
        try:
            for attribute, value in wishes.items():
                _set(lt.matmul_preference_set_attribute, preference, attribute, value)
            lt.matmul_algo_get_heuristic(
                *(self._handle, self._operation, layout_b, layout_a, layout_c, layout_c),
                *(preference, ALGORITHMS, results.ctypes.data, count.ctypes.data),
            )
        except lt.cuBLASLtError:  # it offers none
            return []
        finally:
            lt.matmul_preference_destroy(preference)
        return [results["algo"][i : i + 1] for i in range(count[0]) if results["state"][i] == 0]


def _set(setter: Callable[..., None], of: int, attribute: Any, value: np.generic) -> None:
    """Set an attribute of a descriptor to a number of NumPy's type."""
    buffer = np.array([value])
    setter(of, attribute, buffer.ctypes.data, buffer.nbytes)


def _alignment(pointers: Sequence[int]) -> int:
    """Bytes that all of these addresses are multiples of, 256 at most."""
    return min(256, *(pointer & -pointer for pointer in pointers))
