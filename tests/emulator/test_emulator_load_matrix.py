"""The emulator's loads of matrices, against the PTX manual's ldmatrix."""

import numpy as np
import pytest
from emulator_helpers import launch

from async_kernels import load_matrices, matrices_as_the_manual_has_them
from tilewright.core.errors import LaunchError
from tilewright.emulator.engine import EmulatorEngine

SOURCE = """
#include "ptx/load_matrix.cuh"
extern "C" __global__ void kernel(float* out) {{
    __shared__ __align__(16) float shared[132];
    for (int i = threadIdx.x; i < 132; i += 32) shared[i] = i;
    __syncthreads();
    float elements[4] = {{-1, -1, -1, -1}};
    {statement}
    for (int matrix = 0; matrix < 4; ++matrix) out[matrix * 32 + threadIdx.x] = elements[matrix];
}}
"""


def run(statement):
    out = np.zeros((4, 32), np.float32)
    launch(SOURCE.format(statement=statement), out, block=(32, 1, 1))
    return out


def test_every_lane_gets_the_elements_that_the_manual_names(tmp_path):
    np.testing.assert_array_equal(load_matrices(EmulatorEngine(), tmp_path), matrices_as_the_manual_has_them())


def test_four_rows_of_32_floats_come_transposed():
    out = run("load_matrices(elements, shared + threadIdx.x / 8 * 32 + threadIdx.x % 8 * 4);")
    np.testing.assert_array_equal(out, np.arange(128).reshape(4, 32))


def test_elements_of_16_bits_come_transposed():
    """As the manual has .trans: lane T has elements 2 * (T % 4) and the next of column T / 4."""
    source = (
        SOURCE.replace("float", "unsigned").replace("-1, -1, -1, -1", "").replace("= i;", "= 2 * i | 2 * i + 1 << 16;")
    )
    statement = "load_matrices_transposed(elements, shared + threadIdx.x * 4);"
    out = np.zeros((4, 32), np.uint32)
    launch(source.format(statement=statement), out, block=(32, 1, 1))
    rows = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    expected = rows.transpose(0, 2, 1).reshape(4, 32, 2).copy().view(np.uint32)[..., 0]
    np.testing.assert_array_equal(out, expected)


def test_lanes_may_name_one_row():
    out = run("load_matrices(elements, shared + 8);")
    np.testing.assert_array_equal(out, np.tile([8, 9, 10, 11], (4, 8)))


def test_a_row_off_16_bytes_is_refused():
    with pytest.raises(LaunchError, match=r"load_matrices \(.*:8\) .* multiple of 16 bytes, got 4 bytes past one"):
        run("load_matrices(elements, shared + 4 * threadIdx.x + 1);")


def test_a_row_outside_of_shared_memory_is_refused():
    with pytest.raises(LaunchError, match=r"load_matrices .* 16 bytes that are not all in shared memory"):
        run("load_matrices(elements, shared + 4 * threadIdx.x + 8);")
    with pytest.raises(LaunchError, match=r"load_matrices .* 16 bytes that are not all in shared memory"):
        run("load_matrices(elements, out);")


def test_a_lane_that_stays_away_is_found():
    with pytest.raises(LaunchError, match="load_matrices"):
        run("if (threadIdx.x != 7) load_matrices(elements, shared + 4 * threadIdx.x);")
