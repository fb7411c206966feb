"""CUDA's atomic functions on the emulator: what they return, what they leave, and that observers see them as atomic."""

from functools import reduce

import numpy as np
import pytest
from emulator_helpers import kinds_found, launch

from tilewright.core.errors import CompileError
from tilewright.emulator.compiler import CHECKED, FAST

BUILDS = pytest.mark.parametrize("build", [FAST, CHECKED], ids=["fast", "checked"])

TYPES = {
    "int": np.int32,
    "unsigned": np.uint32,
    "unsigned long long": np.uint64,
    "long long": np.int64,
    "float": np.float32,
    "double": np.float64,
}
INTEGERS = ("int", "unsigned", "unsigned long long")

STEPS = {
    "Add": (lambda old, value: old + value, (*INTEGERS, "float", "double")),
    "Sub": (lambda old, value: old - value, ("int", "unsigned")),
    "Exch": (lambda old, value: value, (*INTEGERS, "float")),
    "Min": (min, (*INTEGERS, "long long")),
    "Max": (max, (*INTEGERS, "long long")),
    "And": (lambda old, value: old & value, INTEGERS),
    "Or": (lambda old, value: old | value, INTEGERS),
    "Xor": (lambda old, value: old ^ value, INTEGERS),
    "Inc": (lambda old, value: 0 if old >= value else old + 1, ("unsigned",)),
    "Dec": (lambda old, value: value if old == 0 or old > value else old - 1, ("unsigned",)),
}


@pytest.mark.first(2)
@BUILDS
@pytest.mark.parametrize("kind", TYPES)
def test_one_thread_after_the_other(kind, build):
    """In the three scopes; one call for each value, whose results are the cell before each."""
    steps = {name: step for name, (step, types) in STEPS.items() if kind in types}
    signed = [9, 3, 12, -5, 6, 1000, -70000, 0, 7]
    values = np.array(np.abs(signed) if kind.startswith("unsigned") else signed, TYPES[kind])
    if kind == "unsigned long long":
        values += np.uint64(1 << 40)
    calls = "".join(
        f"""
        for (int i = 0; i < 9; i += 3, olds += 3) {{
            olds[0] = atomic{name}(&cells[{at}], values[i]);
            olds[1] = atomic{name}_block(&cells[{at}], values[i + 1]);
            olds[2] = atomic{name}_system(&cells[{at}], values[i + 2]);
        }}
        """
        for at, name in enumerate(steps)
    )
    source = f"""
    extern "C" __global__ void kernel({kind}* cells, const {kind}* values, {kind}* olds) {{ {calls} }}
    """
    cells, olds = np.full(len(steps), 70, values.dtype), np.zeros((len(steps), 9), values.dtype)
    launch(source, cells, values, olds, build=build)
    for (name, step), cell, found in zip(steps.items(), cells, olds, strict=True):
        with np.errstate(over="ignore"):
            expected = [values.dtype.type(70)]
            for value in values:
                expected.append(values.dtype.type(step(expected[-1], value)))
        np.testing.assert_array_equal([*found, cell], expected, name)


@pytest.mark.first(3)
@BUILDS
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("int", np.int32), ("unsigned", np.uint32), ("unsigned long long", np.uint64), ("unsigned short", np.uint16)],
)
def test_compare_and_swap(kind, dtype, build):
    source = f"""
    extern "C" __global__ void kernel({kind}* cell, {kind}* olds) {{
        olds[0] = atomicCAS(cell, 5, 6);
        olds[1] = atomicCAS(cell, 7, 8);
        olds[2] = atomicCAS_block(cell, 8, 9);
        olds[3] = atomicCAS_system(cell, 8, 10);
    }}
    """
    cell, olds = np.array([7], dtype), np.zeros(4, dtype)
    launch(source, cell, olds, build=build)
    assert (*olds, *cell) == (7, 7, 8, 9, 9)


@BUILDS
def test_many_threads_of_many_blocks(build):
    source = """
    extern "C" __global__ void kernel(unsigned* u, int* s, double* d, unsigned long long* w, float* f) {
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        atomicAdd(u, 1);
        atomicOr(u + 1, 1u << i % 32);
        atomicXor(u + 2, i);
        atomicInc(u + 3, 99);
        atomicMax(u + 4, i * 7919 % 4096);
        atomicMin(s, -int(i * 7919 % 4096));
        atomicSub(s + 1, int(i));
        atomicAdd(d, 0.5);
        atomicAdd(w, 1ull << 33);
        atomicAdd(f, 0.25f);
        unsigned seen = u[5], before;
        do {
            before = seen;
            seen = atomicCAS(u + 5, before, before + 2);
        } while (seen != before);
    }
    """
    u, s = np.zeros(6, np.uint32), np.zeros(2, np.int32)
    d, w, f = np.zeros(1), np.zeros(1, np.uint64), np.zeros(1, np.float32)
    launch(source, u, s, d, w, f, grid=(20, 1, 1), block=(64, 1, 1), build=build)
    numbers = range(1280)
    largest = max(i * 7919 % 4096 for i in numbers)
    mixed = reduce(int.__xor__, numbers)
    np.testing.assert_array_equal(u, [1280, 0xFFFFFFFF, mixed, 1280 % 100, largest, 2560])
    np.testing.assert_array_equal(s, [-largest, -sum(numbers)])
    assert (d[0], w[0], f[0]) == (640, 1280 << 33, 320)


CALLS = {
    "int": [f"atomic{name}({{}}, 1)" for name in ("Add", "Sub", "Exch", "Min", "Max", "And", "Or", "Xor")],
    "unsigned": ["atomicInc({}, 5)", "atomicDec({}, 5)", "atomicCAS({}, 1, 2)", "atomicMax_block({}, 0)"],
    "unsigned long long": [
        "atomicAdd({}, 1)",
        "atomicExch_system({}, 1)",
        "atomicMin({}, 1000)",
        "atomicCAS({}, 1, 2)",
    ],
    "float": ["atomicAdd({}, 1)", "atomicExch({}, 1)"],
    "double": ["atomicAdd({}, 1)"],
    "unsigned short": ["atomicCAS({}, 1, 2)"],
}


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", CALLS)
def test_the_checker_takes_them_for_atomic_and_a_store_next_to_them_for_a_race(kind):
    """In global and in shared memory."""
    cases = "".join(
        f"case {at}: {call.format('cell')}; {call.format('&own')}; break;\n" for at, call in enumerate(CALLS[kind])
    )
    source = f"""
    extern "C" __global__ void kernel({kind}* cell, const int* call, const int* store) {{
        __shared__ {kind} own;
        if (threadIdx.x == 0) own = 7;
        __syncthreads();
        if (threadIdx.x == 40 && *store == 1) *cell = 1;
        if (threadIdx.x == 40 && *store == 2) own = 1;
        switch (*call) {{ {cases} }}
    }}
    """
    dtype = np.uint16 if kind == "unsigned short" else TYPES[kind]
    for at, call in enumerate(CALLS[kind]):
        for store, found in enumerate((set(), {"race"}, {"race"})):
            numbers = np.array([at], np.int32), np.array([store], np.int32)
            assert kinds_found(source, np.zeros(1, dtype), *numbers, block=(64, 1, 1)) == found, (call, store)


@pytest.mark.parametrize("call", ["atomicSub((float*)out, 1.0f)", "atomicAdd((short*)out, 1)", "atomicInc(out, 1)"])
def test_what_cuda_does_not_have_does_not_compile(call):
    with pytest.raises(CompileError, match=call.partition("(")[0]):
        launch(f'extern "C" __global__ void kernel(int* out) {{ {call}; }}', np.zeros(1, np.int32))


def test_a_fence_of_the_block_orders_nothing_between_blocks():
    source = """
    extern "C" __global__ void kernel(int* data, unsigned* flag, int* out) {
        if (threadIdx.x != 0) return;
        if (blockIdx.x == 0) { data[0] = 1; __threadfence(); atomicAdd(flag, 1); }
        if (blockIdx.x == 1 && atomicAdd(flag, 0) == 1) { __threadfence(); out[0] = data[0]; }
    }
    """
    arrays = [np.zeros(1, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32)]
    assert kinds_found(source, *arrays, grid=(2, 1, 1)) == set()
    assert arrays[2][0] == 1
    for fence, kinds in (("__threadfence_system()", set()), ("__threadfence_block()", {"race"})):
        arrays[1][0] = 0
        assert kinds_found(source.replace("__threadfence()", fence), *arrays, grid=(2, 1, 1)) == kinds
