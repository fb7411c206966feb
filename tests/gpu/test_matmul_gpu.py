"""matmul() on a GPU: arrays of every library, the streams they are on, and what a call costs the host."""

import gc
import math
import time
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from cuda.bindings import driver

import tilewright
from tilewright import ArrayError, DtypeError
from tilewright.api import gpu as on_gpu
from tilewright.core.dtypes import FLOAT8
from tilewright.kernels import KERNELS
from tilewright.runtime.driver import check as check_driver

pytestmark = pytest.mark.gpu

SPIN = 200_000_000
"""Clock cycles that a stream is kept busy for: a tenth of a second or so."""


def draw(rows, cols, seed=0):
    return np.random.default_rng([seed, rows, cols]).standard_normal((rows, cols), np.float32)


def reference(a, b, alpha=1.0, beta=0.0, c=None):
    result = alpha * (a.astype(np.float64) @ b.astype(np.float64))
    return result + beta * c if beta else result


def check(result, expected, tolerance=1e-5):
    assert result.dtype == np.float32
    assert result.shape == expected.shape
    assert np.linalg.norm(result - expected) <= tolerance * np.linalg.norm(expected)


def torch_library():
    torch = pytest.importorskip("torch")
    return SimpleNamespace(
        put=lambda values: torch.from_numpy(values).cuda(),
        get=lambda array: array.cpu().numpy(),
        kind=torch.Tensor,
        writable=True,
    )


def cupy_library():
    cupy = pytest.importorskip("cupy")
    return SimpleNamespace(put=cupy.asarray, get=cupy.asnumpy, kind=cupy.ndarray, writable=True)


def jax_library():
    jax = pytest.importorskip("jax")
    gpus = [device for device in jax.devices() if device.platform == "gpu"]
    if not gpus:
        pytest.skip("this JAX sees no GPU")
    return SimpleNamespace(
        put=lambda values: jax.device_put(values, gpus[0]), get=np.asarray, kind=jax.Array, writable=False
    )


@pytest.fixture(params=[torch_library, cupy_library, jax_library], ids=["torch", "cupy", "jax"])
def library(request):
    return request.param()


@pytest.fixture(params=[torch_library, cupy_library], ids=["torch", "cupy"])
def writable(request):
    return request.param()


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (64, 64, 64), (100, 37, 61), (512, 512, 512), (1031, 257, 509), (2048,) * 3]
)
def test_arrays_of_every_library(library, sizes):
    m, n, k = sizes
    a, b, c = draw(m, k), draw(k, n), draw(m, n)
    result = tilewright.matmul(library.put(a), library.put(b))
    assert isinstance(result, library.kind)
    check(library.get(result), reference(a, b))
    result = tilewright.matmul(library.put(a), library.put(b), c=library.put(c), alpha=0.5, beta=-2)
    check(library.get(result), reference(a, b, 0.5, -2, c))


PLAIN = [one for one in KERNELS if "float32" in one.support.results and not set(FLOAT8) & set(one.support.factors)]
"""Kernels of element types that every library has."""


@pytest.mark.parametrize("kernel", PLAIN, ids=lambda one: one.name)
def test_every_kernel(library, kernel):
    a, b = (factor.astype(kernel.support.factors[0]) for factor in (draw(130, 67), draw(67, 141)))
    result = library.get(tilewright.matmul(library.put(a), library.put(b), kernel=kernel.name, out_dtype="float32"))
    check(result, reference(a, b), 1e-3 if kernel.support.precision else 1e-5)


@pytest.mark.parametrize("sizes", [(0, 3, 5), (4, 0, 5), (4, 3, 0), (0, 0, 0)])
def test_empty_matrices(library, sizes):
    m, n, k = sizes
    a, b, c = library.put(draw(m, k)), library.put(draw(k, n)), draw(m, n)
    result = library.get(tilewright.matmul(a, b, c=library.put(c), beta=2))
    assert result.shape == (m, n)
    check(result, 2 * c)


def test_nan_in_c_does_not_survive_where_beta_is_zero(library):
    a, b = draw(65, 33), draw(33, 129)
    nothing = library.put(np.full((65, 129), np.nan, np.float32))
    check(library.get(tilewright.matmul(library.put(a), library.put(b), c=nothing)), reference(a, b))


def test_out_and_in_place(writable):
    a, b, c = draw(65, 33), draw(33, 129), draw(65, 129)
    out = writable.put(c)
    arguments = (writable.put(a), writable.put(b))
    assert tilewright.matmul(*arguments, c=out, out=out, beta=0.5) is out
    check(writable.get(out), reference(a, b, 1.0, 0.5, c))
    assert tilewright.matmul(*arguments, out=out) is out
    check(writable.get(out), reference(a, b))


def test_jax_arrays_cannot_be_written():
    array = jax_library().put(draw(3, 3))
    with pytest.raises(ArrayError, match="out must be an array that can be written"):
        tilewright.matmul(array, array, out=array)


def test_slices_and_other_layouts(library):
    whole = draw(300, 400)
    pieces = {
        "slices": (slice(1, 66), slice(3, 36), slice(70, 103), slice(5, 134)),
        "aligned slices": (slice(0, 64), slice(4, 36), slice(64, 96), slice(8, 136)),
        "steps": (slice(0, 130, 2), slice(0, 66, 2), slice(100, 133), slice(0, 258, 2)),
    }
    for rows, depth, depth_again, cols in pieces.values():
        a, b = whole[rows, depth], whole[depth_again, cols]
        on_gpu = library.put(whole)
        result = tilewright.matmul(on_gpu[rows, depth], on_gpu[depth_again, cols])
        check(library.get(result), reference(a, b))
        result = tilewright.matmul(on_gpu[depth_again, cols].T, on_gpu[rows, depth].T)
        check(library.get(result), reference(b.T, a.T))


def test_out_of_any_layout(writable):
    a, b, c = draw(65, 33), draw(33, 129), draw(65, 129)
    whole = writable.put(np.zeros((80, 140), np.float32))
    out = whole[7:72, 3:132]
    tilewright.matmul(writable.put(a), writable.put(b), out=out)
    check(writable.get(out), reference(a, b))
    assert np.count_nonzero(writable.get(whole)) == 65 * 129
    by_columns = writable.put(np.zeros((129, 65), np.float32)).T
    assert tilewright.matmul(writable.put(a), writable.put(b), c=writable.put(c), beta=1, out=by_columns) is by_columns
    check(writable.get(by_columns), reference(a, b, 1.0, 1.0, c))


def test_element_types_are_refused(library):
    with pytest.raises(DtypeError, match="a has element type int32; matmul takes float32"):
        tilewright.matmul(library.put(np.ones((3, 3), np.int32)), library.put(draw(3, 3)))


def test_arrays_on_the_host_and_a_gpu_are_refused(writable):
    with pytest.raises(ArrayError, match="b must be of the same library as a and lie on the same device"):
        tilewright.matmul(writable.put(draw(3, 3)), draw(3, 3))


def test_arrays_of_numpy_are_constants_to_jax():
    library, a, b = jax_library(), draw(3, 4), draw(4, 5)
    check(library.get(tilewright.matmul(library.put(a), b)), reference(a, b))


def test_arrays_on_a_gpu_are_not_for_the_emulator(writable):
    with pytest.raises(ArrayError, match="a must lie on the host for the emulator engine, got GPU 0"):
        tilewright.matmul(writable.put(draw(3, 3)), writable.put(draw(3, 3)), engine="emulator")


def test_arrays_of_jax_on_a_gpu_are_xlas():
    array = jax_library().put(draw(3, 3))
    with pytest.raises(ArrayError, match="engine must be left out for arrays of JAX"):
        tilewright.matmul(array, array, engine="cuda")
    with pytest.raises(ArrayError, match="call matmul instead"):
        tilewright.plan(array, array)


@pytest.mark.parametrize("named", [{}, {"engine": "cuda"}, {"kernel": "warptiled"}])
def test_numpy_arrays_are_copied_to_the_gpu_and_back(named):
    a, b, c = draw(300, 200), draw(200, 500)[:, ::2], draw(300, 250)
    out = np.zeros((250, 300), np.float32).T
    assert tilewright.matmul(a, b, c=c, beta=2, out=out, **named) is out
    check(out, reference(a, b, 1.0, 2.0, c))
    assert type(tilewright.matmul(a, b, **named)) is np.ndarray


class Copy(NamedTuple):
    """One copy between host and GPU, in milliseconds after recording began, by events on its own stream."""

    to_host: bool
    bytes: int
    start: float
    end: float


def watch_copies(engine, monkeypatch):
    """Record events around all copies between host and GPU; the function waits for them, prints and returns them."""
    recorded = []
    with engine.current:
        began = check_driver(driver.cuEventCreate(0))
        check_driver(driver.cuEventRecord(began, engine.stream.handle))

    def watched(copy, to_host, size, stream, *arguments):
        start, end = (check_driver(driver.cuEventCreate(0)) for _ in range(2))
        check_driver(driver.cuEventRecord(start, stream))
        status = copy(*arguments, stream)
        check_driver(driver.cuEventRecord(end, stream))
        recorded.append((to_host, size, start, end))
        return status

    def watch(name, to_host):
        copy = getattr(driver, name)
        monkeypatch.setattr(
            driver, name, lambda to, of, size, stream: watched(copy, to_host, size, stream, to, of, size)
        )

    def of_pinned(plan, stream, copy=driver.cuMemcpy2DAsync):
        to_host = plan.dstMemoryType == driver.CUmemorytype.CU_MEMORYTYPE_HOST
        return watched(copy, to_host, plan.WidthInBytes * plan.Height, stream, plan)

    watch("cuMemcpyHtoDAsync", to_host=False)
    watch("cuMemcpyDtoHAsync", to_host=True)
    monkeypatch.setattr(driver, "cuMemcpy2DAsync", of_pinned)

    def read():
        engine.synchronize()
        with engine.current:
            found = [
                Copy(to_host, size, *(check_driver(driver.cuEventElapsedTime(began, event)) for event in events))
                for to_host, size, *events in recorded
            ]
        found.sort(key=lambda one: one.start)
        for one in found:
            way = "to host" if one.to_host else "to GPU "
            print(f"{way} {one.bytes / 1e6:6.1f} MB from {one.start:8.3f} to {one.end:8.3f} ms")
        return found

    return read


def milliseconds(some):
    """For how long at least one of these copies was in flight."""
    total, reached = 0.0, -math.inf
    for one in sorted(some, key=lambda one: one.start):
        total += max(one.end - max(one.start, reached), 0.0)
        reached = max(reached, one.end)
    return total


@pytest.mark.parametrize("pinned", [False, True], ids=["through pinned buffers", "pinned"])
def test_large_arrays_of_the_host_are_copied_both_ways_at_once(torch, engine, monkeypatch, pinned):
    """A result of several tiles, whose copies take longer than its products: tiles come back while blocks go there."""
    a, b, out = (torch.empty(m, 2048, pin_memory=pinned).numpy() for m in (32768, 2048, 32768))
    a[...], b[...] = draw(*a.shape), draw(*b.shape, 1)
    tilewright.matmul(a, b, out=out)  # while the kernel is compiled, everything is loaded
    out[...] = 0
    copies = watch_copies(engine, monkeypatch)
    tilewright.matmul(a, b, out=out)
    check(out[::500], reference(a[::500], b))
    found = copies()
    loads, stores = ([one for one in found if one.to_host == way] for way in (False, True))
    assert sum(one.bytes for one in loads) == a.nbytes + b.nbytes
    assert sum(one.bytes for one in stores) == out.nbytes
    early = sum(one.start < loads[-1].end for one in stores)
    assert early > 3, "tiles come back after the last block has gone: the product is cut into too few"
    together = milliseconds(loads) + milliseconds(stores) - milliseconds(found)
    print(
        f"in flight: to the GPU {milliseconds(loads):.2f} ms, to the host {milliseconds(stores):.2f} ms, "
        f"both at once {together:.2f} ms; {early} of {len(stores)} copies to the host began before the last to the GPU"
    )
    assert together > 0.1 * min(milliseconds(loads), milliseconds(stores))


def test_torch_tensors_on_the_host(torch):
    a, b = draw(70, 40), draw(40, 50)
    out = torch.zeros(70, 50)
    result = tilewright.matmul(torch.from_numpy(a), torch.from_numpy(b), out=out)
    assert result is out
    check(out.numpy(), reference(a, b))
    new = tilewright.matmul(torch.from_numpy(a), torch.from_numpy(b))
    assert new.device.type == "cpu"
    check(new.numpy(), reference(a, b))
    with pytest.raises(ArrayError, match="b must lie where a does: got GPU 0, and the host for a"):
        tilewright.matmul(torch.from_numpy(a), torch.from_numpy(b).cuda())


def test_work_goes_to_the_stream_that_is_current_in_torch(torch):
    values, b = torch.from_numpy(draw(256, 256)).cuda(), torch.from_numpy(draw(256, 256, 1)).cuda()
    a = torch.zeros(256, 256, device="cuda")
    tilewright.matmul(a, b)  # compiled before, so that nothing below waits for that
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SPIN)
        a.copy_(values)
        result = tilewright.matmul(a, b)
        sleeping = not stream.query()
        received = result.cpu().numpy()
    assert sleeping, "the call waited for the stream"
    check(received, reference(values.cpu().numpy(), b.cpu().numpy()))


def test_work_goes_to_the_stream_that_is_current_in_cupy(cupy):
    spin = cupy.RawKernel(
        'extern "C" __global__ void spin(long long cycles)'
        "{ long long start = clock64(); while (clock64() - start < cycles) {} }",
        "spin",
    )
    values, b, a = cupy.asarray(draw(256, 256)), cupy.asarray(draw(256, 256, 1)), cupy.zeros((256, 256), cupy.float32)
    tilewright.matmul(a, b)
    spin((1,), (1,), (np.int64(1),))
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        spin((1,), (1,), (np.int64(SPIN),))
        a[...] = values
        result = tilewright.matmul(a, b)
        spinning = not stream.done
        received = cupy.asnumpy(result)
    assert spinning, "the call waited for the stream"
    check(received, reference(cupy.asnumpy(values), cupy.asnumpy(b)))


def test_a_result_lives_on_in_jax():
    library = jax_library()
    a, b = draw(300, 200), draw(200, 100)
    results = [tilewright.matmul(library.put(a), library.put(b)) for _ in range(4)]
    gc.collect()
    others = [tilewright.matmul(library.put(b.T), library.put(a.T)) for _ in range(4)]
    for result in results:
        check(library.get(result + 1), reference(a, b) + 1)
    for other in others:
        check(library.get(other), reference(b.T, a.T))


class Interface:
    """A CuPy array of which only __cuda_array_interface__ is known, with or without the stream."""

    def __init__(self, array, stream=True):
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__}
        if not stream:
            self.__cuda_array_interface__["stream"] = None


class Capsules:
    """A CuPy array of which only DLPack is known."""

    def __init__(self, array):
        self.array = array
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


@pytest.mark.parametrize(
    "wrap", [Interface, lambda array: Interface(array, stream=False), Capsules], ids=["stream", "no stream", "DLPack"]
)
def test_arrays_of_which_only_a_protocol_is_known(cupy, wrap):
    a, b, c = draw(70, 40), draw(40, 50), draw(70, 50)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        left, right, out = (wrap(cupy.asarray(values)) for values in (a, b, c))
        stream.synchronize()  # an interface without a stream says that its data is there
        assert tilewright.matmul(left, right, c=out, out=out, beta=2) is out
        check(cupy.asnumpy(out.array), reference(a, b, 1.0, 2.0, c))
    with pytest.raises(ArrayError, match="out must be given"):
        tilewright.matmul(left, right)


def test_torch_keeps_account_of_gradients_and_writes(torch):
    a, b = torch.from_numpy(draw(8, 8)).cuda(), torch.from_numpy(draw(8, 8, 1)).cuda()
    weights = torch.ones(8, 8, device="cuda", requires_grad=True)
    (gradient,) = torch.autograd.grad(tilewright.matmul(weights, b).sum(), weights)
    check(gradient.cpu().numpy(), np.broadcast_to(b.sum(1).cpu().numpy(), (8, 8)))
    with torch.no_grad():
        check(tilewright.matmul(weights, b).cpu().numpy(), reference(np.ones((8, 8), np.float32), b.cpu().numpy()))
    out = torch.zeros(8, 8, device="cuda")
    loss = (weights * out).sum()  # keeps out for backward()
    tilewright.matmul(a, b, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_torch_goes_on_as_before(torch):
    a = torch.from_numpy(draw(64, 64)).cuda()
    device, stream = torch.cuda.current_device(), torch.cuda.current_stream()
    tilewright.matmul(a, a)
    assert (torch.cuda.current_device(), torch.cuda.current_stream()) == (device, stream)
    check((a @ a).cpu().numpy(), reference(a.cpu().numpy(), a.cpu().numpy()))


def test_what_a_call_costs_the_host(library, capsys):
    a, b = library.put(draw(64, 64)), library.put(draw(64, 64, 1))
    arguments = {"out": library.put(draw(64, 64, 2))} if library.writable else {}
    cases = {"new array": {}, "out": arguments, "kernel named": {**arguments, "kernel": "coalesced"}}
    for name, extra in cases.items():
        for _ in range(100):
            result = tilewright.matmul(a, b, **extra)
        library.get(result)
        start = time.perf_counter()
        for _ in range(500):
            result = tilewright.matmul(a, b, **extra)
        microseconds = (time.perf_counter() - start) / 500 * 1e6
        check(library.get(result), reference(library.get(a), library.get(b)))
        with capsys.disabled():
            print(f"\n{library.kind.__module__} {name}: {microseconds:.1f} us a call")


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_compiled_launcher_takes_arrays_of_cupy(cupy, order):
    a, b = (cupy.asarray(draw(*shape), order=order) for shape in ((300, 200), (200, 100)))
    tilewright.matmul(a, b)
    result = on_gpu.fast.call(a, b, None, None, None, 1.0, 0.0, None)
    assert type(result) is cupy.ndarray
    check(cupy.asnumpy(result), reference(cupy.asnumpy(a), cupy.asnumpy(b)))
