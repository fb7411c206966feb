"""Pictures of the page before rung 19 show what the kernels' device functions compute."""

import re
import subprocess
from pathlib import Path

import pytest

from studies.worklog import hopper
from studies.worklog.rungs import TEXTS

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "src/tilewright/kernels/include/ptx/matrix_descriptor.cuh"
MAIN = """
#include <cstdio>
int main() {
    for (unsigned line = 0; line < 8; ++line)
        for (unsigned piece = 0; piece < 8; ++piece) std::printf("%u\\n", swizzled(line, piece));
    std::printf("%llu\\n", matrix_descriptor(reinterpret_cast<void*>(0x8400), 8192).bits);
}
"""
HOST = """
#define __device__
#define __forceinline__ inline
inline unsigned shared_address(const void* x) { return (unsigned long long)x; }
"""


def test_swizzle_and_descriptor_are_those_of_the_header(tmp_path):
    source = tmp_path / "host.cpp"
    source.write_text(HOST + re.sub(r'#include "ptx.*|#pragma once', "", HEADER.read_text()) + MAIN)
    subprocess.run(["c++", "-std=c++17", source, "-o", tmp_path / "host"], check=True)
    *places, bits = map(int, subprocess.run([tmp_path / "host"], check=True, capture_output=True).stdout.split())
    assert places == [hopper.swizzled(line, piece) for line in range(8) for piece in range(8)]
    assert bits == hopper.descriptor(0x8400, 8192)


def test_a_phase_ends_with_the_last_bytes():
    assert [(one.pending, one.missing, one.phase) for one in hopper.events(1, (64, 32))] == [
        (1, 0, 0),
        (0, 96, 0),
        (0, 32, 0),
        (1, 0, 1),
    ]


@pytest.mark.parametrize("name", hopper.FIGURES)
def test_a_picture_is_small_on_the_page_and_as_committed(name):
    title, draw = hopper.FIGURES[name]
    drawn = draw()
    assert drawn.width <= 868
    text = drawn.render(title)
    assert len(text) <= 60_000
    assert (ROOT / "docs/worklog/figures" / hopper.file_name(name)).read_text() == text
    assert f"{{{{figure {name}}}}}" in (ROOT / TEXTS / hopper.PAGE).read_text()
