"""The GPU's own headers on the emulator, in place of its stand-ins: their inline PTX does what these do."""

import shutil
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

PTX = {f"ptx/{path.name}": path.read_text() for path in sorted(INCLUDE.glob("ptx/*.cuh")) if "asm" in path.read_text()}
MADE_BY_MACROS = {"ptx/wgmma_instructions.cuh"}
"""Their instructions' names have parts that macros make."""
MADE_BY_TYPES = {"ptx/mma.cuh"}
"""Headers whose instructions' names have parts from template parameters, as strings that factor_names.cuh has."""
OTHERS = {*MADE_BY_MACROS, *MADE_BY_TYPES, "ptx/float8.cuh", "ptx/half.cuh", "ptx/wgmma.cuh"}
"""Headers that have more than PTX, of which the emulator has its own."""


@pytest.mark.parametrize("name", PTX)
def test_every_instruction_of_the_headers_is_known(name):
    unknown = translated([(name, PTX[name])]).unknown
    assert bool(unknown) == (name in MADE_BY_MACROS | MADE_BY_TYPES)
    assert all("no string literal" in one or "FactorNames" in one for one in unknown), unknown


OF_PRODUCTS = {
    *("ptx/wgmma.cuh", "ptx/wgmma_instructions.cuh", "epilogue/ladder_wgmma.cuh"),
    *("ptx/factor_names.cuh", "ptx/matrix_descriptor.cuh", "pipeline/half_tile_io.cuh"),
}
"""Headers that products of warpgroups need besides."""


def with_headers(kernel, folder, others=frozenset()):
    """The kernel with the GPU's headers next to it: all but `OTHERS`, and these others."""
    return with_only(kernel, folder, {*PTX, "ptx/shared_address.cuh"} - OTHERS | others)


def with_only(kernel, folder, names):
    """The kernel with these of the GPU's headers next to it."""

    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(INCLUDE / name, folder / name)
    shutil.copy(kernel.source, folder)
    return replace(kernel, source=folder / kernel.source.name)


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
    instructions = tmp_path / "ptx/wgmma_instructions.cuh"
    asked = "template <typename T>\nconstexpr bool IS_BFLOAT16 = std::is_same_v<T, __nv_bfloat16>;  // as in half.cuh\n"
    instructions.write_text(f"{asked}{instructions.read_text()}")
    kinds, result = found(kernel, (64, 128, 96))
    assert not kinds
    assert result.tobytes() == found(of, (64, 128, 96))[1].tobytes()
    product = (tmp_path / "ptx/wgmma.cuh").read_text()
    (tmp_path / "ptx/wgmma.cuh").write_text(product.replace("wgmma.wait_group.sync.aligned %0;", "// %0"))
    assert found(kernel, (64, 128, 96))[0] == {"race"}


@pytest.mark.further
def test_products_whose_instructions_types_name_are_those_of_the_stand_ins(tmp_path):
    of = find("gemm_mma")
    names = {"ptx/mma.cuh", "ptx/factor_names.cuh", "pipeline/fragment_tile.cuh", "pipeline/warp_products.cuh"}
    kinds, result = found(with_only(of, tmp_path, names), (40, 72, 48))
    assert not kinds
    assert result.tobytes() == found(of, (40, 72, 48))[1].tobytes()
    header = tmp_path / "ptx/factor_names.cuh"
    header.write_text(header.read_text().replace('K[] = "16"', 'K[] = "24"'))
    with pytest.raises(
        CompileError, match=r"at ptx/mma.cuh:28: .* in which %14, FactorNames<T>::K, and %15.* make what there is not"
    ):
        found(replace(of, source=tmp_path / of.source.name), (40, 72, 48))
