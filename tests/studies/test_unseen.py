"""Shapes drawn to judge the choice of kernels by."""

import math

from studies.unseen.drawing import EVEN, UNEVEN, Drawn, draw
from tilewright.core.problem import LAYOUTS


def test_a_seed_gives_the_same_shapes_everywhere():
    first = draw(1)
    assert first == draw(1) != draw(2)
    assert first[0] == Drawn(EVEN, 40, 3160, 1880, "NT")
    assert first[-1] == Drawn(UNEVEN, 6719, 34, 615, "NN")


def test_shapes_are_spread_over_sizes_and_orders():
    drawn = draw(3)
    assert [one.kind for one in drawn] == [EVEN] * 200 + [UNEVEN] * 200
    for one in drawn:
        even = all(size % 8 == 0 for size in one[1:4])
        assert even == (one.kind == EVEN)
        assert 1e7 < 2 * one.m * one.n * one.k < 3e11
        assert all(16 <= size <= 8192 for size in one[1:4])
    assert {one.layout for one in drawn} == set(LAYOUTS)
    logs = [math.log2(size) for one in drawn for size in one[1:4]]
    assert 8.5 < sum(logs) / len(logs) < 9.5  # evenly drawn over logarithms; products of little work are left out
    assert min(logs) < 4.6 and max(logs) > 12.8


def test_no_shape_is_near_a_surveyed_problem():
    plain = draw(5, shapes=20)
    near = [(round(one.m * 1.05), one.n, round(one.k / 1.05)) for one in plain[::2]]
    far = [(round(one.m * 1.25), one.n, one.k) for one in plain[1::2]]
    again = draw(5, near + far, shapes=20)
    assert not {one[1:4] for one in plain[::2]} & {one[1:4] for one in again}
    assert {one[1:4] for one in plain[1::2] if one.kind == EVEN} <= {one[1:4] for one in again}
