"""`extern __shared__` arrays on the emulator are the block's dynamic shared memory, however they are declared."""

import numpy as np
import pytest
from emulator_helpers import kinds_found, launch

from tilewright.core.errors import CompileError
from tilewright.emulator.compiler import CHECKED, FAST
from tilewright.emulator.dynamic_shared import with_pointers

BUILDS = pytest.mark.parametrize("build", [FAST, CHECKED], ids=["fast", "checked"])

DECLARED = {
    "in the kernel": ("", "extern __shared__ float cells[];"),
    "on several lines, with comments": ("", "extern /* of the launch */ __shared__\n float // 32\n cells\n [];"),
    "in the other order": ("", "__shared__ extern float cells[];"),
    "volatile": ("", "extern volatile __shared__ float cells[];"),
    "aligned": ("", "extern __shared__ __align__(16) float cells[];"),
    "aligned before": ("", "extern __align__(sizeof(float4)) __shared__ float cells[];"),
    "aligned as in C++": ("", "extern alignas(16) __shared__ float cells[];"),
    "as bytes": ("", "extern __shared__ unsigned char raw[]; float* cells = reinterpret_cast<float*>(raw);"),
    "of rows": ("", "extern __shared__ float rows[][4]; float* cells = rows[0];"),
    "outside of functions": ("extern __shared__ float cells[];", ""),
    "in a namespace": ("namespace {\nextern __shared__ float cells[];\n}", ""),
    "outside and in the kernel": ("extern __shared__ float cells[];", "extern __shared__ float cells[];"),
    "of a type of the source": (
        "struct Traits { using Element = float; };",
        "extern __shared__ typename Traits::Element cells[];",
    ),
}


@pytest.mark.first(5)
@pytest.mark.parametrize(("number", "case"), [*enumerate(DECLARED)])
def test_a_declaration(number, case):
    """Declarations differ in their text alone, whatever the build: builds take turns."""
    build = (FAST, CHECKED)[number % 2]
    outside, inside = DECLARED[case]
    source = f"""
    {outside}
    extern "C" __global__ void kernel(float* out) {{
        {inside}
        cells[threadIdx.x] = threadIdx.x + blockIdx.x;
        __syncthreads();
        out[blockIdx.x * 32 + threadIdx.x] = cells[31 - threadIdx.x];
    }}
    """
    out = np.zeros((3, 32), np.float32)
    launch(source, out, block=(32, 1, 1), grid=(3, 1, 1), shared_bytes=128, build=build)
    np.testing.assert_array_equal(out, np.arange(31, -1, -1) + np.arange(3)[:, None])


SEVERAL = """
extern __shared__ int words[];
__device__ void put(int i, int value) { words[i] = value; }
__device__ int sum(const int* words, int count) {
    int total = 0;
    for (int i = 0; i < count; ++i) total += words[i];
    return total;
}
struct Reader {
    __device__ int get(int i) const { return words[i]; }
};
template <typename T>
__device__ T first() {
    extern __shared__ __align__(16) unsigned char raw[];
    return reinterpret_cast<const T*>(raw)[0];
}
extern "C" __global__ void kernel(int* out) {
    extern __shared__ unsigned short halves[];
    extern __shared__ __align__(16) unsigned char raw[];
    put(threadIdx.x, 0x10000 * (threadIdx.x + 1) + 7);
    __syncthreads();
    if (threadIdx.x == 0) {
        out[0] = sum(words, 4);
        out[1] = halves[2] + halves[3];
        out[2] = raw[14];
        out[3] = Reader().get(2);
        out[4] = first<int>();
    }
}
"""


@BUILDS
def test_several_declarations_name_the_same_memory(build):
    out = np.zeros(5, np.int32)
    launch(SEVERAL, out, block=(4, 1, 1), shared_bytes=16, build=build)
    np.testing.assert_array_equal(out, [10 * 0x10000 + 28, 9, 4, 3 * 0x10000 + 7, 0x10007])


def test_the_checker_sees_races_in_it_and_what_is_beyond_it():
    source = """
    extern "C" __global__ void kernel(int* out) {
        extern __shared__ int cells[];
        cells[threadIdx.x] = threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = cells[63 - threadIdx.x];
    }
    """
    out = np.zeros(64, np.int32)
    assert kinds_found(source, out, block=(64, 1, 1), shared_bytes=256) == set()
    assert kinds_found(source, out, block=(64, 1, 1), shared_bytes=252) == {"out of bounds"}
    assert "race" in kinds_found(source.replace("__syncthreads();", ""), out, block=(64, 1, 1), shared_bytes=256)


LEFT_ALONE = [
    "// extern __shared__ float cells[];",
    "/* extern __shared__\nfloat cells[]; */",
    'const char* text = "extern __shared__ float cells[];";',
    'const char* text = R"--(" extern __shared__ float cells[]; )--";',
    "__shared__ float cells[4]; extern float others[];",
    "extern __shared__ float cells[4];",
]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_declares_no_dynamic_shared_memory_stays_as_it_is(text):
    source = f"void f() {{ {text}\n }}"
    assert with_pointers(source) == (source,)


def test_comments_strings_and_lines_around_a_declaration_stay():
    source = """
    // a brace { and an apostrophe '
    #define OPEN {
    const char *brace = "}", quote = '"';
    const int million = 1'000'000;
    void f() {
        extern __shared__
            float cells[];  // it's extern __shared__ float others[];
        cells[0] = 1;
    }
    """
    (made,) = with_pointers(source)
    assert made.count("\n") == source.count("\n")
    for before, after in zip(source.splitlines(), made.splitlines(), strict=True):
        assert before == after or "cells[]" in before or before.endswith("extern __shared__")
    assert "it's extern __shared__ float others[];" in made


def test_errors_behind_a_declaration_name_their_own_lines():
    source = """extern __shared__
    int cells[];
    extern "C" __global__ void kernel(int* out) {
        *out = cells[0];
        no_such_thing();
    }"""
    with pytest.raises(CompileError, match=r"kernel.cu:5:.*no_such_thing"):
        launch(source, np.zeros(1, np.int32))


SUM = """#pragma once
#include "deeper/cells.cuh"
__device__ float sum(int count) {
    float total = 0;
    for (int i = 0; i < count; ++i) total += cells[i];
    return total;
}
"""


@pytest.mark.first(2)
@BUILDS
@pytest.mark.parametrize("at", ["", "deeper/", "../beside/"])
def test_a_declaration_in_a_header_is_one_for_all_that_include_it(at, build, tmp_path):
    """The header is next to the source; both the source and another header with the declaration include it."""
    own = tmp_path / "own"
    for name, text in {
        f"{at}sum.cuh": SUM.replace("deeper/", "" if at == "deeper/" else "../own/deeper/" if at else "deeper/"),
        "deeper/cells.cuh": "#pragma once\nextern __shared__ float cells[];\n",
        "plain.cuh": "#pragma once\n#define FACTOR 2\n",
    }.items():
        path = own / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    source = own / "kernel.cu"
    source.write_text(f"""#include "plain.cuh"
#include "{at}sum.cuh"
extern "C" __global__ void kernel(float* out) {{
    cells[threadIdx.x] = FACTOR * threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) *out = sum(32);
}}
""")
    out = np.zeros(1, np.float32)
    launch(source, out, block=(32, 1, 1), shared_bytes=128, build=build)
    assert out[0] == 2 * 31 * 16
    (own / f"{at}sum.cuh").write_text((own / f"{at}sum.cuh").read_text().replace("total += ", "total += no_such + "))
    with pytest.raises(CompileError, match=r"sum.cuh:5:.*no_such"):
        launch(source, out, block=(32, 1, 1), shared_bytes=128, build=build)
