"""Traces: the requests of a warp, and who wrote C."""

from functools import cache

import numpy as np
import pytest

from tilewright.core.errors import LaunchError
from tilewright.core.problem import Problem
from tilewright.emulator.trace import Event, instructions, trace
from tilewright.kernels import find


@cache
def traced(name, shape, **overrides):
    kernel = find(name)
    return trace(kernel, kernel.config(overrides), Problem.parse(shape))


def test_lanes_at_one_place_as_often_belong_to_one_instruction():
    events = [Event("global", "load", 0, lane, site, lane + 10 * turn, 4, 0)
              for lane in (0, 1) for turn in (0, 1) for site in (100, 200)]  # fmt: skip
    assert [[event.address for event in one] for one in instructions(events)] == [[0, 1], [0, 1], [10, 11], [10, 11]]


def test_naive_asks_a_sector_for_each_lane_and_coalesced_does_not():
    for name, sectors in (("naive", {"A": 32, "B": 1, "C": 32}), ("coalesced", {"A": 1, "B": 4, "C": 4})):
        seen = traced(name, "32x32x16")
        for array, count in sectors.items():
            request = seen.first(array, ("store",) if array == "C" else ("load",), shared=False)
            assert (array, len(request.sectors)) == (array, count)


def test_a_trace_knows_which_elements_lie_in_shared_memory():
    seen = traced("vectorized", "128x128x8")
    of_a, of_b = (seen.first(array, ("load",), shared=True) for array in "AB")
    assert [(access.row, access.col) for access in of_a.accesses] == [(lane // 16 * 8, 0) for lane in range(32)]
    assert [(access.row, access.col) for access in of_b.accesses] == [(0, lane % 16 * 8) for lane in range(32)]
    stores = seen.first("A", ("store",), shared=True)
    assert len({access.address // 4 % 32 for access in stores.accesses}) == 16, "two lanes a bank"


def test_asynchronous_copies_are_requests_on_both_sides():
    seen = traced("async_copy", "64x128x16")
    assert len(seen.first("A", ("copy",), shared=False).sectors) == 16
    copies = seen.first("A", ("copy",), shared=True)
    assert sorted(access.address for access in copies.accesses) == list(range(0, 512, 16))
    assert seen.first("A", ("load", "store"), shared=False) is None


def test_tiles_of_the_copy_engine_are_traced():
    seen = traced("tma_packed", "128x128x32", WORKERS=0)
    assert {(tile.array, tile.rows, tile.cols) for tile in seen.tiles} == {("A", 32, 128), ("B", 32, 128)}


def test_writers_of_c_are_those_of_the_kernel():
    seen = traced("warptiled", "128x256x16")
    rows, cols = np.indices((128, 256))
    assert (seen.blocks == rows // 64 * 2 + cols // 128).all()
    warps = rows % 64 // 32 * 2 + cols % 128 // 64
    lanes = rows % 16 // 4 * 8 + cols % 32 // 4
    assert (seen.threads == warps * 32 + lanes).all()


def test_the_copy_engine_writes_for_the_lane_that_asked():
    """16 rows of each 64, 64 columns at a time, for lane 0 of each warp; elements of C have two bytes."""
    kernel = find("tma_store")
    config = kernel.config({"BN": 64, "CLUSTER_M": 1, "GROUP_M": 1})
    seen = trace(kernel, config, Problem(512, 128, 64, kernel.support.arithmetic()))
    rows, cols = np.indices((512, 128))
    tile = rows // 128 * 2 + cols // 64  # as many blocks as the emulator has multiprocessors
    blocks = tile % (seen.blocks.max() + 1)
    assert (seen.blocks == blocks).all()
    consumer = tile // (seen.blocks.max() + 1) % 2
    assert (seen.threads == consumer * 128 + rows % 64 // 16 * 32).all()


def test_half_elements_are_distinguished_by_their_sign():
    kernel = find("wmma_f16")
    seen = trace(kernel, kernel.config(), Problem(128, 128, 32, "float16"))
    assert {request.array for request in seen.requests if request.shared} >= {"A", "B"}
    assert len(seen.first("B", ("load",), shared=False).sectors) == 16


def test_a_problem_without_results_cannot_be_traced():
    with pytest.raises(LaunchError, match="must have elements of C, got 0x4x4"):
        trace(find("naive"), find("naive").config(), Problem(0, 4, 4))


def test_requests_know_their_line_of_the_kernel():
    source = find("vectorized").source.read_text().splitlines()
    seen = traced("vectorized", "128x128x8")

    def line(array, kind, shared):
        name, number = seen.first(array, (kind,), shared=shared).place.split(":")
        assert name == "vectorized.cu"
        return source[int(number) - 1]

    assert "load4(A_tile" in line("A", "load", False)
    assert "As[col][row] = four.x" in line("A", "store", True)
    assert "load_fragment(b, &Bs" in line("B", "load", True)
    assert "store4(C" in line("C", "store", False)


@pytest.mark.parametrize(("where", "message"), [({"warp": -1}, "warp must be 0 to 31")])
def test_a_warp_that_there_is_not_cannot_be_traced(where, message):
    with pytest.raises(LaunchError, match=message):
        trace(find("naive"), find("naive").config(), Problem(64, 64, 4), **where)


def test_copies_of_nothing_but_zeros_are_no_accesses_of_global_memory():
    seen = traced("async_copy", "1x128x1")
    of_a, of_b = (seen.first(array, ("copy",), shared=False) for array in "AB")
    assert [(access.lane, access.row, access.col) for access in of_a.accesses] == [(0, 0, 0)]
    assert [access.lane for access in of_b.accesses] == list(range(32))
    assert len(seen.first("A", ("copy",), shared=True).accesses) == 32
