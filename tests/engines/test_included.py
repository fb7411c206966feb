"""Headers next to a source."""

import ctypes

import numpy as np

from tilewright.engines import nvrtc
from tilewright.engines.emulator import launch_source
from tilewright.engines.included import included

SOURCE = '#include "deep/a.cuh"\n  #  include "no.cuh"\n#include <half.cuh>\n// #include "b.cuh"\nint x;\n'


def test_those_that_lie_there_are_found_once_however_deep(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a.cuh").write_text('#pragma once\n#include "c.cuh"\n#include "b.cuh"\n')
    (tmp_path / "deep/c.cuh").write_text('#include "a.cuh"\n')
    (tmp_path / "b.cuh").write_text("b")
    (tmp_path / "half.cuh").write_text("not in quotes")
    (tmp_path / "other.cuh").write_text("nobody's")
    found = dict(included(SOURCE, tmp_path))
    assert sorted(found) == ["b.cuh", "deep/a.cuh", "deep/c.cuh"]
    assert found["b.cuh"] == "b"


def test_code_is_compiled_anew_where_a_header_has_changed(tmp_path):
    source = tmp_path / "two.cu"
    source.write_text('#include "value.cuh"\nextern "C" __global__ void two(float* out) { *out = VALUE; }\n')
    codes = []
    for value in (1, 2):
        (tmp_path / "value.cuh").write_text(f"#define VALUE {value}\n")
        out = np.zeros(1, np.float32)
        launch_source(source, "two", (1, 1, 1), (1, 1, 1), [ctypes.c_void_p(out.ctypes.data)])
        assert out[0] == value
        codes.append(nvrtc.compile_source(source.read_text(), str(source), "two", {}, "sm_90a", tmp_path).code)
    assert codes[0] != codes[1]
