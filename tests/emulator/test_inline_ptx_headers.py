"""The GPU's own headers on the emulator, in place of its stand-ins: their inline PTX does what these do."""

import re
from dataclasses import replace

import pytest

from faulty import STORING, TENSOR_MAPS, faulty
from tilewright.core.errors import CompileError
from tilewright.core.problem import Problem
from tilewright.emulator.check import check
from tilewright.emulator.ptx import translated
from tilewright.kernels import find
from tilewright.runtime.nvrtc import INCLUDE
from tilewright.tools.bench.verify import Operands

PTX = {path.name: path.read_text() for path in sorted(INCLUDE.glob("*.cuh")) if "asm" in path.read_text()}
MADE_BY_MACROS = {"wgmma_instructions.cuh"}
"""Their instructions' names have parts that macros make."""
MADE_BY_TYPES = {"mma.cuh"}
"""The same of strings that follow from template parameters, which factor_names.cuh has."""
OTHERS = {*MADE_BY_MACROS, *MADE_BY_TYPES, "float8.cuh", "half.cuh", "wgmma.cuh"}
"""Those that have more than PTX, of which the emulator has its own."""


@pytest.mark.parametrize("name", PTX)
def test_every_instruction_of_the_headers_is_known(name):
    unknown = translated([(name, PTX[name])]).unknown
    assert bool(unknown) == (name in MADE_BY_MACROS | MADE_BY_TYPES)
    assert all("no string literal" in one or "FactorNames" in one for one in unknown), unknown


OF_PRODUCTS = {
    *("wgmma.cuh", "wgmma_instructions.cuh", "wgmma_epilogue.cuh"),
    *("factor_names.cuh", "matrix_descriptor.cuh", "half_tile_io.cuh"),
}
"""What products of warpgroups take besides."""


def with_headers(kernel, folder, others=frozenset()):
    """The kernel with the GPU's headers next to it: all but `OTHERS`, and these others."""
    return with_only(kernel, folder, {*PTX, "shared_address.cuh"} - OTHERS | others)


def with_only(kernel, folder, names):
    """The same with these headers."""

    def own(text):
        return re.sub(r"<([\w.]+)>", lambda found: f'"{found[1]}"' if found[1] in names else found[0], text)

    for name in names:
        (folder / name).write_text(own((INCLUDE / name).read_text()))
    source = folder / kernel.source.name
    source.write_text(own(kernel.source.read_text()))
    return replace(kernel, source=source)


def found(kernel, shape):
    problem = kernel.support.scaled(Problem(*shape, kernel.support.arithmetic()))
    operands = Operands.draw(problem)
    checked = check(kernel, kernel.config(), problem, operands.a, operands.b, operands.c)
    return {finding.kind for finding in checked.findings}, checked.result


KERNELS = {
    "missing_wait": "unfinished copy",
    "copy_over_what_is_read": "race",
    "wrong_phase": "unfinished copy",
    "wait_without_barrier": "unfinished copy",
    "store_without_fence": "missing fence",
    "reuse_before_it_is_read": "unfinished copy",
    "early_access": "early access",
    "take_without_give": "barrier",
    "right_store": None,
    "right_cluster": None,
    "right_named": None,
}
"""Sources of planted_faults/, and what is found there."""


@pytest.mark.first(4)
@pytest.mark.parametrize("name", KERNELS)
def test_planted_faults_are_found_by_their_ptx(name, tmp_path):
    aligned = name in (*TENSOR_MAPS, *STORING)
    kernel = faulty(name)
    shape = (24, 64, 128) if kernel.cluster(None) > 1 else (24, 40, 36) if aligned else (24, 39, 35)
    kinds, result = found(with_headers(kernel, tmp_path), shape)
    expected, of_stand_ins = found(kernel, shape)
    assert kinds == expected
    assert KERNELS[name] in kinds if KERNELS[name] else not kinds
    if not kinds:
        assert result.tobytes() == of_stand_ins.tobytes()


@pytest.mark.further
def test_products_whose_instructions_macros_name_are_those_of_the_stand_ins(tmp_path):
    of = find("wgmma")
    kernel = with_headers(of, tmp_path, OF_PRODUCTS)
    instructions = tmp_path / "wgmma_instructions.cuh"
    asked = "template <typename T>\nconstexpr bool IS_BFLOAT16 = std::is_same_v<T, __nv_bfloat16>;  // as in half.cuh\n"
    instructions.write_text(f"{asked}{instructions.read_text()}")
    kinds, result = found(kernel, (64, 128, 96))
    assert not kinds
    assert result.tobytes() == found(of, (64, 128, 96))[1].tobytes()
    product = (tmp_path / "wgmma.cuh").read_text()
    (tmp_path / "wgmma.cuh").write_text(product.replace("wgmma.wait_group.sync.aligned %0;", "// %0"))
    assert found(kernel, (64, 128, 96))[0] == {"race"}


@pytest.mark.further
def test_products_whose_instructions_types_name_are_those_of_the_stand_ins(tmp_path):
    of = find("gemm_mma")
    names = {"mma.cuh", "factor_names.cuh", "fragment_tile.cuh", "warp_products.cuh"}
    kinds, result = found(with_only(of, tmp_path, names), (40, 72, 48))
    assert not kinds
    assert result.tobytes() == found(of, (40, 72, 48))[1].tobytes()
    header = tmp_path / "factor_names.cuh"
    header.write_text(header.read_text().replace('K[] = "16"', 'K[] = "24"'))
    with pytest.raises(
        CompileError, match=r"at mma.cuh:29: .* in which %14, FactorNames<T>::K, and %15.* make what there is not"
    ):
        found(replace(of, source=tmp_path / of.source.name), (40, 72, 48))
