"""Sequences of ranks' streams, as data: no memory is used by two steps that nothing orders, unless both read it.

Streams of all ranks are simulated as a partial order: what may run at the same time is not ordered.
"""

from itertools import chain, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor")

from tilewright.frameworks.torch.distributed.sequences import (
    COUNTER_BYTES,
    LANE,
    LANES,
    MAIN,
    OTHER_SIDE,
    SIDE,
    Check,
    Multiply,
    RankCall,
    all_gather,
    reduce_scatter,
    tight,
)
from tilewright.runtime.sequence import Await, DeviceCopy, RecordEvent, Signal, Wait

ITEM = 2
HALF = 1 << 40
"""Bytes between the halves that calls alternate between."""


class Caller(NamedTuple):
    """Writes the factors before a call; after it, reads the results, and uses all memory for something else."""

    before: bool
    stream: int = MAIN


class Access(NamedTuple):
    memory: tuple
    begin: int
    end: int
    writes: bool


def span(of, memory, writes):
    by_row, by_col = of.strides
    last = (of.rows - 1) * by_row + (of.cols - 1) * by_col
    return Access(memory(of.location), of.location.offset, of.location.offset + (last + 1) * ITEM, writes)


def accesses(step, rank, call):
    """Memory that a step of a rank reads and writes. Results of parts of columns share lines: each row is a span."""

    def memory(location):
        return (
            (int(location.base.removeprefix("memory")), call % 2)
            if "memory" in location.base
            else (rank, location.base)
        )

    def rows_of(of, writes):
        each = of._replace(rows=1)
        step = of.strides[0] * ITEM
        return [
            span(each._replace(location=of.location._replace(offset=of.location.offset + i * step)), memory, writes)
            for i in range(of.rows)
        ]

    if isinstance(step, Multiply):
        reads = [span(of, memory, False) for of in (step.a, step.b, step.c) if of is not None]
        return reads + rows_of(step.out, True)
    if isinstance(step, DeviceCopy):
        found = (step.source, False), (step.to, True)
        return [Access(memory(at), at.offset, at.offset + step.bytes, writes) for at, writes in found]
    if isinstance(step, Caller):
        bases = ("A", "B0", "B1") if step.before else ("A", "B0", "B1", "result0", "result1", "whole", "scratch")
        return [Access((rank, base), 0, HALF, True) for base in bases]
    return []


class Order:
    """Which step of which rank comes behind which: bit masks of all that is before each."""

    def __init__(self, calls: list[list[RankCall]]) -> None:
        """Calls in their order, each with the sequence of every rank."""
        self.steps = []
        """Rank, call and step."""
        edges, of_counters, waits, signalled = {}, {}, [], 0
        last_of, end_of, ended = {}, {}, {}
        for call, ranks in enumerate(calls):
            for rank, sequence in enumerate(ranks):
                events = {}
                for step in (Caller(True), *sequence.steps, Caller(False)):
                    number = len(self.steps)
                    self.steps.append((rank, call, step))
                    stream = rank, step.stream
                    edges[number] = {last_of[stream]} if stream in last_of else set()
                    if isinstance(step, Caller) and step.before and rank in end_of:
                        edges[number].add(end_of[rank])
                    last_of[stream] = number
                    if isinstance(step, RecordEvent):
                        events[step.event] = number
                    elif isinstance(step, Await):
                        edges[number].add(events[step.event])
                    elif isinstance(step, Signal):
                        of_counters.setdefault(step.counter, []).append((signalled + step.number, number))
                    elif isinstance(step, Wait):
                        waits.append((step.counter, signalled + step.number, number))
                end_of[rank] = last_of[rank, MAIN]
                ended[rank, call] = end_of[rank]
            signalled += ranks[0].signals
        for signals in of_counters.values():
            assert all(one < other for (one, _), (other, _) in pairwise(signals)), "a number that goes back"
        for counter, number, waiting in waits:
            edges[waiting].add(next(by for one, by in of_counters[counter] if one >= number))
        self.before = {}
        for number in range(len(self.steps)):
            self._find(number, edges)

    def _find(self, number, edges):
        """Bits of all steps before one. Where steps wait for each other, none is ever done."""
        waiting = [number]
        while waiting:
            at = waiting[-1]
            open_ = [one for one in edges[at] if self.before.get(one) is None]
            if at in self.before and self.before[at] is None and open_:
                raise AssertionError("steps wait for each other")
            if open_:
                self.before[at] = None
                waiting += open_
                continue
            mask = 0
            for one in edges[at]:
                mask |= self.before[one] | 1 << one
            self.before[at] = mask
            waiting.pop()
            while waiting and self.before.get(waiting[-1]) is not None:
                waiting.pop()

    def is_before(self, one: int, other: int) -> bool:
        return bool(self.before[other] >> one & 1)

    def races(self):
        """Pairs of steps that use the same memory, one of them to write, and that nothing orders."""
        of_memory = {}
        for number, (rank, call, step) in enumerate(self.steps):
            for access in accesses(step, rank, call):
                of_memory.setdefault(access.memory, []).append((number, access))
        found = []
        for several in of_memory.values():
            for index, (one, first) in enumerate(several):
                for other, second in several[:index]:
                    if one == other or not (first.writes or second.writes):
                        continue
                    meets = first.begin < second.end and second.begin < first.end
                    if meets and not self.is_before(one, other) and not self.is_before(other, one):
                        found.append((self.steps[other], self.steps[one]))
        return found


def calls_of(purpose, size, shapes):
    """Calls of one exchange, of these shapes: rows of a rank, columns and k."""
    for rows, n, k, extra in shapes:
        B = [tight(f"B{number}", 0, k, n) for number in range(2)]
        if purpose == "all_gather":
            yield [all_gather(rank, size, tight("A", 0, rows, k), B[: 1 + extra], ITEM, extra) for rank in range(size)]
        else:
            A = tight("A", 0, size * rows, k)
            yield [reduce_scatter(rank, size, A, B[0], ITEM, extra) for rank in range(size)]


SHAPES = st.tuples(
    st.integers(1, 6), st.sampled_from((1, 3, 300, 700, 1100, 10**8)), st.sampled_from((1, 8, 1100)), st.booleans()
)
"""With 10**8 columns, a sum moves in four parts."""


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(("all_gather", "reduce_scatter")), st.integers(2, 5), st.lists(SHAPES, min_size=1, max_size=4))
def test_no_memory_is_overwritten_before_it_was_read(purpose, size, shapes):
    order = Order(list(calls_of(purpose, size, shapes)))
    assert not order.races()


@pytest.mark.parametrize("purpose", ["all_gather", "reduce_scatter"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_call_is_checked_behind_all_its_waits_and_before_its_results(purpose, size):
    order = Order(list(calls_of(purpose, size, [(4, 10**8, 1100, True), (4, 3, 8, False)])))
    for number, (rank, call, step) in enumerate(order.steps):
        if not isinstance(step, Check):
            continue
        of_call = [(one, other) for one, (by, of, other) in enumerate(order.steps) if (by, of) == (rank, call)]
        waits = [one for one, other in of_call if isinstance(other, Wait)]
        assert waits and all(order.is_before(one, number) for one in waits)
        (end,) = [one for one, other in of_call if isinstance(other, Caller) and not other.before]
        assert order.is_before(number, end)


def without(sequence, index):
    """A sequence without a step."""
    return sequence._replace(steps=sequence.steps[:index] + sequence.steps[index + 1 :])


@pytest.mark.first(2)
@pytest.mark.parametrize("purpose", ["all_gather", "reduce_scatter"])
@pytest.mark.parametrize("size", [2, 3])
def test_every_wait_is_needed(purpose, size):
    """Without any of them, some memory is used too early, or the check comes too early or too late."""
    calls = list(calls_of(purpose, size, [(4, 10**8, 1100, True)] * 3))
    for index, step in enumerate(calls[1][0].steps):
        if not isinstance(step, (Wait, Await)):
            continue
        changed = [[without(ranks[0], index), *ranks[1:]] for ranks in calls]
        order = Order(changed)
        own = [(one, call, step) for one, (rank, call, step) in enumerate(order.steps) if rank == 0]
        unordered = [
            (one, other)
            for one, of_one, first in own
            for other, of_other, second in own
            if of_one == of_other
            if (isinstance(first, Wait) and isinstance(second, Check))
            or (isinstance(first, Check) and isinstance(second, Caller) and not second.before)
            if not order.is_before(one, other)
        ]
        assert order.races() or unordered, f"step {index} of {calls[1][0].steps}: {step}"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_is_sent_is_what_is_waited_for(size):
    for purpose in ("all_gather", "reduce_scatter"):
        (ranks,) = calls_of(purpose, size, [(4, 10**8, 1100, True)])
        for rank, sequence in enumerate(ranks):
            signals = {}
            for other in ranks:
                for step in other.steps:
                    if isinstance(step, Signal) and step.counter.base == f"counters{rank}":
                        signals.setdefault(divmod(step.counter.offset // COUNTER_BYTES, len(LANES)), []).append(
                            step.number
                        )
            assert signals.keys() == sequence.sources
            assert all(numbers[-1] == sequence.signals for numbers in signals.values())
            waited = {
                divmod(step.counter.offset // COUNTER_BYTES, len(LANES))
                for step in sequence.steps
                if isinstance(step, Wait)
            }
            assert waited == sequence.sources


def test_products_and_copies_have_streams_of_their_own():
    for purpose, copies in (("all_gather", {SIDE}), ("reduce_scatter", {SIDE, OTHER_SIDE})):
        for sequence in chain.from_iterable(calls_of(purpose, 3, [(4, 10**8, 1100, True)])):
            for kind, streams in ((Multiply, {MAIN, LANE}), (DeviceCopy, copies), (Signal, copies)):
                assert {step.stream for step in sequence.steps if isinstance(step, kind)} == streams
