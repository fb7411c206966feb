"""Overruns of a thread's own arrays, divisions by zero, and what its local variables hold before they are written."""

import re

import pytest

from tilewright.emulator.launches import check_launch
from tilewright.emulator.subscripts import with_arrays
from tilewright.kernels.source.source_launch import read_launch
from tilewright.runtime.host_compiler import find_compiler

pytestmark = pytest.mark.skipif(find_compiler().gcc < 12, reason="of GCC, from 12 on")

HEAD = "// tilewright: x=float32[256] y=out:float32[256] n=256 i=3 grid=1 block=256\n"
KERNEL = """__global__ void kernel(const float* x, float* y, int n, int i) {{
    const int t = threadIdx.x;
    {}
}}
"""


def findings(folder, body, before="", args=""):
    """Findings in a kernel of this body: kinds and words."""
    (folder / "kernel.cu").write_text(f"{HEAD}{before}{KERNEL.format(body)}")
    return [(one.kind, str(one)) for one in check_launch(read_launch(str(folder / "kernel.cu"), args)).findings]


OVERRUNS = {
    "the end": ("float own[8] = {}; own[n / 32] = x[t]; y[t] = own[t % 8];", "index 8 of own, which is 'float [8]'"),
    "a loop": (
        "float own[8]; for (int j = 0; j <= n / 32; ++j) own[j] = x[t]; y[t] = own[i];",
        "index 8 of own, which is 'float [8]'",
    ),
    "a negative index": ("float own[8] = {}; y[t] = own[i - 4] + x[t];", "index -1 of own, which is 'float [8]'"),
    "the last dimension": (
        "float own[4][8] = {}; own[i][n / 32] = x[t]; y[t] = own[t % 4][i];",
        "index 8 of own[i], which is 'float [8]'",
    ),
    "the first dimension": (
        "float own[4][8] = {}; own[i + 1][2] = x[t]; y[t] = own[t % 4][i];",
        "index 4 of own, which is 'float [4][8]'",
    ),
    "a member": (
        "struct { int count; float part[4]; } own = {}; own.part[i * 2] = x[t]; y[t] = own.part[t % 4];",
        "index 6 of own.part, which is 'float [4]'",
    ),
    "the last thread": (
        "float own[8] = {}; own[t / 31] = x[t]; y[t] = own[i];",
        "thread (248, 0, 0) uses index 8 of own",
    ),
}


@pytest.mark.first(3)
@pytest.mark.parametrize("body, words", OVERRUNS.values(), ids=OVERRUNS)
def test_an_overrun_of_a_local_array_is_found(body, words, tmp_path):
    ((kind, said),) = findings(tmp_path, body)
    assert kind == "out of bounds"
    assert words in said
    assert said.endswith("(kernel.cu:4)")


def test_it_is_found_in_a_function_of_a_header(tmp_path):
    (tmp_path / "part.h").write_text("__device__ void put(float (&to)[4], int at, float x) {\n    to[at] = x;\n}\n")
    body = "float own[4] = {}; put(own, i + 1, x[t]); y[t] = own[t % 4];"
    ((kind, said),) = findings(tmp_path, body, before='#include "part.h"\n')
    assert kind == "out of bounds"
    assert re.search(r"index 4 of to, which is 'float \[4\]' \(part.h:2\)", said)


def test_it_is_found_in_a_template_of_arrays(tmp_path):
    put = "template <int COUNT>\n__device__ void put(float (&to)[2][COUNT], int at, float x) {\n    to[1][at] = x;\n}\n"
    (tmp_path / "part.h").write_text(put)
    body = "float own[2][4] = {}; put(own, i + 1, x[t]); y[t] = own[1][t % 4];"
    ((kind, said),) = findings(tmp_path, body, before='#include "part.h"\n')
    assert kind == "out of bounds"
    assert re.search(r"index 4 of to\[1\], which is 'float \[4\]' \(part.h:3\)", said)


WITHIN = {
    "all of it": "float own[8]; for (int j = 0; j < 8; ++j) own[j] = x[t]; y[t] = own[i];",
    "the address behind it": """float own[8] = {}; float s = 0; for (float* p = own; p != &own[8]; ++p) s += *p;
    y[t] = s + x[t];""",
    "rows of shared memory as one": """__shared__ float all[8][32]; all[0][t] = x[t]; __syncthreads();
    y[t] = all[0][255 - t];""",
    "rows of dynamic shared memory as one": """struct Rows { float of[8][32]; }; extern __shared__ char bytes[];
    Rows* rows = (Rows*)bytes; rows->of[0][t] = x[t]; __syncthreads(); y[t] = rows->of[0][255 - t];""",
}


@pytest.mark.parametrize("body", WITHIN.values(), ids=WITHIN)
def test_nothing_is_found_within_arrays(body, tmp_path):
    assert findings(tmp_path, body, before="// tilewright: shared=1024\n") == []


@pytest.mark.first(1)
@pytest.mark.parametrize("body", ["y[t] = n / (i - 3);", "y[t] = unsigned(n) % (t / 300);", "y[t] = 7ll / (n - 256);"])
def test_a_division_by_zero_is_found(body, tmp_path):
    ((kind, said),) = findings(tmp_path, body)
    assert kind == "division by zero"
    assert said == "in block (0, 0, 0) thread (0, 0, 0) divides by zero (kernel.cu:4)"


UNWRITTEN = {
    "a sum": "float sum; for (int j = 0; j < i; ++j) sum += x[t]; y[t] = sum;",
    "a branch": "float best; if (x[t] > 0) best = x[t]; y[t] = best;",
    "an array": """float own[8]; for (int j = 0; j < i; ++j) own[j] = x[t];
    float s = 0; for (float e : own) s += e; y[t] = s;""",
    "a count": "int count; if (t > 8) count = t; y[t] = x[count & 255];",
}


@pytest.mark.parametrize("body", UNWRITTEN.values(), ids=UNWRITTEN)
def test_a_local_variable_that_is_read_before_it_is_written_is_found(body, tmp_path):
    ((kind, said),) = findings(tmp_path, body)
    assert kind == "uninitialized read"
    assert re.match(r"y\[\d+\].* others when local variables hold zeros before they are written", said)


def test_subscripts_that_are_not_understood_are_none_of_the_check():
    types = "\t.quad\t.Lubsan_type0\n\t.quad\t.Lubsan_type1\n"
    record = ".Lubsan_data{}:\n\t.quad\t.LC0\n\t.long\t{}\n\t.long\t{}\n" + types
    source = "int a[4]; // x[9]\nONE(a)\nf()[2] = a[b[c[1]]]; (*tile)[3] = 1;\n"
    places = [(3, 19), (3, 18), (3, 17), (2, 3), (9, 1), (1, 16), (3, 31), (3, 11)]
    assembly = '.LC0:\n\t.string\t"kernel.cu"\n' + "".join(record.format(i, *place) for i, place in enumerate(places))
    judged = with_arrays(assembly, {"kernel.cu": source}, ())
    arrays = re.findall(r"\t\.quad\t\.Lubsan_type0\n\t\.quad\t(\S+)", judged)
    names = dict(re.findall(r'^(\.Lsubscripted\d+):\n\t\.string\t"(.*)"$', judged, re.MULTILINE))
    assert [names.get(one) for one in arrays] == ["a", "b", "c", None, None, None, None, "a"]
