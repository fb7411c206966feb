"""The memory that the cuda engine's launches get besides their operands, with a driver that only counts."""

import contextlib
import ctypes
import threading
from types import SimpleNamespace

import pytest
from cuda.bindings.driver import CUstreamCaptureMode, CUstreamCaptureStatus

from tilewright.core.errors import LaunchError
from tilewright.runtime import workspaces
from tilewright.runtime.plan import Memory, Needs
from tilewright.runtime.workspaces import Workspaces

NONE = CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
ACTIVE = CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
INVALIDATED = CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_INVALIDATED


class Driver:
    """Counts what is allocated, and holds what graphs own."""

    def __init__(self):
        self.allocated, self.zeroed, self.modes = [], [], []
        self.captures = {}  # of streams: the ids of their captures, which are their graphs as well
        self.status = ACTIVE
        self.owners = {}  # of graphs: what is to be called when they are destroyed
        self.largest = 1 << 40
        self.retains = True

    def allocate(self, current, size):
        assert self.modes[-1] == "relaxed"
        if size > self.largest:
            raise MemoryError("full")
        self.allocated.append(size)
        return SimpleNamespace(pointer=1000 * len(self.allocated))

    def exchange(self, mode):
        self.modes.append("relaxed" if mode == CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED else mode)
        return 0, "before"

    def capture(self, stream):
        graph = self.captures.get(stream)
        return (0, NONE if graph is None else self.status, graph, graph, [], [], 0)

    def create(self, address, callback, count, flags):
        assert (count, flags) == (1, 1)
        return 0, (address, int(callback))

    def retain(self, graph, holder, count, flags):
        assert (count, flags) == (1, 1)
        if self.retains:
            self.owners.setdefault(graph, []).append(holder)
        return (0 if self.retains else 1,)

    def release(self, holder, count=1):
        address, callback = holder
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(callback)(address)
        return (0,)

    def destroy(self, graph):
        """Destroy a graph and all that was made of it: the driver says so from a thread of its own."""
        thread = threading.Thread(target=lambda: [self.release(holder) for holder in self.owners.pop(graph)])
        thread.start()
        thread.join()


def check(result):
    status, *values = result
    if status:
        raise LaunchError("the GPU reports an error")
    return values[0] if values else None


@pytest.fixture
def driver(monkeypatch):
    driver = Driver()
    for name, function in {
        "Allocation": driver.allocate,
        "check": check,
        "cuMemsetD32Async": lambda pointer, value, count, stream: driver.zeroed.append((pointer, value, count)) or (0,),
        "cuStreamGetCaptureInfo": driver.capture,
        "cuUserObjectCreate": driver.create,
        "cuUserObjectRelease": driver.release,
        "cuGraphRetainUserObject": driver.retain,
    }.items():
        monkeypatch.setattr(workspaces.driver if name.startswith("cu") else workspaces, name, function)
    monkeypatch.setattr("cuda.bindings.driver.cuThreadExchangeStreamCaptureMode", driver.exchange)
    monkeypatch.setattr("tilewright.runtime.driver.check", check)
    return driver


@pytest.fixture
def memory(driver):
    """Workspaces.memory."""
    device = SimpleNamespace(create_stream=lambda: SimpleNamespace(handle=99, sync=lambda: None))
    return Workspaces(device, contextlib.nullcontext()).memory


def test_a_stream_keeps_its_workspace(driver, memory):
    first = memory(7, Needs(100, 3, 50))
    assert first == Memory(1000, 100, 2000, 3, 3000, 50)
    assert memory(7, Needs(80, 3)) == first
    assert memory(8, Needs(100, 3))[::2] == (4000, 5000, 0)
    assert driver.allocated == [100, 12, 50, 100, 12]
    assert driver.zeroed == [(2000, 0, 3), (5000, 0, 3)]
    assert driver.modes == ["relaxed", "before"] * 2


def test_each_part_grows_to_twice_its_size_at_least(driver, memory):
    memory(7, Needs(100, 3, 50))
    grown = memory(7, Needs(101, 1, 10))
    assert grown == Memory(4000, 200, 2000, 3, 3000, 50)
    assert memory(7, Needs(150, 2)) == grown
    assert memory(7, Needs(100, 50)) == Memory(4000, 200, 5000, 50, 3000, 50)
    assert memory(7, Needs(relayout_bytes=1000)) == Memory(4000, 200, 5000, 50, 6000, 1000)
    assert driver.allocated[3:] == [200, 200, 1000]
    assert driver.zeroed == [(2000, 0, 3), (5000, 0, 50)]


def test_where_twice_is_too_much_it_grows_as_needed(driver, memory):
    memory(7, Needs(100))
    driver.largest = 150
    assert memory(7, Needs(101)).workspace_bytes == 101
    with pytest.raises(MemoryError):
        memory(7, Needs(151))
    assert memory(7, Needs(101)).workspace_bytes == 101


def test_nothing_is_allocated_for_nothing(driver, memory):
    assert memory(7, Needs()) == Memory()
    assert driver.allocated == []


def test_the_stream_of_each_thread_has_its_own(memory):
    found = []
    first = memory(2, Needs(100))
    thread = threading.Thread(target=lambda: found.append(memory(2, Needs(100))))
    thread.start()
    thread.join()
    assert found != [first]
    assert memory(2, Needs(100)) == first


def test_two_graphs_that_are_captured_on_one_stream_do_not_share(driver, memory):
    own = memory(7, Needs(100, 3))
    graphs = []
    for graph in (41, 42):
        driver.captures[7] = graph
        graphs.append(memory(7, Needs(100, 3)))
        assert memory(7, Needs(90, 2)) == graphs[-1]
    del driver.captures[7]
    assert memory(7, Needs(100, 3)) == own
    assert len({own.workspace, *(graph.workspace for graph in graphs)}) == 3
    assert len({own.counters, *(graph.counters for graph in graphs)}) == 3
    assert len(driver.zeroed) == 3


def test_streams_that_are_captured_into_one_graph_do_not_share(driver, memory):
    driver.captures = {7: 41, 8: 41}
    assert memory(7, Needs(100)) != memory(8, Needs(100))
    assert len(driver.owners[41]) == 2


def test_the_next_graph_gets_what_a_destroyed_one_had(driver, memory):
    driver.captures[7] = 41
    first = memory(7, Needs(100, 3))
    driver.captures[7] = 42
    second = memory(7, Needs(100, 3))
    driver.destroy(41)
    driver.captures[7] = 43
    larger = memory(7, Needs(101))
    assert larger.workspace not in (first.workspace, second.workspace)
    driver.captures[7] = 44
    assert memory(7, Needs(50, 3)) == first
    driver.captures[7] = 45
    assert memory(7, Needs(50, 3)) not in (first, second, larger)
    driver.destroy(44)
    driver.destroy(43)
    driver.captures = {8: 46, 9: 46}
    assert memory(8, Needs(101)) == larger
    assert memory(9, Needs(100, 3)) == first


def test_a_capture_that_needs_more_keeps_what_it_had(driver, memory):
    driver.captures[7] = 41
    first = memory(7, Needs(100))
    more = memory(7, Needs(200))
    assert more.workspace != first.workspace
    assert memory(7, Needs(100)) == more
    driver.captures[7] = 42
    assert memory(7, Needs(100)) not in (first, more)
    driver.destroy(41)
    driver.captures = {8: 43, 9: 43}
    assert {memory(8, Needs(100)), memory(9, Needs(100))} == {first, more}


def test_memory_that_a_graph_does_not_hold_is_not_used(driver, memory):
    driver.captures[7] = 41
    driver.retains = False
    for _ in range(2):
        with pytest.raises(LaunchError):
            memory(7, Needs(100))
    driver.retains = True
    found = memory(7, Needs(100))
    assert found.workspace == 3000
    assert len(driver.owners[41]) == 1


def test_a_capture_that_has_failed_is_none(driver, memory):
    own = memory(7, Needs(100))
    driver.captures[7], driver.status = 41, INVALIDATED
    assert memory(7, Needs(100)) == own
    assert not driver.owners


def test_many_threads(driver, memory):
    found = [[] for _ in range(4)]

    def work(stream):
        for size in range(1, 200):
            found[stream].append(memory(stream + 10, Needs(size)))

    threads = [threading.Thread(target=work, args=(stream,)) for stream in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream, memories in enumerate(found):
        assert [one.workspace_bytes >= size for size, one in enumerate(memories, 1)] == [True] * 199
        others = {one.workspace for other in found[:stream] for one in other}
        assert not others & {one.workspace for one in memories}
