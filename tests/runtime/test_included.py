"""Headers next to a source."""

import ctypes

import numpy as np

from launching import launch_source
from tilewright.runtime import nvrtc
from tilewright.runtime.included import included

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


def test_what_a_source_includes_by_way_of_folders_is_known(tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "second/deep").mkdir(parents=True)
    (tmp_path / "first/a.cuh").write_text('#include "deep/b.cuh"\n')
    (tmp_path / "second/a.cuh").write_text("#include <d.cuh>\n")
    (tmp_path / "second/deep/b.cuh").write_text("#include <a.cuh>\n  #  include <c.cuh>\n// #include <d.cuh>\n")
    folders = tmp_path / "first", tmp_path / "second"
    (tmp_path / "first/c.cuh").write_text("c")
    (tmp_path / "first/d.cuh").write_text("d")
    assert [name for name, _ in included("int x;\n#include <a.cuh>\n", *folders)] == [
        str(tmp_path / "second/deep/b.cuh"),
        "a.cuh",
        "c.cuh",
    ]
    assert [name for name, _ in included("#include <a.cuh>\n", folders[0])] == []
    assert [name for name, _ in included("#include <a.cuh>\n", folders[0], tmp_path)] == ["a.cuh"]


def test_a_header_of_ones_own_may_have_the_name_of_one_that_is_parsed_beforehand(tmp_path):
    (tmp_path / "half.cuh").write_text("struct half { float of; };\n")
    source = tmp_path / "own.cu"
    source.write_text('#include "half.cuh"\nextern "C" __global__ void own(float* out) { *out = half{2}.of; }\n')
    out = np.zeros(1, np.float32)
    launch_source(source, "own", (1, 1, 1), (1, 1, 1), [ctypes.c_void_p(out.ctypes.data)])
    assert out[0] == 2


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
