"""A source may have any name that it may have on a GPU: what the emulator puts with it has none of a source's."""

import re
from pathlib import Path

import pytest

from tilewright.core.errors import CompileError
from tilewright.emulator import compiler
from tilewright.emulator.launches import check_launch
from tilewright.emulator.own_names import as_written, renamed
from tilewright.kernels.source.source_launch import read_launch
from tilewright.runtime import nvrtc

HEADERS = Path(compiler.__file__).parent
IN_C = {"HUGE_VAL", "M_PI", "M_SQRT1_2", "M_SQRT2"}
"""Macros of <math.h>, which nvcc includes ahead of all sources too, and NVRTC does not."""
KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl
        const constexpr const_cast continue decltype default defined delete do double dynamic_cast else enum
        explicit extern false float for friend goto if inline int long main mutable namespace new noexcept not
        not_eq nullptr operator or or_eq private protected public register reinterpret_cast return short signed
        sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
        typename union unsigned using virtual void volatile while xor xor_eq""",
    )
)


def names_of_headers():
    """All words of the lines that begin declarations and macros in the emulator's headers, but for names with two
    underscores at their begin, which no source may have."""
    files = [*HEADERS.glob("include/*"), *HEADERS.glob("runtime/*.hpp")]
    texts = [re.sub(r"//.*", "", one.read_text()) for one in files if one.is_file()]
    lines = [line for text in texts for line in re.findall(r"^[^\s}].*", text, re.MULTILINE)]
    found = {word for line in lines for word in re.findall(r"\b[A-Za-z_]\w*", line)}
    return sorted(word for word in found - KEYWORDS if not word.startswith("__"))


def declared(names):
    """A source with kernels of these names; they are numbered from its first line on."""
    return "".join(f"__global__ void {one}(float* a);\n" for one in names) + "__global__ void any_kernel(float* a) {}\n"


def test_kernels_may_have_all_names_that_nvrtc_takes(tmp_path):
    file, names = tmp_path / "names.cu", names_of_headers()
    assert {"simt", "simt_shared_begin", "SimtWarpWork", "SIMT_ENTRY"} <= set(names)
    while True:
        file.write_text(declared(names))
        try:
            nvrtc.compile_user_source(file, "any_kernel", {}, "sm_90a")
            break
        except CompileError as error:
            refused = {int(line) - 1 for line in re.findall(r"\.cu\((\d+)\)", str(error))}
            assert refused, str(error)
        names = [name for i, name in enumerate(names) if i not in refused]
    assert len(names) > 500
    file.write_text(declared(name for name in names if name not in IN_C))
    compiler.compile_kernel(file, "any_kernel", build=compiler.CHECKED, is_user_kernel=True)


SOURCE = """
// tilewright: grid=1 block=32 a=float32[32] b=out:float32[32] simt_weights=float32[4] SIMT_N=3
#include "simt_factor.cuh"
#define SIMT_N 2
__constant__ float simt_weights[4];
template <int Simt> __device__ float simt_thread(float x) { return x * Simt; }
__global__ void simt(const float* a, float* b) {
    __shared__ float simt_tile[32];
    float simt_shared_begin = simt_factor;
    simt_tile[threadIdx.x] = a[threadIdx.x] * simt_weights[threadIdx.x % 4];
    __syncthreads();
    b[threadIdx.x] = simt_thread<SIMT_N>(simt_tile[(threadIdx.x + 1) % 32]) * simt_shared_begin;
}
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "simt_factor.cuh").write_text("constexpr float simt_factor = 1;\n")
    file = tmp_path / "simt.cu"
    file.write_text(SOURCE)
    return file


def test_a_source_whose_names_begin_as_the_emulators_runs(source):
    checked = check_launch(read_launch(str(source)))
    assert checked.findings == []
    a, weights = checked.inputs["a"], checked.inputs["simt_weights"]
    expected = [3 * a[(i + 1) % 32] * weights[(i + 1) % 4] for i in range(32)]
    assert checked.outputs["b"] == pytest.approx(expected, rel=1e-6)


def test_what_is_found_there_has_the_sources_names(source):
    source.write_text(SOURCE.replace("    __syncthreads();\n", ""))
    (race, *_) = (one for one in check_launch(read_launch(str(source))).findings if one.kind == "race")
    assert " simt_tile[" in str(race)
    source.write_text(SOURCE.replace("simt_factor;", "simt_facto;"))
    with pytest.raises(CompileError, match=r"simt_facto[^_r]") as error:
        check_launch(read_launch(str(source)))
    assert "__source" not in str(error.value)


def test_literals_comments_and_headers_keep_their_names():
    text = '#include <simt.h>\n#include "simt.h"\nint simt = 1; // simt\nconst char* SIMT = "simt"; int my_simt;\n'
    assert renamed(text) == text.replace("int simt", "int __source_simt").replace("SIMT =", "__source_SIMT =")
    assert as_written(renamed(text)) == text
