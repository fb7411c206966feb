"""Products of parts by the compiled launcher: one launch, with counters and memory for copies of its stream's."""

import struct

import pytest
from exchange import Array, set_stream
from launcher_products import MEMORY

from tilewright.core.problem import Problem
from tilewright.kernels import find
from tilewright.kernels.split import RANGE_WORDS, SPLIT_COUNTERS
from tilewright.kernels.support import Addresses
from tilewright.runtime import relayouts, tensor_maps
from tilewright.runtime.arguments import pack, shape_of
from tilewright.runtime.cuda_launch import describe
from tilewright.runtime.plan import OVERLAPS, Memory, Step

M, N, K = 70, 52, 130
MULTIPROCESSORS = 4
A, B = 0x10000000, 0x20000000
OTHER = Memory(0x11000, 1 << 20, 0x12000, 1 << 10, 0x13000, 1 << 20)


def planned(kernel):
    """The job of a product, its step, and the memory that it needs."""
    found = relayouts.jobs(kernel, kernel.config(), Problem(M, N, K), Addresses())
    (job,) = found.jobs
    layouts = tensor_maps.layouts(job.kernel, job.config, job.problem, job.variant.aligned)
    maps = {name: describe(layout) for name, layout in layouts.items()}
    division = kernel.scheduled(job.problem, job.config, MULTIPROCESSORS).division
    arguments, slots = pack(kernel, job.problem, job.sources, maps, division, relayouts.numbers(job.copies))
    step = Step(1, (1, 1, 1), (32, 1, 1), 0, OVERLAPS, arguments, (0,), slots)
    return job, step, relayouts.needs(found, MULTIPROCESSORS)


def addresses(job, launch):
    """Addresses that the launch was given for its kernel's parameters, by name; of D for the pointer."""
    named = [slot for slot in reversed(shape_of(job.kernel.arguments).slots) if slot.kind != "scalar"]
    return {slot.source: struct.unpack_from("Q", launch.parameters, slot.offset)[0] for slot in named}


@pytest.fixture(params=["gemm_bf16x6", "gemm_fp16x3", "gemm_mma_bf16x6"])
def plan(request, driver, product):
    """The job of a plan that the launcher remembers, its needs, and its arrays."""
    job, step, needs = planned(find(request.param))
    a, b = Array(M, K, at=A), Array(K, N, at=B)
    assert product.remember(a, b, steps=(step,), needs=needs, new=(product.new, (M, N), {}))
    return job, needs, (a, b)


def check(job, launch, memory):
    """That the launch is given the counters and the copies of this memory, and the operands; returns D."""
    given = addresses(job, launch)
    assert (launch.function, launch.attribute) == (1, OVERLAPS)
    assert given["counters"] == memory.counters
    assert (given["range_a"], given["range_b"]) == (memory.counters, memory.counters + 4 * RANGE_WORDS)
    assert (given["from_a"], given["from_b"]) == (A, B)
    assert (given["A"], given["B"]) == (given["to_a"], given["to_b"])
    ends = [given["to_a"], given["to_b"], memory.relayout + memory.relayout_bytes]
    assert memory.relayout == ends[0] < ends[1] < ends[2]
    for name, *between in (("scales_a", *ends[:2]), ("scales_b", *ends[1:])):
        scaled = between[0] < given[name] < between[1]
        assert scaled if job.kernel.split.scaled else given[name] == 0
    return given["D"]


def test_the_counters_are_those_of_the_stream(driver, product, plan):
    job, needs, arrays = plan
    assert needs.counters == SPLIT_COUNTERS
    set_stream(0x5EA)
    for turn in range(3):
        result = product(*arrays)
        (launch,) = driver.launches[turn:]
        assert launch.stream == 0x5EA
        assert check(job, launch, MEMORY) == result.tensor.data
    assert product.asked == [(0x5EA, needs)]


def test_a_capture_has_counters_of_its_own(driver, product, plan):
    job, needs, arrays = plan
    product(*arrays)
    given = product.memory
    product.launcher.forget()
    memories = [MEMORY, OTHER]

    def memory(stream, needs):
        given(stream, needs)
        return memories[len(product.asked) % 2]

    _, step, _ = planned(job.kernel)
    assert product.remember(*arrays, steps=(step,), needs=needs, new=(product.new, (M, N), {}), memory=memory)
    driver.capture_status = 1
    for turn in range(1, 5):
        product(*arrays)
        check(job, driver.launches[turn], memories[len(product.asked) % 2])
    assert len(product.asked) == 5, "asked for each capture"


def test_two_streams_share_no_counters(driver, product, plan):
    job, needs, arrays = plan
    by_stream = {1: MEMORY, 2: OTHER}
    _, step, _ = planned(job.kernel)
    new = (product.new, (M, N), {})
    product.remember(*arrays, steps=(step,), needs=needs, new=new, memory=lambda stream, needs: by_stream[stream])
    for turn, stream in enumerate((1, 2, 1, 2)):
        set_stream(stream)
        product(*arrays)
        check(job, driver.launches[turn], by_stream[stream])
