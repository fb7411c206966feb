"""Source files whose kernels take tensor maps, which lines at their heads describe."""

import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from all_stages import own_cases
from behind_pointers import behind_one_pointer
from tilewright import matmul
from tilewright.core.errors import ConfigError, DtypeError, ProblemError
from tilewright.core.gpus import gpu_named
from tilewright.core.problem import Arithmetic, Layout, Problem, Scalars
from tilewright.emulator.launches import check_launch
from tilewright.kernels.kernel import Variant
from tilewright.kernels.source.buffers import Maps
from tilewright.kernels.source.device_text import with_maps_by_value
from tilewright.kernels.source.products import from_source
from tilewright.kernels.source.source_launch import read_launch
from tilewright.runtime import nvrtc
from tilewright.runtime.arguments import MAP_BYTES, shape_of
from tilewright.runtime.cuda_launch import MAP_WORDS, describe
from tilewright.runtime.tensor_maps import layouts
from tilewright.tools.bench.checking import outcomes
from tilewright.tools.cli import main
from tilewright.tools.explain.launch_explanation import explain_launch

OWN = Path(__file__).parents[1] / "own_kernels"
PRODUCT = (OWN / "tile_product.cu").read_text()
TRANSPOSE = (OWN / "tile_transpose.cu").read_text()
FENCE = '    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n'


def found(text, few=False):
    """Findings of `check` on sizes of its own, in words. few: on those alone that no tile divides, the smaller ones."""
    kernel = from_source(text)
    config = kernel.config()
    cases = own_cases(kernel, config, [Scalars()], layouts=["NT"])
    assert len(cases) >= 2
    checked = list(outcomes(kernel, cases[-1:] if few else cases))
    wrong = [] if all(one.right for one in checked) else ["wrong result: "]
    return [f"{one.kind}: {one}" for outcome in checked for one in outcome.checked.findings] + wrong


@pytest.mark.further
def test_a_product_of_maps_alone_passes_on_lines_that_lie_apart():
    kernel = from_source(PRODUCT)
    assert kernel.support.gaps
    assert found(PRODUCT) == []


@pytest.mark.parametrize(("said", "rounds"), [("float", False), ("tf32", True)])
def test_maps_round_factors_to_tf32_where_their_type_says_so(said, rounds):
    text = PRODUCT.replace("dtype=bfloat16", f"dtype={said}").replace("(32,64", "(32,32")
    kernel = from_source(text, precision="tf32")
    of = layouts(kernel, kernel.config(), Problem(64, 64, 64, b=Layout("column")), True)
    assert (kernel.support.factors, kernel.support.precision) == (("float32",), "tf32")
    assert [of[name].rounds for name in "ABD"] == [rounds, rounds, False]


THREE = (
    ('"r"(row), "r"(address(barrier)) : "memory");', '"r"(row), "r"(address(barrier)), "r"(0) : "memory");'),
    ("{%2, %3}], [%4]", "{%2, %3, %5}], [%4]"),
)
FAULTS = {
    "no wait": ([("        wait(&full[step % STAGES], step / STAGES % 2);\n", "")],
                r"unfinished copy: .* reads a\[0\]\[\d+\] at kernel.cu:28"),
    "the other phase": ([("step / STAGES % 2);", "step / STAGES % 2 ^ 1);")], "unfinished copy: .* reads a"),
    "no barrier": ([("        __syncthreads();  // all have read the stage\n", "")], r"race: .* starts a copy to a"),
    "no fence": ([(FENCE, "")], r"missing fence: .* starts a store of c\[0\]\[0\] at kernel.cu:63"),
    "fewer bytes": ([('"n"(2 * 2 * SIDE * DEPTH)', '"n"(2 * SIDE * DEPTH)')], r"unfinished copy: .* reads b\[0\]"),
    "a larger box": ([("map_a:A(32,64", "map_a:A(40,64")], "barrier: .* of 1 arrivals and -1024 bytes of its phase 0"),
    "no swizzle": ([("map_b:B(32,64,swizzle=128B", "map_b:B(32,64")], "wrong result: "),
    "coordinates exchanged": ([("&map_a, step * DEPTH, row,", "&map_a, row, step * DEPTH,")], "wrong result: "),
    "other dimensions": ([("tensor.2d.shared::cluster", "tensor.3d.shared::cluster"), *THREE],
                         r"misuse: .* stops at a tile of 3 dimensions of a tensor map of 2 \(kernel.cu:15\)"),
}  # fmt: skip


@pytest.mark.first(2)
@pytest.mark.parametrize(("changes", "words"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_named(changes, words):
    text = PRODUCT
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    said = found(text, few=True)
    assert any(re.match(words, one) for one in said), said


def test_matmul_takes_such_a_kernel(tmp_path):
    shutil.copy(OWN / "tile_product.cu", tmp_path)
    numbers = np.random.default_rng(0)
    a = numbers.integers(-3, 4, (40, 72)).astype("bfloat16")
    b = numbers.integers(-3, 4, (36, 72)).astype("bfloat16").T
    result = matmul(a, b, kernel=str(tmp_path / "tile_product.cu"), out_dtype="float32")
    np.testing.assert_array_equal(result, a.astype("f4") @ b.astype("f4"))
    with pytest.raises(ProblemError, match=r"tile_product needs rows of A and B that start at multiples of 16 bytes"):
        matmul(a[:, :45].copy(), b[:45], kernel=str(tmp_path / "tile_product.cu"), out_dtype="float32")
    with pytest.raises(
        ProblemError, match=r"needs rows of C that start at multiples of 16 bytes and are multiples, got"
    ):
        matmul(a, b[:, :35], kernel=str(tmp_path / "tile_product.cu"), out_dtype="float32")


def test_what_maps_say_of_panels():
    """As cuTensorMapEncodeTiled takes it: of three dimensions, the third of which counts panels of a line."""
    text = PRODUCT.replace("map_b:B(32,64,swizzle=128B", "map_b:B(32,128,swizzle=128B,panel=64")
    kernel = from_source(text)
    problem = Problem(64, 96, 256, Arithmetic("bfloat16", "float32"), b=Layout("column"))
    assert kernel.why_not(problem) is None
    found = layouts(kernel, kernel.config(), problem, aligned=True)
    rows, panels = 96, 4
    words = MAP_WORDS.unpack(describe(found["B"]))
    assert (words[:3], words[5:7], words[9:12], words[-1]) == ((64, rows, panels), (512, 128), (64, 32, 2), 3)
    assert MAP_WORDS.unpack(describe(found["A"]))[-1] == MAP_WORDS.unpack(describe(found["D"]))[-1] == 2
    odd = Problem(64, 96, 160, Arithmetic("bfloat16", "float32"), b=Layout("column"))
    assert str(kernel.why_not(odd)).endswith("takes lines of B that are multiples of 64 elements, got 160")


@pytest.mark.further
def test_maps_by_pointer_are_the_same_maps(tmp_path):
    """The pointer leads to a parameter; lines and all that is found stay the same."""
    text = PRODUCT.replace("const __grid_constant__ CUtensorMap map_a", "const CUtensorMap* map_a")
    text = text.replace("const __grid_constant__ CUtensorMap map_b", "CUtensorMap const* const __restrict__\n map_b")
    text = text.replace(
        "const __grid_constant__ CUtensorMap map_c", "const CUtensorMap *__restrict__ map_c /* of C, D */"
    )
    for name in "abc":
        text = text.replace(f"&map_{name}", f"map_{name}")
    assert found(text) == []
    assert any(re.match("missing fence: .* at kernel.cu:64", one) for one in found(text.replace(FENCE, ""), few=True))
    kernel = from_source(text)
    assert nvrtc.compile(kernel, kernel.config(), Variant(True, True), "sm_90a").report.registers > 0


def test_what_compilers_get_of_maps_by_pointer():
    other = "__device__ void g(const CUtensorMap* map);\n"
    head = "template <int N> __global__ __launch_bounds__(N) void f(int n /* , */,"
    declared = "__global__ void f(int n,\n const CUtensorMap*, CUtensorMap* map);\n"
    defined = f"{head} const CUtensorMap* a,\n CUtensorMap b[]) {{"
    by_value = " const __grid_constant__ CUtensorMap map_of_"
    assert with_maps_by_value(declared + other + defined) == (
        f"__global__ void f(int n,\n{by_value}1,{by_value}map);\n{other}{head}{by_value}a,\n{by_value}b) {{"
        " const CUtensorMap* a = (CUtensorMap*)&map_of_a; CUtensorMap* b = (CUtensorMap*)&map_of_b;"
    )
    of_a = "const __grid_constant__ tilewright_maps<CUtensorMap, TILEWRIGHT_MAPS_a> map_of_a"
    assert with_maps_by_value(f"{head} const CUtensorMap* a) {{", {"a"}) == (
        f"{head} {of_a}) {{ const CUtensorMap* a = (CUtensorMap*)map_of_a.of;"
    )


@pytest.mark.further
def test_several_maps_behind_one_pointer():
    text = behind_one_pointer(PRODUCT)
    kernel = from_source(text)
    assert kernel.arguments[0] == "A_map+B_map+D_map"
    shape = shape_of(kernel.arguments)
    assert shape.offsets == (0, 3 * MAP_BYTES, 3 * MAP_BYTES + 4, 3 * MAP_BYTES + 8)
    assert [(slot.source, slot.offset) for slot in shape.slots] == [("A", 0), ("B", 128), ("D", 256)]
    assert found(text) == []
    assert any(re.match("missing fence: ", one) for one in found(text.replace(FENCE, ""), few=True))
    code = nvrtc.compile(kernel, kernel.config(), Variant(True, True), "sm_90a")
    assert code.report.registers > 0


def test_matmul_takes_several_maps_behind_one_pointer(tmp_path):
    (tmp_path / "maps.cu").write_text(behind_one_pointer(PRODUCT))
    numbers = np.random.default_rng(0)
    a = numbers.integers(-3, 4, (40, 72)).astype("bfloat16")
    b = numbers.integers(-3, 4, (36, 72)).astype("bfloat16").T
    result = matmul(a, b, kernel=str(tmp_path / "maps.cu"), out_dtype="float32")
    np.testing.assert_array_equal(result, a.astype("f4") @ b.astype("f4"))


GROUPS = (OWN / "grouped_product.cu").read_text()


def grouped(tmp_path, *changes):
    text = GROUPS
    for before, after in changes:
        assert before in text
        text = text.replace(before, after, 1)
    (tmp_path / "grouped_product.cu").write_text(text)
    return read_launch(str(tmp_path / "grouped_product.cu"))


@pytest.mark.further
def test_maps_of_groups_behind_pointers(tmp_path):
    launch = grouped(tmp_path)
    factors, _ = (one for one in launch.contents.arguments if isinstance(one, Maps))
    assert [(one.name, one.array, one.part) for one in factors.maps] == [
        ("factors[0]", "a0", None), ("factors[1]", "a1", None), ("factors[2]", "b", 0), ("factors[3]", "b", 1),
    ]  # fmt: skip
    checked = check_launch(launch)
    assert checked.findings == []
    a, b = (checked.inputs[name].astype("f4") for name in ("a1", "b"))
    np.testing.assert_allclose(checked.outputs["c1"], a @ b[1].T, rtol=1e-4, atol=1e-3)
    assert explain_launch(launch, gpu_named("h100")).traffic.tile_bytes > 0


@pytest.mark.further
@pytest.mark.parametrize(
    ("before", "after"),
    [("factors + groups + group,", "factors + group,"), ("&results[group]", "&results[1 - group]")],
)
def test_maps_of_other_groups_are_others(tmp_path, before, after):
    checked = check_launch(grouped(tmp_path, (before, after)))
    a, b = (checked.inputs[name].astype("f4") for name in ("a1", "b"))
    assert not np.allclose(checked.outputs["c1"], a @ b[1].T, atol=1e-2)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("before", "after", "words"),
    [("&results[group]", "&results[group + 2]", "of no tensor map"), (FENCE, "", "missing fence: ")],
)
def test_faults_of_kernels_of_groups(tmp_path, before, after, words):
    found = check_launch(grouped(tmp_path, (before, after))).findings
    assert any(words in f"{one.kind}: {one}" for one in found), found


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("results[1]:c1(32,32)", "results[2]:c1(32,32)", r"leads to results\[0\], results\[2\]: without gaps"),
        ("results[1]:c1(32,32)", "results[0]:c1(32,32)", r"maps says twice what results\[0\] of grouped_product is of"),
        ("results[1]:c1(32,32)", "results:c1(32,32)", r"without gaps these are results\[0\], results\[1\]"),
        ("factors[groups:2*groups]", "factors[groups:groups]", r"as in factors\[0:4\], got factors\[gr"),
        ("factors[groups:2*groups]", "factors[groups:3*groups]", r"is of b\[2\], which b\[2,36,136\] has"),
        ("factors[groups:2*groups]", "factors[many:5]", "nothing is called 'many'"),
        ("factors[groups:2*groups]", "factors[2:300]", "may lead to 255 tensor maps, got 300"),
        ("const CUtensorMap* factors", "const __grid_constant__ CUtensorMap factors", "factors .* is no pointer, to"),
    ],
)  # fmt: skip
def test_what_is_not_understood_of_maps_behind_pointers(tmp_path, before, after, words):
    with pytest.raises(ConfigError, match=words):
        grouped(tmp_path, (before, after))


def test_what_is_not_understood_of_a_product_whose_maps_are_behind_a_pointer():
    text = behind_one_pointer(PRODUCT)
    with pytest.raises(ConfigError, match="two tensor maps of tile_product are of B"):
        from_source(text.replace("maps[0]:A(32,64", "maps[0]:B(32,64"))
    with pytest.raises(ConfigError, match=r"is a tensor map of A\+B\+C, which must be one of .*, got A\+B"):
        from_source(text.replace("layout=NT", "layout=NT args=A+B,M,N,K"))
    with pytest.raises(ConfigError, match=r"is a tensor map of A\+B\+C, "):
        from_source(text.replace("maps[0]:A(", "maps[0:1]:A("))
    assert from_source(text.replace("layout=NT", "layout=NT args=A+B+C,M,N,K")).arguments[1:] == ("M", "N", "K")


def test_a_copy_of_a_map_is_none():
    with pytest.raises(ConfigError, match=r"map_b of tile_product must be .* __grid_constant__ CUtensorMap, or a"):
        from_source(PRODUCT.replace("const __grid_constant__ CUtensorMap map_b", "const CUtensorMap map_b"))


BOXES = """
// tilewright: grid=1 block=64 {words}
#include <cuda.h>
#include <stdint.h>
__global__ void boxes(const CUtensorMap* __restrict__ from, const CUtensorMap* to) {{
    __shared__ __align__(128) float tile[{size}];
    __shared__ uint64_t full;
    const unsigned bar = (unsigned)__cvta_generic_to_shared(&full), at = (unsigned)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {{
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.mbarrier_init.release.cluster;");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "n"(sizeof tile));
        asm volatile("cp.async.bulk.tensor.{count}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                     " [%0], [%1, {{{load}}}], [%2];" ::"r"(at), "l"(from), "r"(bar) : "memory");
    }}
    __syncthreads();
    asm volatile("{{ .reg .pred p; L: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra L; }}"
                 ::"r"(bar) : "memory");
    for (int i = threadIdx.x; i < {size}; i += 64) tile[i] += 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {{
        asm volatile("cp.async.bulk.tensor.{count}d.global.shared::cta.tile.bulk_group [%0, {{{store}}}], [%1];"
                     ::"l"(to), "r"(at) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }}
}}
"""


def boxes(tmp_path, shape, box, load, store, options=""):
    """A box of an array goes to a place in another, 1 added to each element: what is found, and both arrays."""
    extents, of = (",".join(map(str, one)) for one in (box, shape))
    words = f"a=float32[{of}] b=zeros:float32[{of}] maps=from:a({extents}{options}),to:b({extents}{options})"
    panels = "panel" in options
    load, store = (", ".join(map(str, one)) for one in (load, store))
    (tmp_path / "boxes.cu").write_text(
        BOXES.format(words=words, size=math.prod(box), count=len(box) + panels, load=load, store=store)
    )
    return check_launch(read_launch(str(tmp_path / "boxes.cu")))


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("shape", "box", "at", "to"),
    [
        ((300,), (128,), (200,), (4,)),
        ((10, 30), (256,), (40,), (44,)),
        ((3, 10, 12), (8, 4), (25, 4), (0, 8)),
        ((3, 10, 12), (2, 8, 4), (2, -3, 4), (1, 5, 8)),
        ((10, 12), (2, 8, 4), (0, 5, 0), (0, 0, 8)),
        ((3, 4, 5, 8), (2, 3, 2, 8), (1, 2, -1, 4), (0, 0, 3, 0)),
        ((3, 2, 4, 3, 8), (2, 2, 3, 2, 4), (1, 1, -1, 2, 4), (2, 0, 0, 0, 0)),
    ],
    ids=str,
)
def test_maps_of_one_to_five_dimensions(tmp_path, shape, box, at, to):
    """Given as NumPy has an array's dimensions; instructions name coordinates the other way round."""
    checked = boxes(tmp_path, shape, box, at[::-1], to[::-1])
    assert checked.findings == []
    ones = (1,) * (len(box) - len(shape))
    as_box = (*ones, *shape) if ones else (-1, *shape[len(shape) - len(box) + 1 :])
    a, b = checked.inputs["a"].reshape(as_box), np.zeros(shape, "f4").reshape(as_box)
    tile = np.zeros(box, "f4")
    for index in np.ndindex(box):
        place = tuple(np.add(index, at))
        tile[index] = a[place] if all(0 <= one < extent for one, extent in zip(place, a.shape, strict=True)) else 0
    for index in np.ndindex(box):
        place = tuple(np.add(index, to))
        if all(one < extent for one, extent in zip(place, b.shape, strict=True)):
            b[place] = tile[index] + 1
    np.testing.assert_array_equal(checked.outputs["b"], b.reshape(shape))


@pytest.mark.further
def test_panels_of_an_array_with_three_dimensions(tmp_path):
    """The third coordinate is the panel's, the fourth the plane's."""
    checked = boxes(tmp_path, (3, 10, 16), (2, 8, 8), (0, 2, 2, 1), (0, 0, 0, 0), ",panel=4")
    assert checked.findings == []
    expected = np.zeros((3, 10, 16), "f4")
    expected[:2, :8, :8] = checked.inputs["a"][1:, 2:, 8:] + 1
    np.testing.assert_array_equal(checked.outputs["b"], expected)


@pytest.mark.further
def test_faults_of_maps_with_other_dimensions(tmp_path):
    negative = boxes(tmp_path, (4, 4, 4, 4), (2, 2, 2, 4), (0, 0, 0, 0), (0, 1, -1, 0)).findings
    assert "cp.async.bulk.tensor" in str(negative[0])
    assert "with the first element (0, -1, 1, 0), of which none may be negative" in str(negative[0])
    text = (tmp_path / "boxes.cu").read_text()
    fewer = text.replace("tensor.4d.shared", "tensor.1d.shared").replace("{0, 0, 0, 0}", "{0}")
    (tmp_path / "boxes.cu").write_text(fewer)
    (fault,) = check_launch(read_launch(str(tmp_path / "boxes.cu"))).findings
    assert "a tile of 1 dimensions of a tensor map of 4" in str(fault)
    (tmp_path / "boxes.cu").write_text(fewer.replace('"l"(from)', '"l"(&full)'))
    faults = map(str, check_launch(read_launch(str(tmp_path / "boxes.cu"))).findings)
    assert any("a tile of 1 dimensions of no tensor map (boxes.cu:13)" in one for one in faults)


def test_a_product_whose_map_has_one_dimension_takes_matrices_without_gaps():
    kernel = from_source(PRODUCT.replace("map_c:C(32,32", "map_c:C(32"))
    assert not kernel.support.gaps
    problem = Problem(64, 96, 256, Arithmetic("bfloat16", "float32"), b=Layout("column"))
    assert kernel.why_not(problem) is None
    found = layouts(kernel, kernel.config(), problem, aligned=True)["D"]
    assert (found.extents, found.strides, found.box.extents) == ((64 * 96,), (), (32,))
    four = from_source(PRODUCT.replace("map_c:C(32,32", "map_c:C(1,1,32,32"))
    found = layouts(four, four.config(), problem, aligned=True)["D"]
    assert (found.extents, found.strides) == ((96, 64, 1, 1), (384, 384 * 64, 384 * 64))


def line(words):
    return re.sub(r"// tilewright: maps=.*", f"// tilewright: {words}", PRODUCT)


A, B, C = "map_a:A(32,64,dtype=half)", "map_b:B(32,64)", "map_c:C(32,32)"
UNREADABLE = {
    "no word": (line("layout=NT"), ConfigError, "nothing says what the tensor map map_a of tile_product is of"),
    "one left out": (line(f"maps={A},{C}"), ConfigError, r"map_b .* as in\n// tilewright: maps=map_b:A\(64,64"),
    "no parameter": (line(f"maps={A},{B},map_d:C(32,32)"), ConfigError, "maps has 'map_d': tile_product has no such"),
    "no box": (line(f"maps={A},{B},map_c:C"), ConfigError, r"maps must read PARAMETER:ARRAY\(LINES,ELEMENTS\)"),
    "nothing of a line": (line(f"maps={A},{B},map_c:C()"), ConfigError, "the box of C must have 1 to 5 extents"),
    "six": (line(f"maps={A},{B},map_c:C(1,1,1,1,1,32)"), ConfigError, "the box of C must have 1 to 5 extents"),
    "panels of no lines": (line(f"maps={A},{B},map_c:C(64,panel=32)"), ConfigError, "C must have 2 to 4 extents"),
    "unknown name": (line(f"maps={A},{B},map_c:C(32,X)"), ConfigError, "maps must be .* nothing is called 'X'"),
    "unknown option": (line(f"maps={A},{B},map_c:C(32,32,swizzel=32B)"), ConfigError, "got 'swizzel'; .*swizzle"),
    "swizzle": (line(f"maps={A},{B},map_c:C(32,32,swizzle=16B)"), ConfigError, "none, 32B, 64B, 128B, got 16B"),
    "panel": (line(f"maps={A},{B},map_c:C(32,32,panel=K)"), ConfigError, "panel of C must be a number of elements"),
    "array": (line(f"maps={A},{B},map_c:X(32,32)"), ConfigError, "map_c of tile_product is a tensor map of X, "),
    "args": (line(f"maps={A},{B},{C} args=B,A,C,M,N,K"), ConfigError, "and the same in args, got B"),
    "no type": (line("maps=map_a:A(32,64),map_b:B(32,64),map_c:C(32,32)"), DtypeError, "of which elements"),
    "type": (line(f"maps={A},{B},map_c:C(32,32,dtype=double)"), DtypeError, "the dtype of a map of D is double"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "error", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_not_understood_is_said(text, error, words):
    with pytest.raises(error, match=words):
        from_source(text)


def test_a_box_that_no_gpu_takes_is_refused():
    with pytest.raises(ConfigError, match="row must be as long as its swizzle of 128 bytes, got 64"):
        found(PRODUCT.replace("map_a:A(32,64", "map_a:A(32,32"))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (" a=float32[rows,cols]", "", "maps of tile_transpose has 'a', which is no parameter: write what it is"),
        ("b(32,32)", "b(32,32,dtype=half)", "to of tile_transpose has the element type of b: leave dtype=half out"),
        ("cols=72", "cols=70", "from .* needs lines of a that are multiples of 16 bytes, got 70 float32"),
        ("b(32,32)", "b(32,32,panel=32)", "to .* needs lines of b that are multiples of 32 elements, got 100 float32"),
        ("rows=100", "rows=100 size=3", "size=3 is nothing that tile_transpose takes"),
    ],
)
def test_of_kernels_that_are_no_products_too(tmp_path, before, after, words):
    (tmp_path / "tile_transpose.cu").write_text(TRANSPOSE.replace(before, after, 1))
    with pytest.raises(ConfigError, match=words):
        read_launch(str(tmp_path / "tile_transpose.cu"))


@pytest.mark.further
def test_panels_of_other_kernels(tmp_path):
    """Two panels of 16 lie one after the other in shared memory."""
    text = TRANSPOSE.replace("a(32,32,swizzle=128B)", "a(32,32,panel=16)").replace("cols=72", "cols=80")
    text = text.replace("tensor.2d.shared::cluster", "tensor.3d.shared::cluster").replace(
        "{%2, %3}], [%4]", "{%5, %3, %2}], [%4]"
    )
    text = text.replace('"r"(col), "r"(row), "r"(bar) :', '"r"(col / 16), "r"(row), "r"(bar), "r"(0) :')
    text = text.replace("tile[y][(x / 4 ^ y % 8) * 4 + x % 4]", "(&tile[0][0])[x / 16 * 512 + y * 16 + x % 16]")
    (tmp_path / "tile_transpose.cu").write_text(text)
    checked = check_launch(read_launch(str(tmp_path / "tile_transpose.cu")))
    assert checked.findings == []
    np.testing.assert_array_equal(checked.outputs["b"], checked.inputs["a"].T)


def test_on_the_command_line():
    result = CliRunner().invoke(main.app, ["check", str(OWN / "tile_product.cu")])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(main.app, ["check", str(OWN / "tile_transpose.cu"), "--json", "-"])
    assert '"from": {' in result.output
    assert '"swizzle": 128' in result.output
