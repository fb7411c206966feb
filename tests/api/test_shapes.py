"""From arrays' shapes and strides to a Problem: drawn arrays are multiplied as the Problem says they lie in memory."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.api.formulate import View, formulate, result_shape
from tilewright.core.errors import ArrayError
from tilewright.core.problem import Arithmetic, Layout

SIZES = st.sampled_from((1, 2, 3, 1, 2, 3, 5, 0))
BATCHES = st.lists(st.sampled_from((1, 2, 3)), max_size=3).map(tuple)


def view_of(array):
    return View(array.shape, tuple(stride // array.itemsize for stride in array.strides))


@st.composite
def arrays(draw, shape, may_repeat=True):
    """An array of this shape, and the memory that it is a view of.

    Axes may lie in memory in any order, with gaps, be stepped over or reversed, or repeat one element.
    """
    order = draw(st.permutations(range(len(shape)))) if draw(st.booleans()) else range(len(shape))
    plain = draw(st.booleans())
    steps = [1 if plain else draw(st.sampled_from((1, 1, 1, 2, -1))) for _ in shape]
    gaps = [draw(st.sampled_from((0, 0, 1, 2))) for _ in shape]
    repeats = [may_repeat and not plain and draw(st.sampled_from((False, False, True))) for _ in shape]
    extents = [
        1 if repeated else size * abs(step) + gap
        for size, step, gap, repeated in zip(shape, steps, gaps, repeats, strict=True)
    ]
    random = np.random.default_rng(draw(st.integers(0, 99)))
    memory = random.integers(-9, 10, math.prod(extents), dtype=np.int64)
    whole = memory.reshape([extents[axis] for axis in order]).transpose(np.argsort(order))
    cached = tuple(
        slice(None) if repeated else slice(None, None, step) for step, repeated in zip(steps, repeats, strict=True)
    )
    stepped = whole[(*cached, ...)]
    cut = tuple(slice(None) if repeated else slice(size) for size, repeated in zip(shape, repeats, strict=True))
    return np.broadcast_to(stepped[(*cut, ...)], shape) if any(repeats) else stepped[(*cut, ...)], memory


@st.composite
def factors(draw):
    """Two arrays that numpy.matmul takes, with their memories."""
    m, n, k = draw(SIZES), draw(SIZES), draw(SIZES)
    batch = draw(BATCHES)

    def shape(rows, cols, missing):
        if draw(st.sampled_from((False, False, False, True))):
            return (rows if missing == 1 else cols,)
        cached = batch[draw(st.integers(0, len(batch))) :]
        return (*(1 if draw(st.booleans()) and draw(st.booleans()) else size for size in cached), rows, cols)

    return draw(arrays(shape(m, k, 0))), draw(arrays(shape(k, n, 1)))


def places(origin, layout, rows, cols, batch):
    """For each element of a batch of matrices, where it lies."""
    row, col = (layout.ld, 1) if layout.order == "row" else (1, layout.ld)
    matrices, lines, elements = np.ogrid[:batch, :rows, :cols]
    return origin + matrices * (layout.batch_stride or 0) + lines * row + elements * col


def read(memory, origin, layout, rows, cols, batch):
    """Elements that a Problem addresses in memory; none of them may lie outside."""
    at = places(origin, layout, rows, cols, batch)
    assert not at.size or (at.min() >= 0 and at.max() < memory.size)
    return memory[at]


def origin_of(array, memory):
    return (array.ctypes.data - memory.ctypes.data) // memory.itemsize if array.size else 0


def operand(form, name, array, memory):
    """Memory that a kernel gets for an operand, a row-major copy where one is due; and where the operand begins."""
    if name not in form.copied:
        return memory, origin_of(array, memory)
    serves_all = name == "c" or math.prod(array.shape[:-2]) == 1
    shape = array.shape if serves_all else (*form.batch, *array.shape[-2:])
    return np.ascontiguousarray(np.broadcast_to(array, shape)).ravel(), 0


def multiply(form, a, b, out, c, bias):
    """Compute what the Problem says, with memory read and written where it says."""
    problem = form.problem
    m, n, k, batch = problem.m, problem.n, problem.k, problem.batch
    first, second = (b, a) if form.swapped else (a, b)
    total = read(*first, problem.a, m, k, batch) @ read(*second, problem.b, k, n, batch)
    if c is not None:
        total = total + read(*c, problem.addend, m, n, batch)
    if problem.epilogue.bias:
        length = n if problem.epilogue.bias == "row" else m
        assert bias.size == length
        total = total + (bias if problem.epilogue.bias == "row" else bias[:, None])
    memory, origin = out
    at = places(origin, problem.d, m, n, batch)
    assert not at.size or (at.min() >= 0 and at.max() < memory.size)
    assert np.unique(at).size == at.size, "elements of the result share memory"
    memory[at] = total


@given(data=st.data(), pair=factors(), side=st.sampled_from((None, "row", "column")), row_major=st.booleans())
@settings(max_examples=400, deadline=None, derandomize=True)
def test_the_problem_is_the_product_that_numpy_makes(data, pair, side, row_major):
    (a, a_memory), (b, b_memory) = pair
    expected = np.matmul(a, b)
    out = data.draw(st.none() | arrays(expected.shape, may_repeat=False), label="out")
    c = data.draw(st.none() | arrays(expected.shape), label="c")
    form = formulate(
        view_of(a),
        view_of(b),
        view_of(out[0]) if out else None,
        view_of(c[0]) if c else None,
        side,
        Arithmetic(),
        None,
        row_major=row_major,
    )
    assert form.shape == expected.shape
    assert form.batch == expected.shape[: len(form.batch)]
    m = a.shape[-2] if a.ndim > 1 else 1
    n = b.shape[-1] if b.ndim > 1 else 1
    bias = np.arange(100, 100 + (n if side == "row" else m))
    whole = expected.reshape(*form.batch, m, n)
    whole = whole + c[0].reshape(whole.shape) if c else whole
    if side:
        whole = whole + (bias if side == "row" else bias[:, None])

    in_place = out is not None and "out" not in form.copied
    target = (out[1].copy(), origin_of(*out)) if in_place else (np.zeros(expected.size, np.int64), 0)
    multiply(
        form,
        operand(form, "a", a, a_memory),
        operand(form, "b", b, b_memory),
        target,
        operand(form, "c", *c) if c else None,
        bias,
    )
    if in_place:
        array, memory = out
        after = memory.copy()
        np.ndarray(array.shape, array.dtype, after, 8 * target[1], array.strides)[...] = whole.reshape(expected.shape)
        np.testing.assert_array_equal(target[0], after)
    else:
        np.testing.assert_array_equal(target[0], whole.ravel())
    if row_major:
        assert form.problem.layout == "NN" or form.swapped


# What lies as a layout says is used where it is.


def tight(*shape):
    return np.zeros(shape, np.float32)


def formulated(a, b, out=None, c=None, side=None, **options):
    views = [None if array is None else view_of(array) for array in (out, c)]
    return formulate(view_of(a), view_of(b), *views, side, Arithmetic(), None, **options)


IN_PLACE = {
    "row-major": (tight(3, 4), tight(4, 5), "NN"),
    "b transposed": (tight(3, 4), tight(5, 4).T, "NT"),
    "a transposed": (tight(4, 3).T, tight(4, 5), "TN"),
    "both transposed": (tight(4, 3).T, tight(5, 4).T, "TT"),
    "rows of a larger matrix": (tight(6, 9)[::2, 1:5], tight(4, 5), "NN"),
    "columns of a larger matrix": (tight(9, 6).T[1:4, :8:2], tight(4, 5), "TN"),
    "a batch of transposed matrices": (tight(2, 3, 4), tight(2, 5, 4).swapaxes(1, 2), "NT"),
    "every other matrix of a batch": (tight(4, 3, 4)[::2], tight(2, 4, 5), "NN"),
    "one matrix for a batch": (tight(3, 4), tight(2, 4, 5), "NN"),
    "a broadcast batch": (np.broadcast_to(tight(3, 4), (2, 3, 4)), tight(2, 4, 5), "NN"),
    "heads of an attention": (tight(3, 8, 4).swapaxes(0, 1), tight(8, 4, 5), "NN"),
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_what_a_layout_describes_is_not_copied(case):
    a, b, layout = IN_PLACE[case]
    form = formulated(a, b)
    assert (form.copied, form.swapped, form.problem.layout) == (frozenset(), False, layout)
    assert (form.problem.m, form.problem.n, form.problem.k) == (3, 5, 4)


COPIED = {
    "reversed": (tight(3, 4)[:, ::-1], tight(4, 5), {"a"}),
    "stepped in both dimensions": (tight(3, 4), tight(8, 10)[::2, ::2], {"b"}),
    "a repeated row": (np.broadcast_to(tight(1, 4), (3, 4)), tight(4, 5), {"a"}),
    "a batch without one distance": (tight(3, 3, 3, 4)[:2, :2], tight(4, 5), {"a"}),
    "a batch from its end": (tight(2, 3, 4)[::-1], tight(2, 4, 5), {"a"}),
    "overlapping rows": (np.lib.stride_tricks.sliding_window_view(tight(6), 4), tight(4, 5), {"a"}),
}


@pytest.mark.parametrize("case", COPIED)
def test_what_no_layout_describes_is_copied(case):
    a, b, copied = COPIED[case]
    assert formulated(a, b).copied == copied


def test_where_only_rows_will_do_columns_are_copied():
    form = formulated(tight(4, 3).T, tight(5, 4).T, row_major=True)
    assert (form.copied, form.problem.layout) == ({"a", "b"}, "NN")


def test_strides_that_are_no_whole_elements_are_copied():
    form = formulate(View((3, 4), None), View.tight((4, 5)), None, None, None, Arithmetic(), None)
    assert (form.copied, form.problem.a) == ({"a"}, Layout("row", 4, 0))


# Results.


def test_a_column_major_result_is_that_of_the_transposed_factors():
    form = formulated(tight(3, 4), tight(5, 4).T, out=tight(5, 3).T, side="row")
    problem = form.problem
    assert form.swapped
    assert (problem.m, problem.n, problem.k) == (5, 3, 4)
    assert (problem.a, problem.b, problem.d) == (Layout("row", 4, 0), Layout("column", 4, 0), Layout("row", 3, 0))
    assert problem.epilogue.bias == "column"
    assert not form.copied


def test_a_result_in_the_columns_of_a_larger_matrix_is_written_there():
    form = formulated(tight(3, 4), tight(4, 5), out=tight(3, 9)[:, 2:7])
    assert (form.copied, form.problem.d) == (frozenset(), Layout("row", 9, 0))


def test_c_of_another_order_than_the_result_is_copied():
    form = formulated(tight(3, 4), tight(4, 5), c=tight(5, 3).T)
    assert (form.copied, form.swapped) == ({"c"}, False)
    form = formulated(tight(3, 4), tight(4, 5), out=tight(5, 3).T, c=tight(5, 3).T)
    assert (form.copied, form.swapped) == (frozenset(), True)


def test_a_result_that_is_columns_becomes_row_major_where_c_is_no_column():
    """Each matrix of the result is a single column, which can be read both ways."""
    plain = formulated(tight(2, 3, 4), tight(4))
    assert plain.swapped
    stepped = formulated(tight(2, 3, 4), tight(4), c=tight(2, 6)[:, ::2])
    assert (stepped.copied, stepped.swapped, stepped.problem.m) == (frozenset(), False, 6)
    assert (stepped.problem.d.ld, stepped.problem.addend.ld) == (1, 2)
    reversed_ = formulated(tight(2, 3, 4), tight(4), c=tight(2, 3)[:, ::-1])
    assert (reversed_.copied, reversed_.swapped, reversed_.problem.m) == ({"c"}, False, 6)


def test_c_may_have_another_leading_dimension():
    form = formulated(tight(3, 4), tight(4, 5), c=tight(3, 8)[:, :5])
    assert not form.copied
    assert (form.problem.d.ld, form.problem.addend.ld) == (5, 8)


# Tall products.


@pytest.mark.parametrize(
    ("a", "out"),
    [(tight(2, 3, 4), None), (tight(2, 3, 8)[..., :4], None), (tight(2, 3, 4), tight(2, 3, 9)[..., :5])],
    ids=["tight", "gaps", "out"],
)
def test_a_batch_against_one_matrix_is_one_product(a, out):
    problem = formulated(a, tight(4, 5), out=out, side="row").problem
    assert (problem.m, problem.n, problem.k, problem.batch) == (6, 5, 4, 1)
    assert problem.a.ld == a.strides[-2] // 4


def test_vectors_of_a_batch_are_rows_at_the_batchs_distance():
    problem = formulated(tight(7, 1, 12)[..., :4], tight(4, 5)).problem
    assert (problem.m, problem.batch, problem.a.ld) == (7, 1, 12)


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        (tight(2, 4, 4)[:, :3], tight(4, 5), {}),
        (tight(2, 4, 3).swapaxes(1, 2), tight(4, 5), {}),
        (tight(2, 3, 4), tight(2, 4, 5), {}),
        (tight(2, 3, 4), tight(4, 5), {"side": "column"}),
        (tight(2, 3, 4), tight(4, 5), {"out": tight(2, 4, 5)[:, :3]}),
        (np.broadcast_to(tight(3, 4), (2, 3, 4)), tight(4, 5), {}),
        (np.broadcast_to(tight(1, 4), (2, 1, 4)), tight(4, 5), {}),
    ],
    ids=["gaps between", "columns", "a batch of b", "column bias", "gaps in out", "one a", "one row"],
)
def test_a_batch_that_is_no_tall_product_stays_a_batch(a, b, options):
    problem = formulated(a, b, **options).problem
    assert (problem.m, problem.batch) == (a.shape[-2], 2)


# Shapes.


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ((), (3,), "a must be a vector, a matrix or a batch of matrices, got a scalar"),
        ((3,), (), "b must be a vector, a matrix or a batch of matrices, got a scalar"),
        ((3, 4), (5, 6), "b must have 4 rows, as a has columns: got b of 5 x 6, and a of 3 x 4"),
        ((4,), (5,), "b must have 4 rows, as a has columns: got b of 5 elements, and a of 4 elements"),
        (
            (2, 3, 4),
            (7, 3, 4, 5),
            "batches must be equal or 1 in each dimension: got a of 2 of 3 x 4, and b of 7 x 3 of 4 x 5",
        ),
    ],
)
def test_shapes_that_do_not_fit(a, b, words):
    with pytest.raises(ArrayError) as caught:
        result_shape(a, b)
    assert str(caught.value) == words


@given(st.lists(st.integers(0, 3), max_size=5).map(tuple), st.lists(st.integers(0, 3), max_size=5).map(tuple))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_shapes_fit_where_numpys_do(a, b):
    try:
        expected = np.matmul(np.zeros(a), np.zeros(b)).shape
    except ValueError:
        with pytest.raises(ArrayError):
            result_shape(a, b)
    else:
        assert result_shape(a, b)[1] == expected
