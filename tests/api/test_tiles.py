"""How a product is cut into tiles, and what is moved when: a pure function."""

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.api.out_of_core.tiles import SMALL_BYTES, Sizes, tiling, wavefront
from tilewright.core.errors import ProblemError

GIB = 2**30


def least_bytes(s):
    """Least number of bytes to move: everything once."""
    return s.m * s.k * s.a_bytes + s.k * s.n * s.b_bytes + s.m * s.n * s.d_bytes * (1 + s.reads_c)


def check_loads(cut):
    """Each step finds what it reads where loads have put it, and a load comes after what read its slot last."""
    held, last = {}, {}
    for number, step in enumerate(cut.steps):
        for load in step.loads:
            slot = load.side, load.slot
            assert load.after == last.get(slot, -1) < number
            assert load.slot < (cut.a_slots if load.side == "A" else cut.b_slots)
            held[slot] = load.line, load.part
        assert held["A", step.a_slot] == (step.row, step.part)
        assert held["B", step.b_slot] == (step.col, step.part)
        last["A", step.a_slot] = last["B", step.b_slot] = number


@st.composite
def products(draw):
    m, n, k = (draw(st.integers(1, 300)) for _ in "mnk")
    item, result = draw(st.sampled_from([(4, 4), (2, 2), (2, 4)]))
    return Sizes(m, n, k, item, item, result, draw(st.booleans()), draw(st.sampled_from([0, 6])))


@given(products(), st.integers(1000, 2_000_000))
@settings(max_examples=80, deadline=None)
def test_every_product_is_made_once_and_finds_its_blocks(monkeypatched_small, sizes, limit):
    try:
        cut = tiling.__wrapped__(sizes, limit)
    except ProblemError:
        assume(False)
    check_loads(cut)
    assert cut.held_bytes <= limit
    assert cut.moved_bytes >= least_bytes(sizes)
    down, across = -(-sizes.m // cut.rows), -(-sizes.n // cut.cols)
    assert sorted((one.row, one.col, one.part) for one in cut.steps) == sorted(
        itertools.product(range(down), range(across), range(cut.parts))
    )
    tiles = [(one.row, one.col) for one in cut.steps]
    assert all(len(set(tiles[at : at + cut.parts])) == 1 for at in range(0, len(tiles), cut.parts))


@pytest.fixture(scope="module")
def monkeypatched_small():
    """No product is so small that it is one tile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tilewright.api.out_of_core.tiles.SMALL_BYTES", 0)
        yield


@given(products(), st.integers(20_000, 500_000), st.integers(0, 500_000))
@settings(max_examples=60, deadline=None)
def test_a_small_product_is_one_tile_where_it_fits(sizes, limit, more):
    needed = tiling(sizes, 2**40).held_bytes
    m, n, k = sizes.m, sizes.n, sizes.k
    held = m * k * sizes.a_bytes + k * n * sizes.b_bytes + m * n * sizes.d_bytes
    assert needed == held + sizes.scratch * k * (m + n)
    assert len(tiling(sizes, needed + more).steps) == 1
    assert least_bytes(sizes) <= SMALL_BYTES


KNOWN = {
    # m, n, k, bytes of an element, limit: how many times everything is moved, at most
    "fits": ((16384, 16384, 16384, 4, 100 * GIB), 1.0),
    "one factor fits": ((32768, 32768, 32768, 4, 8 * GIB), 1.0),
    "little k": ((65536, 65536, 1024, 4, 8 * GIB), 1.0),
    "nothing fits": ((131072, 131072, 131072, 2, 16 * GIB), 5.0),
    "long k": ((4096, 4096, 2**20, 4, 4 * GIB), 1.0),
    "tall": ((2**22, 512, 512, 4, GIB), 1.0),
}


@pytest.mark.parametrize(("shape", "most"), KNOWN.values(), ids=KNOWN)
def test_few_bytes_are_moved(shape, most):
    *sizes, item, limit = shape
    s = Sizes(*sizes, item, item, item)
    cut = tiling(s, limit)
    assert cut.held_bytes <= limit
    assert cut.moved_bytes <= most * least_bytes(s)


def test_rows_stay_whole_where_the_result_is_most_of_what_is_moved():
    """Copies of parts of rows take longer. Where products bind, more bytes before the first of them would too."""
    assert tiling(Sizes(65536, 65536, 1024, 4, 4, 4, scratch=6), 8 * 10**9).cols == 65536
    assert tiling(Sizes(32768, 32768, 32768, 4, 4, 4, scratch=6), 8 * 10**9).cols < 32768


def test_a_result_whose_copies_bind_has_several_tiles():
    """So that some come back while blocks for others go there; tests/gpu/test_matmul_gpu.py times this product."""
    assert len(tiling(Sizes(32768, 2048, 2048, 4, 4, 4, scratch=6), 60 * GIB).steps) > 4


def test_more_memory_never_moves_more():
    s = Sizes(20000, 30000, 25000, 4, 4, 4)
    moved = [tiling(s, limit * GIB).moved_bytes for limit in (1, 2, 4, 8, 16)]
    assert all(more <= 1.02 * less for less, more in itertools.pairwise(moved))


def test_a_limit_that_nothing_fits_into_is_refused():
    with pytest.raises(
        ProblemError, match=r"memory_limit must be at least \d+ bytes for a tile of this product, got 9"
    ):
        tiling(Sizes(100, 100, 100, 4, 4, 4), 9)


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_wavefront_needs_few_blocks_at_first(down, across):
    order = wavefront(down, across)
    assert sorted(order) == sorted(itertools.product(range(down), range(across)))
    for count in range(1, len(order) + 1):
        seen = order[:count]
        blocks = len({row for row, _ in seen}) + len({col for _, col in seen})
        assert count >= min(blocks - 1, blocks**2 // 4 - blocks)
