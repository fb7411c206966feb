"""Memory that the launcher asks for, and how long the objects live that it knows."""

import gc
import sys
import threading
import weakref
from functools import partial

import pytest
from exchange import Array, set_stream
from launcher_products import MEMORY, Product, factors, in_threads

from tilewright.core.errors import LaunchError
from tilewright.runtime.plan import Needs

# Memory besides the operands.


def test_a_streams_memory_is_asked_for_once(product):
    a, b = factors()
    needs = Needs(100, 3, 7)
    product.remember(a, b, needs=needs)
    for stream in (1, 9, 1, 9):
        set_stream(stream)
        product(a, b)
    assert product.asked == [(1, needs), (9, needs)]
    product.launcher.forget()
    product.remember(a, b, needs=needs)
    product(a, b)
    assert product.asked[2:] == [(9, needs)]


@pytest.mark.parametrize("more", [Needs((1 << 20) + 1), Needs(counters=(1 << 10) + 1), Needs(relayout_bytes=1 << 21)])
def test_memory_that_does_not_suffice_is_asked_for_again(product, more):
    a, b = factors()
    product.remember(a, b, needs=Needs(*MEMORY[1::2]))
    product.remember(a, b, needs=more, options="more")
    product(a, b)
    product(a, b)
    product(a, b, options="more")
    assert [needs for _, needs in product.asked] == [Needs(*MEMORY[1::2]), more]


def test_no_memory_is_asked_for_without_need(driver, product):
    a, b = factors()
    driver.capture_query = 719
    product.remember(a, b)
    product(a, b)
    assert product.asked == []


def test_contexts_do_not_share_memory(product):
    a, b = factors()
    for context in (1, 2):
        product.remember(a, b, needs=Needs(1), context=context, options=context)
        product(a, b, options=context)
    assert len(product.asked) == 2


def test_every_thread_has_memory_for_its_own_stream(product):
    a, b = factors()
    product.remember(a, b, needs=Needs(1))
    barrier = threading.Barrier(3)

    def work():
        for _ in range(3):
            product(a, b)
        barrier.wait()  # a thread that has ended may lend its identity to the next

    for stream, asked in ((1, 1), (2, 4)):
        product.asked.clear()
        set_stream(stream)
        product(a, b)
        in_threads([work] * 3)
        assert len(product.asked) == asked


def test_a_capture_asks_each_time_and_is_not_remembered(driver, product):
    a, b = factors()
    product.remember(a, b, needs=Needs(1))
    for capturing, asked in ((1, 1), (1, 2), (0, 3), (0, 3), (1, 4), (0, 4)):
        driver.capture_status = capturing
        product(a, b)
        assert len(product.asked) == asked


def test_full_memory_is_a_miss_and_other_errors_are_the_callers(driver, product):
    def refused(stream, needs):
        raise errors.pop()

    errors = [LaunchError("refused"), MemoryError("full")]
    a, b = factors()
    product.remember(a, b, needs=Needs(1), memory=refused)
    assert product.misses(a, b)
    with pytest.raises(LaunchError, match="refused"):
        product(a, b)
    assert (driver.current_context, driver.launch_count) == (0, 0)


# Objects live as long as they should.


def test_references(driver, product):
    a, b = factors()
    c, out, bias, options = Array(4, 5, at=0x30000000), Array(4, 5, at=0x40000000), Array(5), ("x", 1)
    product.remember(a, b, c, out, bias, options, needs=Needs(1), scaled=True)
    product.remember(a, b)
    objects = (a, b, c, out, bias, options, product.miss)

    def run():
        product(a, b, c, out, bias, options, alpha=1.5, beta=3.5)
        product(a, b)
        product.misses(a, b, c)
        product.misses(a, b, options=("unknown",))
        product.made.clear()
        driver.failing = 719
        for arguments in ((a, b), (a, b, c, out, bias, options)):
            with pytest.raises(LaunchError):
                product(*arguments, beta=2.5 * (len(arguments) > 2))
        driver.failing = 0
        product.made.clear()

    def count():
        gc.collect()
        arrays = sum(isinstance(one, Array) for one in gc.get_objects())
        return [sys.getrefcount(one) for one in objects], arrays

    run()
    before = count()
    for _ in range(100):
        run()
    assert count() == before


def test_plans_outlive_their_arrays(product):
    a, b = factors()
    gone = weakref.ref(a)
    product.remember(a, b)
    del a, b
    assert gone() is None
    assert not product.misses(*factors())


def test_what_a_launcher_keeps_goes_with_it(driver, launcher_module):
    class Engine:
        """Holds the launcher that holds it."""

        def memory(self, stream, needs):
            return MEMORY

    engine = Engine()
    product = Product(launcher_module.Launcher(driver.path), launcher_module.MISS, driver)
    engine.launcher, gone = product.launcher, weakref.ref(engine)
    product.remember(*factors(), memory=engine.memory, needs=Needs(1), options=engine)
    del engine, product
    gc.collect()
    assert gone() is None


def test_forgotten_while_options_are_compared(product):
    """Comparing options may run Python, and that another thread."""

    class Options:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            product.launcher.forget()
            return True

    a, b = factors()
    for _ in range(3):
        product.remember(a, b, options=Options())
        product.misses(a, b, options=Options())
        assert len(product.launcher) == 0


def test_forgotten_while_a_result_is_made(driver, product):
    def new():
        product.launcher.forget()
        gc.collect()
        return Array(4, 5)

    a, b = factors()
    product.remember(a, b, new=(new, (), {}))
    assert not product.misses(a, b)
    assert driver.launch_count == 1
    assert product.misses(a, b)


def test_threads_share_a_launcher(driver, product):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    outs = [Array(4, 5, at=0xA0000000 + (i << 12)) for i in range(4)]
    failures = []

    def work(out):
        a, b = factors()
        for i in range(300):
            product.remember(a, b, out=out, options=i % 7)
            if product(a, b, out=out, options=i % 7) not in (out, product.miss):
                failures.append(i)
            if i % 50 == 0:
                product.launcher.forget()

    try:
        in_threads([partial(work, out) for out in outs])
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert driver.launch_count > 0
