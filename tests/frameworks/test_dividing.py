"""How products are divided among GPUs, and when they are expected to end."""

from itertools import pairwise

import pytest

from tilewright.frameworks import dividing
from tilewright.frameworks.dividing import LANE_STEP_US, STEP_US, Cuts, Workload, divide, pieces, share_us

LINK = 3.5e5


def even(rows, cols):
    """Microseconds of a product on a GPU that has no waves."""
    return rows * cols * 1e-5


def in_waves(rows, cols):
    """Microseconds of a product in blocks of 128 x 256, of which the GPU runs 132 at a time."""
    return -(-(-(-rows // 128) * -(-cols // 256)) // 132) * 43.0


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("taken_us", [even, in_waves])
@pytest.mark.parametrize(("m", "n"), [(1000, 500), (4096, 4096), (16384, 16384), (65536, 8192)])
def test_no_other_share_ends_sooner(m, n, taken_us, count):
    work = Workload(m, n, 8192, 2, 2)
    found = divide(taken_us, work, count, LINK)
    heights = [end - begin for begin, end in pairwise(found.bounds)]
    assert sum(heights) == m and len(heights) == count and heights[0] == max(heights)
    assert all(begin % dividing.UNIT == 0 or begin == m for begin in found.bounds)

    def ends(own):
        each = -(-(m - own) // (dividing.UNIT * (count - 1))) * dividing.UNIT
        others = share_us(taken_us, work._replace(m=min(each, m - own)), found.cuts, count - 1, LINK)
        return max(taken_us(own, n), others)

    assert found.us == ends(heights[0])
    for own in range(-(-m // (128 * count)) * 128, m, 128):
        assert ends(own) > 0.97 * found.us  # waves end at once, so a search by halves may miss the best


def test_one_gpu_and_gpus_that_nobody_knows():
    assert divide(even, Workload(1000, 10, 10, 2, 2), 1, LINK).bounds == (0, 1000)
    assert divide(lambda rows, cols: 0.0, Workload(1024, 10, 10, 2, 2), 4, LINK).bounds == (
        0,
        256,
        512,
        768,
        1024,
    )


def test_a_slow_link_leaves_the_work_to_the_gpu_with_the_factors():
    assert divide(even, Workload(4096, 4096, 4096, 4, 4), 2, 1.0).bounds == (0, 4096, 4096)


def test_nothing_is_multiplied_before_it_came_or_copied_before_it_is_multiplied():
    share, cuts = Workload(1024, 1024, 4096, 2, 2), Cuts()
    loaded, stored = 2 * 1024 * 4096 * 2 / LINK, 1024 * 1024 * 2 / LINK
    assert share_us(even, share, cuts, 1, LINK) == pytest.approx(loaded + even(1024, 1024) + STEP_US + stored)
    adds = share._replace(reads_c=True)
    assert share_us(even, adds, cuts, 1, LINK) == pytest.approx(loaded + even(1024, 1024) + STEP_US + 2 * stored)
    assert share_us(even, share, cuts, 3, LINK) == pytest.approx(3 * loaded + even(1024, 1024) + STEP_US + 3 * stored)
    tall = share._replace(m=0)
    assert share_us(even, tall, cuts, 1, LINK) == 0


@pytest.mark.parametrize("cuts", dividing._CUTS)
@pytest.mark.parametrize(
    ("m", "n"), [(0, 500), (500, 0), (700, 800), (9000, 1000), (1000, 9000), (20_000, 12_000), (8064, 16384)]
)
def test_pieces_make_a_share_of_what_has_come(m, n, cuts):
    blocks = cuts.blocks(m, n)
    for block, length in zip(blocks, (m, n), strict=True):
        assert [one.start for one in block[1:]] == [one.stop for one in block[:-1]]
        assert not block or (block[0].start, block[-1].stop) == (0, length)
        assert all(one.start % 128 == 0 or one.start == length - cuts.last for one in block)
    made, came = {}, {"a": [], "b": []}
    found = list(pieces(*blocks))
    for piece in found:
        for side, block in piece.loads:
            assert block.start == (came[side][-1].stop if came[side] else 0)  # each once, in order
            came[side].append(block)
        assert piece.rows.stop <= came["a"][-1].stop and piece.cols.stop <= came["b"][-1].stop
        for row in (one for one in blocks[0] if piece.rows.start <= one.start < piece.rows.stop):
            for col in (one for one in blocks[1] if piece.cols.start <= one.start < piece.cols.stop):
                made[row.start, col.start] = made.get((row.start, col.start), 0) + 1
    assert made == {(row.start, col.start): 1 for row in blocks[0] for col in blocks[1]}
    if min(m, n) > 8000:  # what is copied when all is multiplied is little
        last = found[-1]
        assert cuts.last in (last.rows.stop - last.rows.start, last.cols.stop - last.cols.start)


@pytest.mark.parametrize(("rows", "cols"), [(0, 0), (0, 9), (1, 1), (255, 500), (300, 512), (777, 40), (4096, 14336)])
def test_parts_cover_a_matrix(rows, cols):
    parts = dividing.parts_of(rows, cols, 2048, 2)
    assert sum((one.stop - one.start) * (other.stop - other.start) for one, other in parts) == rows * cols
    assert len(parts) == (4 if (rows, cols) == (4096, 14336) else 2 if max(rows, cols) >= 512 else 1)
    longer = 1 if cols >= rows else 0
    spans = [part[longer] for part in parts]
    assert (spans[0].start, spans[-1].stop) == (0, max(rows, cols))
    assert all(one.stop == other.start and one.stop % 128 == 0 for one, other in pairwise(spans))
    assert all(part[1 - longer] == slice(0, min(rows, cols)) for part in parts)


@pytest.mark.parametrize(
    ("rows", "cols", "k", "item", "count"),
    [
        (2048, 14336, 2048, 2, 4),
        (2048, 14336, 2048, 4, 2),  # float32 takes longer, so the link takes a small share
        (2048, 4096, 7168, 2, 2),
        (4096, 8192, 4096, 2, 2),
        (512, 14336, 512, 2, 2),  # parts would be short
        (2048, 14336, 0, 2, 2),
    ],
)
def test_sums_move_in_more_parts_where_the_link_takes_as_long_as_the_product(rows, cols, k, item, count):
    assert len(dividing.parts_of(rows, cols, k, item)) == count


def test_ranks_wait_for_what_comes():
    each = even(512, 512) + LANE_STEP_US
    gather, scatter = dividing.all_gather_us, dividing.reduce_scatter_us
    assert gather(even, 512, 512, 10, 4, 1e9) == pytest.approx(4 * each)
    assert gather(even, 512, 512, 1e6, 4, 1.0) == pytest.approx(3e6 + each)
    half = even(512, 256) + LANE_STEP_US
    assert scatter(even, 512, 512, 512, 2, 3, 1e9) == pytest.approx(6 * half)
    moved = 512 * 256 * 2 / 1.0
    # The first half is multiplied, both move one after the other, and then the second is.
    assert scatter(even, 512, 512, 512, 2, 2, 1.0) == pytest.approx(half + 2 * moved + half)
