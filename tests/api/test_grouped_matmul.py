"""grouped_matmul(): arrays of several libraries, on the host and where the emulator stands in for a GPU."""

import sys
from importlib import import_module

import ml_dtypes  # noqa: F401 - teaches NumPy the names of float8
import numpy as np
import pytest

import tilewright
from stand_ins import CuPyArray, Exporter, JaxArray, Tensor, cupy_module, torch_module
from tilewright import ArrayError, ConfigError, DtypeError, grouped_matmul
from tilewright.api import gpu as on_gpu
from tilewright.core.dtypes import FLOAT8
from tilewright.core.problem import Arithmetic, Problem
from tilewright.emulator.engine import EmulatorEngine
from tilewright.kernels.library.grouped_sm90 import FP8, KERNEL
from tilewright.select.selector import expected_of_groups, select

calls = import_module("tilewright.api.call")
CONFIG = {"BM": 64, "BN": 32, "STAGES": 2, "PINGPONG": 1, "GROUP_M": 2}
ROWS, REST, N, K = (5, 0, 70, 1, 60), 3, 40, 72
END = sum(ROWS)
ENDS = np.cumsum(ROWS).astype(np.int32)
STREAM = 4096


def draw(*shape, dtype="float16"):
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


A, B = draw(END + REST, K), draw(len(ROWS), K, N)


def exact(a=A, b=B, ends=ENDS):
    parts = np.split(a.astype("f8"), ends)[:-1]
    return np.concatenate([rows @ matrix.astype("f8") for rows, matrix in zip(parts, b, strict=True)])


def check(result, reference=None, tolerance=2e-3):
    reference = exact() if reference is None else reference
    np.testing.assert_allclose(result[: len(reference)].astype("f8"), reference, rtol=tolerance, atol=10 * tolerance)


class Gpu(EmulatorEngine):
    """An H200 whose kernels the emulator runs; it notes what it is asked for."""

    capability = (9, 0)

    def __init__(self):
        super().__init__()
        self.device_name, self.planned, self.streams = "NVIDIA H200", [], []

    def plan(self, *arguments, **named):
        self.planned.append(super().plan(*arguments, **named))
        return self.planned[-1]

    def start(self, plan, pointers, scalars, stream):
        self.streams.append(stream)
        super().start(plan, pointers, scalars)


@pytest.fixture
def gpu(monkeypatch):
    engine = Gpu()
    monkeypatch.setattr(calls, "_gpu", lambda device: engine)
    torch = torch_module(STREAM)
    torch.int32 = "torch.int32"
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy_module(STREAM))
    monkeypatch.setattr(CuPyArray, "view", lambda self, dtype: CuPyArray(self.values.view(dtype)), raising=False)
    return engine


def tensor(values):
    return Tensor(values, "cuda:0")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr("tilewright.api.call.cuda_unavailable", lambda: "a test says so")


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("dtype", "named"), [("float16", {}), ("bfloat16", {}), ("bfloat16", {"engine": "emulator"})], ids=str
)
def test_arrays_of_numpy_are_multiplied_without_a_gpu(dtype, named):
    a, b = A.astype(dtype), B.astype(dtype)
    for out_dtype in (None, "float32"):
        result = grouped_matmul(a, b, ENDS, out_dtype=out_dtype, **named)
        assert (result.shape, result.dtype) == ((END + REST, N), out_dtype or dtype)
        check(result, exact(a, b), 2e-3 if out_dtype or dtype == "float16" else 1e-2)


@pytest.mark.parametrize("named", [{}, {"engine": "emulator", "config": CONFIG}], ids=str)
def test_out_keeps_the_rows_that_belong_to_no_group(named):
    whole = np.full((END + REST, N + 5), -3, np.float16)
    out = whole[:, :N]
    assert grouped_matmul(A, B, ENDS, out=out, **named) is out
    check(out)
    assert (out[END:] == -3).all()
    assert (whole[:, N:] == -3).all()


@pytest.mark.parametrize(
    "sizes", [((0,) * 5, 0, N, K), ((0,) * 5, 3, N, K), (ROWS, 0, 0, K), ((), 3, N, K), (ROWS, 0, N, 0)], ids=str
)
@pytest.mark.parametrize("named", [{}, {"engine": "emulator", "config": CONFIG}], ids=str)
def test_any_size_may_be_0(sizes, named):
    rows, rest, n, k = sizes
    out = np.full((sum(rows) + rest, n), -3, np.float16)
    ends = np.cumsum(rows).astype(np.int32)
    grouped_matmul(draw(sum(rows) + rest, k), draw(len(rows), k, n), ends, out=out, **named)
    assert (out[sum(rows) :] == -3).all()
    if k == 0:
        assert not out.any()


@pytest.mark.parametrize("make", [tensor, CuPyArray])
def test_arrays_on_a_gpu_are_multiplied_there_on_the_current_stream(gpu, make):
    result = grouped_matmul(make(A), make(B), make(ENDS), config=CONFIG)
    assert type(result) is type(make(A))
    check(result.values)
    assert gpu.streams == [STREAM]
    again = grouped_matmul(make(A), make(B), make(ENDS), out=result, config="BM=64,BN=32,STAGES=2,PINGPONG=1,GROUP_M=2")
    assert again is result
    grouped_matmul(make(A), make(B), make(ENDS), out=result, config=CONFIG)
    assert len(gpu.planned) == 2, "a plan is made once for arrays of a kind"
    check(grouped_matmul(make(A), make(B), make(ENDS), out_dtype="float32", config=CONFIG).values, tolerance=2e-5)


class Launcher:
    """Stands in for the compiled one: knows the calls that it was told to remember, by their options."""

    def __init__(self):
        self.remembered, self.calls = {}, []

    def remember(self, *arrays, **named):
        *_, key = arrays
        self.remembered[key] = arrays, named

    def call(self, *arguments):
        self.calls.append(arguments)
        return "launched" if arguments[-1] in self.remembered else on_gpu.miss


def test_the_compiled_launcher_answers_calls_that_it_knows(gpu, monkeypatch):
    known = Launcher()
    monkeypatch.setattr(on_gpu, "fast", known)
    gpu.name, gpu.context, gpu.workspace = "cuda", 7, None
    a, b, offsets = tensor(A), tensor(B), tensor(ENDS)
    for count in (2, 3):
        assert grouped_matmul(a, b, offsets, out_dtype="float32") == "launched"
        assert known.calls[-1] == (a, b, None, None, offsets, 1.0, 0.0, ("grouped", "float32"))
        assert len(known.calls) == count
    (arrays, named) = known.remembered["grouped", "float32"]
    assert arrays == (a, b, None, None, offsets, ("grouped", "float32"))
    assert (named["steps"], named["context"], named["scaled"]) == (gpu.planned[0].steps, 7, False)
    make, (shape, strides), _ = named["new"]
    assert (make, shape, strides) == (sys.modules["torch"].empty_strided, (END + REST, N), (N, 1))
    assert gpu.streams == []


def test_what_it_cannot_launch_is_launched_from_python(gpu, monkeypatch):
    """A config that is named, and arrays that are copied first."""
    known = Launcher()
    monkeypatch.setattr(on_gpu, "fast", known)
    gpu.name, gpu.context, gpu.workspace = "cuda", 7, None
    check(grouped_matmul(tensor(A), tensor(B), tensor(ENDS), config=CONFIG).values)
    assert known.calls == []
    check(grouped_matmul(tensor(ORDERS["a with steps"][0]), tensor(B), tensor(ENDS)).values)
    assert known.remembered == {}
    assert len(gpu.streams) == 2


E4M3, E5M2 = FLOAT8
SCALES = {
    "lines": (np.random.default_rng(1).uniform(0.5, 2, (END + REST, 1)), draw(len(ROWS), N) + 4),
    "one": (np.full(1, 0.25), np.full((1, 1), 3.0)),
    "a line, and one of each group": (np.random.default_rng(2).uniform(0.5, 2, END + REST), draw(len(ROWS), 1) + 4),
    "of b alone": (None, np.asfortranarray(draw(len(ROWS), N) + 4)),
    "none": (None, None),
}
FLOAT8_CONFIG = {"BM": 64, "BN": 32, "STAGES": 2, "PINGPONG": 1, "CLUSTER_M": 2, "GROUP_M": 2}


@pytest.mark.first(3)
@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("named", [{}, {"engine": "emulator", "config": FLOAT8_CONFIG}], ids=str)
def test_float8_has_scales_of_rows_and_of_each_groups_columns(name, named):
    of_a, of_b = (None if one is None else one.astype("f4", order="K") for one in SCALES[name])
    a, b = draw(END + REST, 200).astype(E4M3), draw(len(ROWS), 200, N).astype(E5M2)
    wide_a = a.astype("f4") * (1 if of_a is None else of_a.reshape(-1, 1))
    wide_b = b.astype("f4") * (1 if of_b is None else of_b.reshape(len(of_b), 1, -1))
    for out_dtype in ("float32", "bfloat16", E4M3):
        result = grouped_matmul(a, b, ENDS, scale_a=of_a, scale_b=of_b, out_dtype=out_dtype, **named)
        assert result.dtype == out_dtype
        expected = np.clip(exact(wide_a, wide_b), *((-448, 448) if out_dtype == E4M3 else (None, None)))
        error = np.linalg.norm(result[:END].astype("f8") - expected) / np.linalg.norm(expected)
        assert error < {"float32": 2e-4, "bfloat16": 2.5e-3, E4M3: 0.03}[out_dtype]
    assert grouped_matmul(a, b, ENDS, **named).dtype == np.float32


def test_scales_of_arrays_on_a_gpu_are_read_there(gpu, monkeypatch):
    """From Python, which gives the kernel their addresses; the compiled launcher is not asked."""
    known = Launcher()
    monkeypatch.setattr(on_gpu, "fast", known)
    a, b = draw(END + REST, 192).astype(E4M3), draw(len(ROWS), N, 192).astype(E4M3)
    of_a, of_b = (one.astype("f4") for one in SCALES["lines"])
    a_there, b_there, ends, *scales = map(CuPyArray, (a, b.swapaxes(1, 2), ENDS, of_a, of_b))
    result = grouped_matmul(a_there, b_there, ends, scale_a=scales[0], scale_b=scales[1], config=FLOAT8_CONFIG)
    wide = exact(a.astype("f4") * of_a, b.swapaxes(1, 2).astype("f4") * of_b[:, np.newaxis])
    assert np.linalg.norm(result.values[:END] - wide) / np.linalg.norm(wide) < 2e-4
    plain, wide = grouped_matmul(a_there, b_there, ends, config=FLOAT8_CONFIG), exact(a, b.swapaxes(1, 2))
    assert np.linalg.norm(plain.values[:END] - wide) / np.linalg.norm(wide) < 2e-4
    assert known.calls == []


def test_what_is_picked_for_float8():
    def picked(m, groups=8):
        problem = Problem(m, 4096, 4096, Arithmetic(E4M3, "bfloat16"), groups, grouped=True)
        return select(problem, (9, 0), "NVIDIA H100 80GB HBM3")[1]

    assert picked(64).BM == 64
    assert picked(65536).BM >= 128
    assert picked(64) in [FP8.config(), *map(FP8.config, FP8.presets.values())]
    with pytest.raises(ConfigError, match=r"grouped_fp8 runs on GPUs of compute capability 9.0 alone"):
        select(Problem(64, 64, 64, Arithmetic(E4M3), 2, grouped=True), (8, 9))


FLOAT8_REFUSED = {
    "lines of another length": (
        {"scale_a": np.ones((3, 1), "f4")},
        ArrayError,
        "scale_a must have 1 element, or be of 139 x 1",
    ),
    "another number of groups": (
        {"scale_b": np.ones((4, N), "f4")},
        ArrayError,
        "scale_b must have 1 element, or be of 5 x 40 or 5 x 1, got shape (4, 40)",
    ),
    "another type": (
        {"scale_b": np.ones((5, N), "f2")},
        DtypeError,
        "scale_b must have element type float32, got float16",
    ),
    "16 bits": (
        {"a": A, "b": B, "scale_a": np.ones(1, "f4")},
        DtypeError,
        "scale_a is for factors of float8_e4m3fn, float8_e5m2",
    ),
    "mixed with 16 bits": ({"a": A}, DtypeError, "b must have the element type of a: got float8_e4m3fn, and float16"),
    "no such result": (
        {"out_dtype": E5M2},
        DtypeError,
        "out_dtype must be one of float32, float16, bfloat16, float8_e4m3fn",
    ),
    "16 bits in float8": (
        {"a": A, "b": B, "out_dtype": E4M3},
        DtypeError,
        "out_dtype must be one of float32, float16, bfloat16, got",
    ),
    "a config": ({"config": {"BN": 256}}, ConfigError, "and BN/2 together must be at most 192"),
}


@pytest.mark.parametrize("case", FLOAT8_REFUSED)
def test_scales_that_do_not_fit_are_refused_in_words(case):
    arguments, error, words = FLOAT8_REFUSED[case]
    with pytest.raises(error) as caught:
        grouped_matmul(**{"a": A.astype(E4M3), "b": B.astype(E4M3), "offsets": ENDS, **arguments})
    assert words in str(caught.value)


ORDERS = {
    "column-major b": (A, np.ascontiguousarray(B.swapaxes(1, 2)).swapaxes(1, 2), 1),
    "column-major a": (np.asfortranarray(A), B, 2),
    "rows of a that are not aligned": (np.pad(A, ((0, 0), (0, 1)))[:, :K], B, 2),
    "a with steps": (np.repeat(A, 2, axis=1)[:, ::2], B, 1),
    "b with steps": (A, np.repeat(B, 2, axis=2)[:, :, ::2], 1),
}


@pytest.mark.first(2)
@pytest.mark.parametrize("name", ORDERS)
def test_factors_lie_in_any_order(gpu, name):
    """Launches: those that no layout describes are copied by their library, others by a launch before."""
    a, b, launches = ORDERS[name]
    check(grouped_matmul(tensor(a), tensor(b), tensor(ENDS), config=CONFIG).values)
    assert len(gpu.planned[-1].steps) == launches


def test_what_is_picked_follows_the_mean_of_rows():
    def picked(m, n=4096, k=4096, groups=8):
        problem = Problem(m, n, k, Arithmetic("bfloat16", "bfloat16"), groups, grouped=True)
        return select(problem, (9, 0), "NVIDIA H200")[1]

    assert picked(64).BM == 64
    assert picked(65536).BM >= 128
    assert picked(65536, groups=4096).BM == 64
    assert picked(0, groups=0) in [KERNEL.config(), *map(KERNEL.config, KERNEL.presets.values())]
    with pytest.raises(ConfigError, match=r"compute capability 9\.0 alone"):
        select(Problem(64, 64, 64, "bfloat16", 2, grouped=True), (8, 0), "NVIDIA A100")


def test_a_group_is_expected_to_end_within_a_row_of_tiles():
    problem = Problem(1000, 64, 64, "bfloat16", 10, grouped=True)
    assert expected_of_groups(problem, 128).m == 10 * (100 + 64)
    assert expected_of_groups(Problem(50, 64, 64, "bfloat16", 10, grouped=True), 128).m == 10 * 128
    assert expected_of_groups(Problem(5, 64, 64, "bfloat16", 10, grouped=True), 128).m == 5 * 128
    assert expected_of_groups(problem, 128).b_bytes == 2 * 10 * 64 * 64


WRONG = {
    "a is a vector": ({"a": A[0]}, ArrayError, r"a must be a matrix .* got shape \(72,\)"),
    "b is a matrix": ({"b": B[0]}, ArrayError, r"b must be a batch of matrices, .* got shape \(72, 40\)"),
    "k differs": ({"a": A[:, 1:]}, ArrayError, "b must have 71 rows in each matrix"),
    "too few offsets": ({"offsets": ENDS[1:]}, ArrayError, r"offsets must be 5 numbers, .* got shape \(4,\)"),
    "offsets of 64 bits": ({"offsets": ENDS.astype(np.int64)}, DtypeError, "offsets must have element type int32, got"),
    "offsets apart": ({"offsets": np.repeat(ENDS, 2)[::2]}, ArrayError, "offsets must be neighbours, .* got 8 bytes"),
    "a matrix of offsets": ({"offsets": ENDS[None]}, ArrayError, r"offsets must be a vector, got shape \(1, 5\)"),
    "offsets decrease": ({"offsets": ENDS[::-1].copy()}, ArrayError, "offsets must not decrease from 0 on, got 76"),
    "below 0": ({"offsets": ENDS - 6}, ArrayError, "offsets must not decrease from 0 on, got -1 after 0"),
    "past the rows": ({"offsets": ENDS + 4}, ArrayError, "offsets must be at most 139, the rows of a, got 140"),
    "float32": ({"a": A.astype("f4"), "b": B.astype("f4")}, DtypeError, "a has element type float32; grouped_matmul"),
    "types differ": ({"b": B.astype("bfloat16")}, DtypeError, "b must have the element type of a: got bfloat16"),
    "libraries differ": ({"b": JaxArray(B)}, ArrayError, "b must be of the same library as a"),
    "out's shape": ({"out": np.empty((END, N), "f2")}, ArrayError, r"out must be 139 x 40, got shape \(136, 40\)"),
    "out's type": ({"out": np.empty((END + REST, N), "f4"), "out_dtype": "float16"}, DtypeError, "out must have the"),
    "out is a": ({"a": A[:, :N], "b": B[:, :N], "out": A[:, :N]}, ArrayError, "out must not overlap a in memory"),
    "no config": ({"config": {"BM": 8}}, ConfigError, "grouped_sm90 cannot run with .* BM must be"),
    "no parameter": ({"config": "SPLITS=2"}, ConfigError, "grouped_sm90 has no parameter 'SPLITS'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_said_before_anything_is_launched(name):
    changed, error, words = WRONG[name]
    with pytest.raises(error, match=words):
        grouped_matmul(**{"a": A, "b": B, "offsets": ENDS, **changed})


def test_an_out_on_a_gpu_must_have_rows_of_neighbours(gpu):
    out = tensor(np.empty((N, END + REST), np.float16).T)
    with pytest.raises(ArrayError, match="out must have rows whose elements are neighbours"):
        grouped_matmul(tensor(A), tensor(B), tensor(ENDS), out=out, config=CONFIG)
    with pytest.raises(ArrayError, match="offsets must lie where a does: got the host, and GPU 0 for a"):
        grouped_matmul(tensor(A), tensor(B), Tensor(ENDS))
    assert gpu.streams == []


@pytest.mark.parametrize("make", [JaxArray, Exporter])
def test_offsets_of_a_library_that_cannot_show_them_are_refused(make):
    with pytest.raises(ArrayError, match="offsets must be an array of NumPy, PyTorch or CuPy, got"):
        grouped_matmul(make(A), make(B), make(ENDS))


def test_arrays_that_jax_holds_on_its_gpu_are_refused(monkeypatch):
    monkeypatch.setattr(JaxArray, "devices", lambda self: [type("Device", (), {"platform": "gpu"})()])
    with pytest.raises(ArrayError, match="grouped_matmul takes no arrays that JAX traces or that lie on its GPU"):
        grouped_matmul(JaxArray(A), JaxArray(B), JaxArray(ENDS))


def test_it_is_public():
    assert tilewright.grouped_matmul is grouped_matmul
    assert "grouped_matmul" in tilewright.__all__
