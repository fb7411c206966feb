"""Parameters of kernels as bytes: against C's layout of the same structs, and where calls fill them in."""

import ctypes
from dataclasses import replace

import pytest

from tilewright.core.problem import Arithmetic, Layout, Problem, Scale, Scaling
from tilewright.kernels import KERNELS, find
from tilewright.kernels.kernel import (
    LIBRARY_ARGUMENTS,
    RUNG_ARGUMENTS,
    TMA_ARGUMENTS,
    TMA_RUNG_ARGUMENTS,
    TMA_STORE_RUNG_ARGUMENTS,
    UNDIVIDED,
    Division,
)
from tilewright.kernels.library import grouped_sm90, relayout
from tilewright.kernels.split import RANGE_WORDS, Split, scale_run
from tilewright.kernels.support import Addresses
from tilewright.runtime.arguments import MAP_BYTES, AddressSource, pack, shape_of
from tilewright.runtime.plan import Slot
from tilewright.runtime.relayouts import Copy, copying, jobs, numbers

NAIVE, SPLIT_K = find("naive"), find("split_k")
INT, LONG, FLOAT, POINTER = ctypes.c_int, ctypes.c_longlong, ctypes.c_float, ctypes.c_void_p
MAP = ctypes.c_ubyte * MAP_BYTES


def named(**kinds):
    return kinds


def struct(**members):
    return type("Struct", (ctypes.Structure,), {"_fields_": list(members.items())})


# Structs of kernels/include/operands.cuh and kernels/library/relayout.cu, members in their order.
SIZES = struct(
    **dict.fromkeys(("m", "n", "k", "batch", "whole", "workers", "share", "longer", "step_a", "step_b"), INT)
)
FACTOR = struct(data=POINTER, batch_stride=LONG, ld=INT)
OUTPUT = struct(
    **dict.fromkeys(("D", "C", "bias"), POINTER),
    **dict.fromkeys(("batch_stride_d", "batch_stride_c"), LONG),
    **dict.fromkeys(("ldd", "ldc"), INT),
    **dict.fromkeys(("alpha", "beta"), FLOAT),
)
WORKSPACE = struct(sums=POINTER, counters=POINTER)
COPY = struct(
    **{"from": POINTER, "to": POINTER, "scales": POINTER, "range": POINTER, "non_finite": POINTER},
    matrix_stride=LONG,
    **dict.fromkeys(("lines", "length", "matrices", "across", "ld_from", "ld", "along_k"), INT),
)
SECOND = ctypes.sizeof(COPY)
"""Where the second of two lies."""
SCALES = struct(
    a=POINTER, b=POINTER, **dict.fromkeys(("step_a", "step_k_a", "rows", "step_b", "step_k_b", "cols"), INT)
)
RUNG = named(M=INT, N=INT, K=INT, alpha=FLOAT, A=POINTER, lda=INT, B=POINTER, ldb=INT, beta=FLOAT, D=POINTER, ldd=INT)

FORMS = {
    RUNG_ARGUMENTS: RUNG,
    (*RUNG_ARGUMENTS, "sums", "counters"): RUNG | named(sums=POINTER, counters=POINTER),
    LIBRARY_ARGUMENTS: named(sizes=SIZES, A=FACTOR, B=FACTOR, output=OUTPUT, workspace=WORKSPACE),
    LIBRARY_ARGUMENTS[:-1]: named(sizes=SIZES, A=FACTOR, B=FACTOR, output=OUTPUT),
    ("copy_a", "copy_b"): named(copy_a=COPY, copy_b=COPY),
    ("sizes", "scales", "counters"): named(sizes=SIZES, scales=SCALES, counters=POINTER),
    find("gemm_mma_bf16x6").arguments: named(
        sizes=SIZES,
        A=FACTOR,
        B=FACTOR,
        output=OUTPUT,
        copy_a=COPY,
        copy_b=COPY,
        scales=SCALES,
        counters=POINTER,
        workspace=WORKSPACE,
    ),
}


@pytest.mark.parametrize("arguments", FORMS, ids=",".join)
def test_parameters_lie_as_in_a_struct_of_them(arguments):
    shape, whole = shape_of(arguments), struct(**FORMS[arguments])
    fields = [getattr(whole, name) for name in FORMS[arguments]]
    assert shape.offsets == tuple(field.offset for field in fields)
    assert shape.sizes == tuple(field.size for field in fields)
    assert -(-shape.bytes // 8) * 8 == ctypes.sizeof(whole)
    members = []
    for field, kind in zip(fields, FORMS[arguments].values(), strict=True):
        inner = [getattr(kind, name).offset for name, _ in kind._fields_] if hasattr(kind, "_fields_") else [0]
        members += [field.offset + offset for offset in inner]
    assert [member.offset for member in shape.members] == members


def test_tensor_maps_lie_at_multiples_of_64():
    shape = shape_of(TMA_ARGUMENTS)
    assert shape.offsets == (0, 64, 64 + 128, 64 + 2 * 128, 64 + 2 * 128 + 56)
    assert shape.sizes == (40, 128, 128, 56, 16)
    assert shape.bytes == 64 + 2 * 128 + 56 + 16
    odd = shape_of(TMA_RUNG_ARGUMENTS)
    assert odd.offsets == (0, 4, 8, 12, 64, 192, 320, 328, 336)
    stored = shape_of(TMA_STORE_RUNG_ARGUMENTS)
    assert stored.offsets == (*odd.offsets, 384)


def test_every_kernel_has_parameters_that_there_are():
    for kernel in (*KERNELS, relayout.KERNEL, *grouped_sm90.KERNELS):
        assert shape_of(kernel.arguments).bytes > 0


# What is written, and what is left to the call.

PROBLEM = Problem(
    3,
    5,
    7,
    batch=2,
    a=Layout(ld=8, batch_stride=25),
    b=Layout("column", ld=9, batch_stride=0),
    c=Layout(ld=6),
    d=Layout(ld=10, batch_stride=2**40),
)


DIVIDED = Division(whole=100, workers=264, share=7, longer=3)


def test_the_template_has_the_problems_numbers():
    bytes_, _ = pack(SPLIT_K, PROBLEM, {}, {}, DIVIDED)
    found = struct(**FORMS[LIBRARY_ARGUMENTS]).from_buffer_copy(bytes_)
    sizes, a, b, output = found.sizes, found.A, found.B, found.output
    assert (sizes.m, sizes.n, sizes.k, sizes.batch) == (3, 5, 7, 2)
    assert {name: getattr(sizes, name) for name in Division._fields} == DIVIDED._asdict()
    assert (sizes.step_a, sizes.step_b) == (1, 0)
    assert (a.ld, a.batch_stride, b.ld, b.batch_stride) == (8, 25, 9, 0)
    assert (output.ldd, output.batch_stride_d, output.ldc, output.batch_stride_c) == (10, 2**40, 6, 18)
    assert [a.data, b.data, output.D, output.C, output.bias, output.alpha, output.beta] == [None] * 5 + [0, 0]


def test_c_has_ds_numbers_where_it_has_none():
    bytes_, _ = pack(SPLIT_K, replace(PROBLEM, c=None), {}, {})
    output = struct(**FORMS[LIBRARY_ARGUMENTS]).from_buffer_copy(bytes_).output
    assert (output.ldc, output.batch_stride_c) == (10, 2**40)


@pytest.mark.parametrize(("ld", "packed"), [(5, 16), (16, 16), (17, 32)])
def test_the_leading_dimension_of_a_single_row_is_a_multiple_of_16_bytes(ld, packed):
    bytes_, _ = pack(NAIVE, Problem(1, 3, 5, a=Layout(ld=ld), b=Layout(ld=7)), {}, {})
    found = struct(**RUNG).from_buffer_copy(bytes_ + bytes(4))
    assert (found.lda, found.ldb) == (packed, 7)


def test_a_grouped_product_has_one_a_and_d_and_the_address_of_its_offsets():
    problem = Problem(9, 5, 7, Arithmetic("float16", "float16"), 3, Layout(ld=8), Layout(ld=16), grouped=True)
    bytes_, slots = pack(grouped_sm90.KERNEL, problem, {}, {})
    found = struct(sizes=SIZES, maps=MAP * 2, output=OUTPUT).from_buffer_copy(bytes_[:40] + bytes_[64:])
    assert (found.sizes.m, found.sizes.batch, found.sizes.step_a, found.sizes.step_b) == (9, 3, 0, 1)
    assert (found.output.ldd, found.output.batch_stride_d) == (5, 0)
    assert slots[-1] == Slot(len(bytes_) - 8, "pointer", "offsets")


def test_slots_are_the_pointers_and_scalars():
    _, slots = pack(SPLIT_K, PROBLEM, {}, {})
    whole = struct(**FORMS[LIBRARY_ARGUMENTS])
    output, workspace = whole.output.offset, whole.workspace.offset
    assert slots == (
        Slot(whole.A.offset, "pointer", "A"),
        Slot(whole.B.offset, "pointer", "B"),
        Slot(output + OUTPUT.D.offset, "pointer", "D"),
        Slot(output + OUTPUT.C.offset, "pointer", "C"),
        Slot(output + OUTPUT.bias.offset, "pointer", "bias"),
        Slot(output + OUTPUT.alpha.offset, "scalar", "alpha"),
        Slot(output + OUTPUT.beta.offset, "scalar", "beta"),
        Slot(workspace, "pointer", "workspace"),
        Slot(workspace + 8, "pointer", "counters"),
    )


def test_an_operand_may_come_from_elsewhere():
    _, slots = pack(SPLIT_K, PROBLEM, {"B": AddressSource("relayout", 256)}, {})
    assert slots[:2] == (Slot(40, "pointer", "A"), Slot(64, "pointer", "relayout", 256))


def test_tensor_maps_are_templates_whose_address_is_replaced():
    kernel = find("tma_transposed")
    maps = {"A": bytes(range(128)), "B": bytes(range(128, 256))}
    bytes_, slots = pack(kernel, PROBLEM, {"B": AddressSource("relayout", 128)}, maps)
    assert bytes_[64:192] == maps["A"]
    assert bytes_[192:320] == maps["B"]
    assert slots[:2] == (Slot(64, "map", "A"), Slot(192, "map", "relayout", 128))


def test_a_blank_map_stays_blank():
    """With k = 0 there is nothing that a map could say, and no address to replace."""
    bytes_, slots = pack(find("tma_transposed"), replace(PROBLEM, k=0), {}, {})
    assert bytes_[64:320] == bytes(256)
    assert {slot.kind for slot in slots} == {"pointer", "scalar"}


def test_a_copy_says_where_from_and_with_which_strides():
    copies = (
        Copy("A", "relayout", 0, Split("float32", 1), 3, 7, 2, False, 8, 2**35, 8, True, 256),
        Copy("B", "relayout", 256, Split("float32", 1), 5, 7, 1, True, 9, 0, 12, False, 512),
    )
    job = copying(PROBLEM, copies)
    bytes_, slots = pack(relayout.KERNEL, PROBLEM, job.sources, {}, UNDIVIDED, numbers(job.copies))
    a, b = (COPY.from_buffer_copy(bytes_, offset) for offset in (0, SECOND))
    assert (a.lines, a.length, a.matrices, a.across, a.ld_from, a.matrix_stride) == (3, 7, 2, 0, 8, 2**35)
    assert (b.lines, b.length, b.matrices, b.across, b.ld_from, b.ld) == (5, 7, 1, 1, 9, 12)
    assert slots == (
        Slot(0, "pointer", "A"),
        Slot(8, "pointer", "relayout"),
        Slot(SECOND, "pointer", "B"),
        Slot(SECOND + 8, "pointer", "relayout", 256),
    )


def test_a_scaled_copy_says_where_its_scales_go():
    split = Split("float16", 2, scaled=True)
    copies = (
        Copy("A", "relayout", 0, split, 3, 7, 2, False, 8, 2**35, 64, True, 4096),
        Copy("B", "relayout", 256, split, 5, 7, 1, False, 9, 0, 64, False, 8192),
    )
    job = copying(PROBLEM, copies)
    assert (job.config.SPLIT_PARTS, job.config.SCALED, job.variant.result) == (2, 1, "float16")
    bytes_, slots = pack(relayout.KERNEL, PROBLEM, job.sources, {}, UNDIVIDED, numbers(job.copies))
    assert [COPY.from_buffer_copy(bytes_, offset).along_k for offset in (0, SECOND)] == [1, 0]
    assert Slot(16, "pointer", "relayout", 4096) in slots
    assert Slot(SECOND + 16, "pointer", "relayout", 8192) in slots
    runs = [scale_run(sides) for sides in (3, 7)]  # along k of A's lines, and across it of B's
    assert [copy.scale_bytes for copy in copies] == [4 * 2 * runs[0], 4 * runs[1]]


def product_of_parts(cached=None):
    """Copies that a product of parts is given, by bytes and by slots."""
    kernel = find("gemm_mma_fp16x3")
    (job,) = jobs(kernel, kernel.config(), PROBLEM_OF_PARTS, Addresses(), cached).jobs
    bytes_, slots = pack(kernel, job.problem, job.sources, {}, UNDIVIDED, numbers(job.copies))
    whole = struct(**FORMS[kernel.arguments])
    copies = [getattr(whole.from_buffer_copy(bytes_), name) for name in ("copy_a", "copy_b")]
    given = {(slot.offset - whole.copy_a.offset) // 8: slot for slot in slots if slot.offset >= whole.copy_a.offset}
    return copies, given


PROBLEM_OF_PARTS = Problem(70, 90, 130, batch=2, a=Layout("column", ld=77), b=Layout(ld=100, batch_stride=0))
OF_B = SECOND // 8


def test_a_product_of_parts_is_given_the_copies_that_it_makes():
    (a, b), given = product_of_parts()
    assert (a.lines, a.length, a.matrices, a.across, a.ld_from, a.matrix_stride) == (70, 130, 2, 1, 77, 77 * 130)
    assert (b.lines, b.length, b.matrices, b.across, b.ld_from, b.matrix_stride) == (90, 130, 1, 1, 100, 0)
    assert (given[0].source, given[OF_B].source) == ("A", "B")
    assert [given[first + 3] for first in (0, OF_B)] == [
        Slot(given[3].offset, "pointer", "counters", 0),
        Slot(given[OF_B + 3].offset, "pointer", "counters", 4 * RANGE_WORDS),
    ]
    assert {given[first + at].source for first in (0, OF_B) for at in (1, 2, 4)} == {"relayout"}


def test_a_copy_that_is_kept_is_none_to_make_and_all_else_is_as_it_was():
    (a, b), made = product_of_parts()
    (same, cached), given = product_of_parts("B")
    assert bytes(same) == bytes(a)
    b.matrices = 0
    assert bytes(cached) == bytes(b)
    assert given[OF_B] == made[OF_B]
    assert {given[OF_B + at].source for at in (1, 2, 3, 4)} == {"cached"}
    assert [given[OF_B + at].shift for at in (1, 2, 4, 3)] == sorted({given[OF_B + at].shift for at in (1, 2, 3, 4)})
    assert given[OF_B + 1].shift == 0


def test_without_products_there_are_no_copies():
    for name, problem in (("gemm_mma_bf16x6", replace(PROBLEM, k=0)), ("gemm_tf32", Problem(64, 64, 64))):
        kernel = find(name)
        bytes_, slots = pack(kernel, problem, {}, {})
        first = dict(zip(kernel.arguments, shape_of(kernel.arguments).offsets, strict=True))["copy_a"]
        assert not any(bytes_[first:])
        assert {slot.source for slot in slots if slot.offset >= first} <= {"counters", "workspace"}


def test_scales_are_where_the_problem_says():
    of_a, of_b = Scale("1x128", 9, 2), Scale("128x128", 1, 3)
    problem = Problem(64, 64, 256, Arithmetic("float8_e4m3fn"), b=Layout("column"), scaling=Scaling(of_a, of_b))
    kernel = find("gemm_fp8_blocks")
    (job,) = jobs(kernel, kernel.config(), problem, Addresses()).jobs
    bytes_, slots = pack(kernel, job.problem, job.sources, {})
    first = dict(zip(kernel.arguments, shape_of(kernel.arguments).offsets, strict=True))["scales"]
    found = SCALES.from_buffer_copy(bytes_[first:])
    assert (found.step_a, found.step_k_a, found.rows) == (9, 2, 1)
    assert (found.step_b, found.step_k_b, found.cols) == (1, 3, 128)
    assert [slot.source for slot in slots if first <= slot.offset < first + 16] == ["scale_a", "scale_b"]
