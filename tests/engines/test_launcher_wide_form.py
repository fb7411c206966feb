"""Plans of three launches by the compiled launcher: terms, their product, and the wide form behind it."""

import struct

import pytest
from exchange import Array, set_stream
from launcher_products import MEMORY

from tilewright.engines import relayouts, tensor_maps
from tilewright.engines.arguments import pack, shape_of
from tilewright.engines.emulator.engine import tensor_map
from tilewright.engines.plan import Memory, Step
from tilewright.engines.relayouts import SEEN_WORDS
from tilewright.kernels import find
from tilewright.kernels.spec import Choice
from tilewright.kernels.takes import Addresses
from tilewright.problem import Problem

M, N, K = 70, 52, 130
MULTIPROCESSORS = 4
A, B = 0x10000000, 0x20000000
OTHER = Memory(0x11000, 1 << 20, 0x12000, 1 << 10, 0x13000, 1 << 20)


def planned(kernel):
    """The jobs of a product with a wide form, their steps, and the memory that they need."""
    wide = find("split_k")
    found = relayouts.jobs(
        kernel, kernel.config(), Problem(M, N, K), Addresses(), Choice(wide, wide.config({"WORKERS": 2}))
    )
    steps = []
    for number, job in enumerate(found.jobs, 1):
        layouts = tensor_maps.layouts(job.kernel, job.config, job.problem, job.variant.aligned)
        maps = {name: tensor_map(layout) for name, layout in layouts.items()}
        more = {
            **job.kernel.numbers(job.problem, job.config, MULTIPROCESSORS),
            **relayouts.numbers(job.copies),
        }
        arguments, slots = pack(job.kernel, job.problem, job.sources, maps, more)
        steps.append(Step(number, (number, 1, 1), (32, 1, 1), 0, True, arguments, (0,), slots))
    return found.jobs, tuple(steps), relayouts.needs(found, MULTIPROCESSORS)


def addresses(job, launch):
    """What a launch was given for each address that its kernel asks for, by name."""
    slots = shape_of(job.kernel.arguments).slots
    named = [slot for slot in slots if slot.kind != "scalar"]
    return {slot.source: struct.unpack_from("Q", launch.parameters, slot.offset)[0] for slot in named}


@pytest.fixture(params=["gemm_bf16x6", "gemm_fp16x3"])
def plan(request, driver, product):
    """Jobs of a plan that the launcher remembers, its needs, and its arrays."""
    jobs, steps, needs = planned(find(request.param))
    a, b = Array(M, K, at=A), Array(K, N, at=B)
    new = (product.new, (M, N), {})
    assert product.remember(a, b, steps=steps, needs=needs, new=new)
    return jobs, needs, (a, b)


def check(jobs, launches, memory):
    """That each launch is given the words, the flag and the copies of this memory, and the operands."""
    assert [job.kernel.name for job in jobs] == ["relayout", jobs[1].kernel.name, "split_k"]
    splitting, product, behind = (addresses(job, launch) for job, launch in zip(jobs, launches, strict=True))
    assert [launch.function for launch in launches] == [1, 2, 3]
    assert all(launch.overlaps for launch in launches)
    fits = product["fits"]
    assert memory.relayout < fits < memory.relayout + memory.relayout_bytes
    assert (splitting["range_a"], splitting["range_b"]) == (memory.tickets, memory.tickets + 12)
    assert product["seen"] == memory.tickets
    assert (product["range_a"], product["range_b"]) == (memory.tickets, memory.tickets + 12)
    assert (behind["skip"], product["skip"]) == (fits, 0)
    assert (splitting["from_a"], splitting["from_b"]) == (A, B)
    assert (product["A"], product["B"]) == (splitting["to_a"], splitting["to_b"])
    assert (behind["A"], behind["B"]) == (A, B)
    for name in ("scales_a", "scales_b"):
        assert product[name] == splitting[name]
        assert (product[name] != 0) == (find("gemm_fp16x3") is jobs[1].kernel)
    return product["D"], behind["D"]


def test_the_words_and_the_flag_are_those_of_the_stream(driver, product, plan):
    jobs, needs, arrays = plan
    assert needs.tickets >= SEEN_WORDS
    set_stream(0x5EA)
    for turn in range(3):
        result = product(*arrays)
        launches = driver.launches[3 * turn :]
        assert {launch.stream for launch in launches} == {0x5EA}
        assert check(jobs, launches, MEMORY) == (result.tensor.data,) * 2
    assert product.asked == [(0x5EA, needs)]


def test_a_capture_has_words_of_its_own(driver, product, plan):
    jobs, needs, arrays = plan
    product(*arrays)
    given = product.memory
    product.launcher.forget()
    memories = [MEMORY, OTHER]

    def memory(stream, needs):
        given(stream, needs)
        return memories[len(product.asked) % 2]

    _, steps, _ = planned(jobs[1].kernel)
    assert product.remember(*arrays, steps=steps, needs=needs, new=(product.new, (M, N), {}), memory=memory)
    driver.capture_status = 1
    for turn in range(1, 5):
        product(*arrays)
        check(jobs, driver.launches[3 * turn :], memories[len(product.asked) % 2])
    assert len(product.asked) == 5, "asked for each capture"


def test_two_streams_share_no_words(driver, product, plan):
    jobs, needs, arrays = plan
    by_stream = {1: MEMORY, 2: OTHER}
    _, steps, _ = planned(jobs[1].kernel)
    new = (product.new, (M, N), {})
    product.remember(*arrays, steps=steps, needs=needs, new=new, memory=lambda stream, needs: by_stream[stream])
    for turn, stream in enumerate((1, 2, 1, 2)):
        set_stream(stream)
        product(*arrays)
        check(jobs, driver.launches[3 * turn :], by_stream[stream])
