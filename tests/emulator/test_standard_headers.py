"""Headers of C++'s library: NVRTC is given ours, the emulator has the host's, and both know the same."""

import re

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import CompileError
from tilewright.runtime import nvrtc

OWN = (nvrtc.BEFORE, "integer_types.h")
"""No headers of that library."""
HEADERS = sorted(path.name for path in nvrtc.STANDARD.iterdir() if path.name not in OWN)

LIMITS = [
    f"FLT_MAX == {float(np.finfo(np.float32).max).hex()}f && FLT_MAX == std::numeric_limits<float>::max()",
    f"FLT_MIN == {float(np.finfo(np.float32).tiny).hex()}f",
    f"FLT_EPSILON == {float(np.finfo(np.float32).eps).hex()}f",
    f"DBL_MAX == {float(np.finfo(np.float64).max).hex()}",
    f"DBL_MIN == {float(np.finfo(np.float64).tiny).hex()}",
    f"DBL_EPSILON == {float(np.finfo(np.float64).eps).hex()}",
    "FLT_MANT_DIG == 24 && DBL_MANT_DIG == 53",
    "std::numeric_limits<double>::lowest() == -DBL_MAX",
    "std::numeric_limits<float>::infinity() > FLT_MAX",
    "std::numeric_limits<double>::quiet_NaN() != std::numeric_limits<double>::quiet_NaN()",
    *(
        f"std::numeric_limits<{kind}>::max() == {name}_MAX && {name}_MAX == static_cast<{kind}>({2**bits - 1}ull)"
        for kind, name, bits in (
            ("signed char", "SCHAR", 7), ("unsigned char", "UCHAR", 8), ("short", "SHRT", 15),
            ("unsigned short", "USHRT", 16), ("int", "INT", 31), ("unsigned", "UINT", 32), ("long long", "LLONG", 63),
            ("unsigned long long", "ULLONG", 64), ("int16_t", "INT16", 15), ("uint64_t", "UINT64", 64),
        )
    ),
    *(
        f"std::numeric_limits<{kind}>::min() == {name}_MIN && {name}_MIN == -{name}_MAX - 1"
        for kind, name in (("short", "SHRT"), ("int", "INT"), ("long long", "LLONG"), ("int8_t", "INT8"))
    ),
    "std::numeric_limits<int>::is_signed && !std::numeric_limits<unsigned>::is_signed",
    "std::is_same<int32_t, int>::value && sizeof(intptr_t) == 8 && sizeof(std::size_t) == 8",
    "std::is_floating_point_v<float> && !std::is_integral_v<double> && std::is_arithmetic<char>::value",
    "std::is_signed_v<short> && std::is_unsigned<uint8_t>::value && std::is_pointer_v<float* const>",
    "std::is_same_v<std::remove_cv_t<const volatile int>, int> && std::is_same_v<std::remove_reference_t<int&&>, int>",
    "std::is_same_v<std::conditional_t<true, int, float>, int> && std::is_trivially_copyable_v<float>",
    "std::max(2, 3) == 3 && std::min(2.0f, 3.0f) == 2.0f",
    "offsetof(Pair, second) == 4",
]  # fmt: skip

SOURCE = "\n".join(
    [
        *(f"#include <{name}>" for name in HEADERS),
        "struct Pair { int first; float second; };",
        *(f'static_assert({one}, "");' for one in LIMITS),
        """
template <typename Number, typename = std::enable_if_t<std::is_floating_point<Number>::value>>
__device__ Number root(Number x) { return std::sqrt(std::fabs(x)); }
extern "C" __global__ void kernel(const float* in, float* out) {
    float x = in[threadIdx.x], y = HUGE_VALF;
    assert(x <= FLT_MAX && std::isfinite(x));
    std::swap(x, y);
    memcpy(&x, &y, sizeof(float));
    if (x == INFINITY || !isnan(NAN)) printf("no number\\n");
    out[threadIdx.x] = root(x) + std::exp(std::move(y)) + float(M_PI);
}
""",
    ]
)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
def test_nvrtc_knows_what_kernels_use_of_them(arch):
    assert nvrtc.compile_source(SOURCE, "kernel.cu", "kernel", {}, arch).code


def test_the_emulator_knows_the_same():
    numbers = np.linspace(-3, 3, 32, dtype=np.float32)
    out = np.zeros(32, np.float32)
    launch(SOURCE, numbers, out, block=(32, 1, 1))
    np.testing.assert_allclose(out, np.sqrt(abs(numbers)) + np.exp(numbers) + np.pi, rtol=1e-6)


@pytest.mark.first(6)
@pytest.mark.parametrize("name", HEADERS)
def test_each_can_be_included_alone_and_twice(name):
    text = f'#include <{name}>\n#include <{name}>\nextern "C" __global__ void kernel(int* x) {{ *x = 1; }}'
    assert nvrtc.compile_source(text, "kernel.cu", "kernel", {}, "sm_90a").code


def test_one_next_to_the_source_comes_first(tmp_path):
    (tmp_path / "limits.h").write_text("#define INT_MAX 5\n")
    text = '#include "limits.h"\nextern "C" __global__ void kernel(int* x) { static_assert(INT_MAX == 5, ""); *x = 1; }'
    assert nvrtc.compile_source(text, "kernel.cu", "kernel", {}, "sm_90a", tmp_path).code


@pytest.mark.further
def test_headers_of_cudas_core_libraries_are_found_or_named(monkeypatch, tmp_path):
    text = """#include <cooperative_groups.h>
    extern "C" __global__ void kernel(int* x) { *x = cooperative_groups::this_thread_block().thread_rank(); }"""
    if not nvrtc.pathfinder.find_nvidia_header_directory("cccl"):
        pytest.skip("they are not installed")
    assert nvrtc.compile_source(text, "kernel.cu", "kernel", {}, "sm_90a").code
    own = [folder for folder in nvrtc._cuda_headers() if "cccl" not in folder]
    monkeypatch.setattr(nvrtc, "_cuda_headers", lambda: own)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))  # what is compiled needs no headers
    with pytest.raises(CompileError, match=re.escape("pip install 'nvidia-cuda-cccl==13.*'")):
        nvrtc.compile_source(text, "kernel.cu", "kernel", {}, "sm_90a")
