"""The machine code of the rungs, compiled and disassembled for real."""

import pytest

from tilewright.core.errors import CompileError
from tilewright.core.gpus import COMPUTE_CAPABILITIES
from tilewright.kernels import find
from tilewright.kernels.support import Variant
from tilewright.runtime import nvrtc
from tilewright.tools.explain.instruction_mix import (
    OTHER,
    access_widths,
    access_widths_by_line,
    count,
    multiply_adds,
    warpgroup_products,
)
from tilewright.tools.explain.machine_code import machine_code, remarks

HOPPER = "sm_90a"


def code_of(name, arch=HOPPER, edges=False, **overrides):
    kernel = find(name)
    arithmetic = kernel.support.arithmetic()
    specialization = Variant(edges, kernel.support.vectorized and not edges, arithmetic.factors, arithmetic.result)
    return machine_code(kernel, kernel.config(overrides), specialization, arch)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "edges"),
    [
        ("naive", True),
        ("thread_tiled_1d", False),
        ("double_buffered", True),
        ("wmma_tf32", False),
        ("tma_store", False),
        ("promoted", False),
        ("split_k", False),
        ("skinny", False),
    ],
)
def test_rungs_of_each_kind_have_a_main_loop_and_known_instructions(name, edges):
    """Loops of one kind or several, with bounds checks and without; others are below."""
    code = code_of(name, edges=edges)
    tensor, plain = multiply_adds(code.main_loop)
    warpgroups = any(instruction.name == "HGMMA" for instruction in code.main_loop)
    assert (tensor or plain) >= (4 if warpgroups else 16), "unrolled"
    assert len(code.main_loop) < len(code.instructions)
    assert OTHER not in count(code.instructions)
    assert code.instructions[-1].opcode != "NOP"
    assert code.report.registers
    assert code.report.spill_bytes == 0


@pytest.mark.first(2)
@pytest.mark.parametrize("capability", COMPUTE_CAPABILITIES)
def test_every_architecture_is_read(capability):
    code = code_of("vectorized", COMPUTE_CAPABILITIES[capability].arch)
    assert multiply_adds(code.main_loop)[1] == 8 * 8 * 8, "BK steps of TM x TN"
    assert access_widths(code.main_loop)["global_load"] == {16: 2}, "a float4 of A and one of B"
    assert OTHER not in count(code.instructions)


@pytest.mark.further
def test_a_block_tile_is_multiplied_in_one_pass_of_the_main_loop():
    """The k-loop of warptiled: BK steps, in each of which a thread multiplies WMITER*TM by WNITER*TN elements."""
    code = code_of("warptiled")
    assert multiply_adds(code.main_loop) == (0, 16 * (2 * 4) * (2 * 4))
    assert count(code.main_loop)["barriers and fences"] == {"BAR": 2}


@pytest.mark.further
def test_the_main_loop_stays_the_same_when_code_is_moved_behind_the_end():
    """tma_packed waits for its barriers in loops that the compiler puts behind the kernel's end."""
    code = code_of("tma_packed")
    assert multiply_adds(code.main_loop) == (0, 32 * 8 * 8)
    addresses = [instruction.address for instruction in code.main_loop]
    assert addresses[-1] - addresses[0] > 16 * len(addresses)


@pytest.mark.further
def test_asynchronous_copies_need_no_registers():
    widths = access_widths(code_of("async_copy").main_loop)
    assert set(widths) == {"async_copy", "shared_load"}
    assert widths["async_copy"] == {16: 6}
    assert set(widths["shared_load"]) == {16}, "loads that are never executed do not count"


@pytest.mark.further
@pytest.mark.parametrize(("name", "instructions", "waits"), [("wgmma", 8, {0}), ("wgmma_tma", 8, {1})])
def test_products_of_warpgroups_and_waits_for_them(name, instructions, waits):
    found = warpgroup_products(code_of(name).main_loop)
    assert (found.instructions, found.groups, set(found.waits)) == (instructions, 1, waits)


@pytest.mark.further
def test_remarks_on_products_of_warpgroups():
    kernel = find("wgmma_tma")
    variant = Variant(edges=False, aligned=True, factors="bfloat16", result="bfloat16")
    assert machine_code(kernel, kernel.config(), variant, "sm_90a").remarks == ()
    early = kernel.source.read_text().replace("wait_products<1>(sums);", "if (step == 3) sums[0][0] += sums[1][1];")
    assert early != kernel.source.read_text()
    defines = kernel.defines(kernel.config(), variant)
    log = nvrtc.compile_source(early, str(kernel.source), kernel.name, defines, "sm_90a").log
    (remark,) = remarks(log)
    assert remark.startswith("(C75")
    assert "wgmma.wait_group" in remark


@pytest.mark.further
def test_tensor_cores_are_found():
    assert multiply_adds(code_of("wmma_f16").main_loop) == (32, 0)


def test_merged_accesses_show_in_their_source_line():
    """A thread of rung 3 reads one float of each array at a time; the compiler reads four of A's row at once."""
    code = code_of("shared_tiled")
    assert access_widths(code.main_loop)["shared_load"] == {16: 8, 4: 32}
    source = find("shared_tiled").source.read_text().splitlines()
    lines = [line for line, widths in access_widths_by_line(code.main_loop).items() if "shared_load" in widths]
    assert lines
    for line in lines:
        assert line.file == "shared_tiled.cu"
        assert "As[" in source[line.line - 1]


def test_what_the_compiler_refuses_is_its_error():
    with pytest.raises(CompileError, match=r"async_copy\.cu does not compile for sm_75"):
        code_of("async_copy", "sm_75")
