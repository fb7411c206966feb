"""A launch of larger blocks than a kernel promises fails, as on a GPU."""

import ctypes
import re

import pytest

from launching import launch_source
from tilewright.core.errors import LaunchError
from tilewright.runtime import nvrtc

SOURCE = """
#define HALF 32
#define BOUNDS __launch_bounds__(2 * HALF)
namespace inner { constexpr int COUNT = 48; }
constexpr int twice(int n) { return 2 * n; }  // __launch_bounds__(1)
#define SET if (threadIdx.x == 0) *out = blockDim.x

extern "C" __global__ void __launch_bounds__(HALF) behind(int* out) { SET; }
extern "C" __global__ __launch_bounds__(HALF * 3, 2) void ahead(int* out);
__global__ __launch_bounds__(HALF * 3, 2) void ahead(int* out) { SET; }
extern "C" __launch_bounds__(inner::COUNT) __global__ void first(int* out) { SET; }
#ifdef OTHERS
extern "C" __global__ void by_macro(int* out) { SET; }
extern "C" __global__ void __launch_bounds__(7) either(int* out) {
#else
extern "C" __global__ void BOUNDS by_macro(int* out) { SET; }
extern "C" __global__ void __launch_bounds__(112) either(int* out) {
#endif
    SET;
}
template <int N, typename T = int>
__global__ void __launch_bounds__(twice(N)) of_template(T* out) { SET; }
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64, 1, 2) clustered(int* out) { SET; }
extern "C" __global__ void unbounded(int* out) { SET; }
"""
BOUNDS = {"behind": 32, "ahead": 96, "first": 48, "by_macro": 64, "either": 112, "of_template<40>": 80, "clustered": 64}


def launch(entry, threads, blocks=2, cluster=1):
    out = (ctypes.c_int * 1)()
    launch_source(
        SOURCE, entry, (blocks, 1, 1), (threads, 1, 1), [ctypes.c_void_p(ctypes.addressof(out))], cluster=cluster
    )
    return out[0]


@pytest.mark.first(3)
@pytest.mark.parametrize("entry", BOUNDS)
def test_a_block_larger_than_promised_is_refused(entry):
    bound = BOUNDS[entry]
    assert launch(entry, bound) == bound
    message = f"{entry}: threads of a block are {bound} at most by its __launch_bounds__, got {bound + 1}"
    with pytest.raises(LaunchError, match=re.escape(message)):
        launch(entry, bound + 1)


def test_a_cluster_larger_than_promised_is_refused():
    assert launch("clustered", 64, cluster=2) == 64
    with pytest.raises(LaunchError, match="blocks of a cluster are 2 at most by its __launch_bounds__, got 4"):
        launch("clustered", 64, blocks=4, cluster=4)


def test_without_a_promise_a_block_may_be_as_large_as_any():
    assert launch("unbounded", 1024) == 1024


def test_the_bounds_are_those_that_nvrtc_has(tmp_path):
    file = tmp_path / "bounds.cu"
    file.write_text(SOURCE.replace("constexpr int twice", "__device__ constexpr int twice"))
    ptx = nvrtc.user_source_ptx(file, "of_template<40>", {}, "sm_90a")
    found = re.findall(
        r"\.entry (\w+)\([^)]*\)\s*(?:\.reqnctapercluster[^\n]*\s*|\.explicitcluster\s*)*\.maxntid (\d+)", ptx
    )
    assert {int(threads) for _, threads in found} == set(BOUNDS.values())
