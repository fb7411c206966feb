"""Calls that differ in sizes alone from one that the launcher knows: it has Python plan them."""

import gc
import struct
import weakref

import pytest
from exchange import BFLOAT16, Array, set_stream
from launcher_products import STEP, factors

from tilewright.runtime.plan import Needs

NOTHING = Needs()
C, OUT, BIAS = 0x30000000, 0x40000000, 0x50000000


class Planner:
    """Notes what is planned, and answers with a step of its own for each."""

    def __init__(self, product, needs=NOTHING, answer=None):
        self.product, self.needs, self.answer = product, needs, answer
        self.asked = []

    def __call__(self, *sizes):
        self.asked.append(sizes)
        if isinstance(self.answer, BaseException):
            raise self.answer
        if self.answer is not None:
            return self.answer()
        step = STEP._replace(function=0x100 + len(self.asked))
        self.product.driver.takes(step)
        out = None if sizes[-1] else (self.product.new, sizes[:2], {})
        return (step,), self.needs, out, False


@pytest.fixture
def planner(product):
    return Planner(product)


def known(product, planner, *more, **named):
    """Have the launcher know a product of 4 x 3 by 3 x 5 elements, and who plans others."""
    assert product.remember(*factors(), *more, plan=planner, **named)


def matrices(m, n, k, **named):
    return Array(m, k, at=0x10000000, **named), Array(k, n, at=0x20000000, **named)


def test_other_sizes_are_planned_once_and_launched(driver, product, planner):
    known(product, planner)
    assert planner.asked == []
    for _ in range(2):
        for m, n, k in ((40, 50, 30), (2, 2, 2), (4, 5, 30)):
            result = product(*matrices(m, n, k))
            assert (result.tensor.shape[0], result.tensor.shape[1]) == (m, n)
    assert planner.asked == [(40, 50, 30, 30, 50, 0, 0), (2, 2, 2, 2, 2, 0, 0), (4, 5, 30, 30, 5, 0, 0)]
    assert [launch.function for launch in driver.launches] == [0x101, 0x102, 0x103] * 2
    addresses = 0x10000000, 0x20000000 + 32, 0, product.made[0].tensor.data, 0
    assert driver.launches[0].parameters == struct.pack("5Q2f", *addresses, 1.0, 0.0)
    assert len(product.launcher) == 4


def test_leading_dimensions_are_known_of_both_orders(driver, product, planner):
    a, b = Array(4, 3, at=0x10000000), Array(3, 5, at=0x20000000, strides=(1, 3))
    c, out = Array(4, 5, at=C, strides=(8, 1)), Array(4, 5, at=OUT, strides=(1, 8))
    assert product.remember(a, b, c, out, Array(5, at=BIAS), scaled=True, plan=planner)
    a, b = Array(40, 30, at=0x10000000, strides=(31, 1)), Array(30, 50, at=0x20000000, strides=(1, 32))
    c, out = Array(40, 50, at=C, strides=(53, 1)), Array(40, 50, at=OUT, strides=(1, 44))
    assert product(a, b, c, out, Array(50, at=BIAS), beta=2.0) is out
    assert planner.asked == [(40, 50, 30, 31, 32, 53, 44)]
    assert struct.unpack_from("5Q2f", driver.launches[0].parameters)[2:] == (C, OUT, BIAS, 1.0, 2.0)


def test_what_plans_of_a_kind_have_in_common(driver, product):
    planner = Planner(product, Needs(100, 3, 1000))
    known(product, planner, swapped=True, context=0xC1)
    set_stream(0x5EA)
    product(*matrices(40, 50, 30))
    (launch,) = driver.launches
    assert (launch.stream, launch.context) == (0x5EA, 0xC1)
    assert struct.unpack_from("2Q", launch.parameters) == (0x20000000, 0x10000000 + 32)
    assert product.asked == [(0x5EA, Needs(100, 3, 1000))]


A, B = matrices(40, 50, 30)
OTHERS = {
    "alignment": {"a": Array(40, 30, at=0x10000004)},
    "type": dict(zip("ab", matrices(40, 50, 30, dtype=BFLOAT16), strict=True)),
    "device": dict(zip("ab", matrices(40, 50, 30, device=1), strict=True)),
    "order": {"a": Array(40, 30, at=0x10000000, strides=(1, 40))},
    "reversed": {"a": Array(40, 30, at=0x10000000, strides=(-30, 1))},
    "steps in both dimensions": {"a": Array(40, 30, at=0x10000000, strides=(60, 2))},
    "rows that overlap": {"a": Array(40, 30, at=0x10000000, strides=(1, 1))},
    "a row": {"a": Array(1, 30, at=0x10000000)},
    "a column": {"b": Array(30, 1, at=0x20000000)},
    "no k": dict(zip("ab", matrices(40, 50, 0), strict=True)),
    "too large": {"a": Array(2**31, 30, at=0x10000000)},
    "rows too far apart": {"a": Array(40, 30, at=0x10000000, strides=(2**31, 1))},
    "a vector": {"a": Array(30, at=0x10000000)},
    "a batch": {"a": Array(2, 40, 30, at=0x10000000)},
    "inner sizes": {"b": Array(31, 50, at=0x20000000)},
    "an out": {"out": Array(40, 50, at=OUT)},
    "a c": {"c": Array(40, 50, at=C)},
    "a bias": {"bias": Array(50, at=BIAS)},
    "beta": {"c": Array(40, 50, at=C), "beta": 1.0},
    "options": {"options": "others"},
    "alpha = 0": {"alpha": 0.0},
}


@pytest.mark.parametrize("other", OTHERS)
def test_calls_of_other_kinds_are_missed(driver, product, planner, other):
    known(product, planner)
    assert product.misses(**{"a": A, "b": B} | OTHERS[other])
    assert planner.asked == []
    assert not product.misses(A, B)


@pytest.mark.parametrize(
    "named",
    [
        {"out": Array(40, 51, at=OUT)},
        {"out": Array(40, 50, at=A.tensor.data)},
        {"bias": Array(40, at=BIAS)},
        {"bias": Array(50, at=BIAS, strides=(2,))},
        {"bias": Array(1, 50, at=BIAS)},
        {"c": Array(50, 40, at=C)},
    ],
    ids=["out's shape", "out overlaps a", "bias of rows", "bias with gaps", "bias of two dimensions", "c's shape"],
)
def test_operands_that_do_not_fit_are_missed(product, planner, named):
    given = {"c": Array(4, 5, at=C), "out": Array(4, 5, at=OUT), "bias": Array(5, at=BIAS)}
    assert product.remember(*factors(), *given.values(), scaled=True, plan=planner)
    fitting = {"c": Array(40, 50, at=C), "out": Array(40, 50, at=OUT), "bias": Array(50, at=BIAS)}
    assert product.misses(A, B, **fitting | named, beta=1.0)
    assert planner.asked == []
    assert not product.misses(A, B, **fitting, beta=1.0)


def test_nothing_is_planned_in_a_capture(driver, product, planner):
    known(product, planner)
    driver.capture_status = 1
    assert product.misses(A, B)
    assert planner.asked == []
    driver.capture_status = 0
    assert not product.misses(A, B)
    driver.capture_status = 1
    assert not product.misses(A, B)


@pytest.mark.parametrize("answer", [lambda: None, ValueError("a test says so")], ids=["None", "an error"])
def test_what_python_does_not_plan_is_missed(product, answer):
    planner = Planner(product, answer=answer)
    known(product, planner)
    for _ in range(2):
        assert product.misses(A, B)
    assert len(planner.asked) == 2
    assert len(product.launcher) == 1


def test_an_interrupt_and_a_plan_that_is_none_are_raised(product):
    for answer, error in (
        (KeyboardInterrupt(), KeyboardInterrupt),
        (lambda: 5, TypeError),
        (lambda: ((STEP[:4],), Needs(), (product.new, (), {}), False), TypeError),
        (lambda: ((STEP,), Needs(), None, False), TypeError),
    ):
        known(product, Planner(product, answer=answer))
        with pytest.raises(error):
            product(A, B)
        assert len(product.launcher) == 1


def test_the_newest_of_a_kind_plans(product, planner):
    other = Planner(product)
    known(product, other)
    known(product, planner)
    product(A, B)
    assert (len(other.asked), len(planner.asked)) == (0, 1)


def test_plans_may_be_forgotten_while_one_is_made(product):
    planner = Planner(product)

    def answer():
        product.launcher.forget()
        planner.answer = None
        return planner(40, 50, 30, 30, 50, 0, 0)

    planner.answer = answer
    known(product, planner)
    assert product(A, B) is product.made[0]
    assert not product.misses(A, B)
    assert product.misses(*matrices(41, 51, 31)), "the kind is forgotten"


def test_what_plans_is_released(product):
    planner = Planner(product)
    planner.cycle = product.launcher, planner
    gone = weakref.ref(planner)
    known(product, planner)
    del planner
    gc.collect()
    assert gone() is not None
    product.launcher.forget()
    gc.collect()
    assert gone() is None
