"""NVRTC compiles the library's kernels in every order, and for each architecture, and no register spills."""

import re
import zlib
from pathlib import Path

import pytest

from sass_cases import of_arithmetic
from tilewright import kernels
from tilewright.core.problem import Epilogue
from tilewright.kernels import find
from tilewright.kernels.library import grouped_sm90, split_k
from tilewright.kernels.support import Variant

CAPABILITIES = {"sm_75": (7, 5), "sm_80": (8, 0), "sm_89": (8, 9), "sm_90a": (9, 0), "sm_120": (12, 0)}
ARCHITECTURES = tuple(CAPABILITIES)
CAPABILITIES |= {"sm_86": (8, 6), "sm_90": (9, 0)}
ACCESSES = ((False, True), (True, True), (True, False))  # edges, aligned
ORDERS = ("NN", "TT", "NT", "TN")  # neighbours have each order of A and each of B
SAMPLED_EPILOGUES = (Epilogue(), Epilogue("row", "gelu"), Epilogue("column", "gelu_tanh"), Epilogue("row", "silu"))

# The layouts that a config is for, where that is not every one that its kernel takes: others are right, but slower.
LAYOUTS = {
    ("tma_packed", None): ("TN",),
    ("skinny", None): ("NN",),
    ("skinny", "row"): ("NN", "TN"),
    ("skinny", "rows"): ("NN",),
    ("skinny", "transposed_rows"): ("TN",),
    ("skinny", "weights_row"): ("NT", "TT"),
    ("skinny", "weights_rows"): ("NT",),
    ("skinny", "column"): ("NN", "NT"),
    ("skinny", "dot"): ("NN", "NT"),
    ("skinny", "transposed_column"): ("TN", "TT"),
    ("skinny", "transposed_columns"): ("TN", "TT"),
}

ALIKE = (
    "tma_transposed",
    "gemm_bf16x6",
    "gemm_bf16x3",
    "gemm_fp16x3",
    "gemm_fp8_nn",
    "gemm_fp8_fast",
    "gemm_int8_nn",
    "gemm_int8_blocks",
    "gemm_fp8_blocks",
    "gemm_tf32_nn",
    "gemm_tf32_tt",
    "small_m_bf16x6",
    "small_m_fp16x3",
)
"""Kernels that differ from another in little: they are sampled as presets are."""

OF_WARPS = {
    "gemm_mma": ("sm_80", "sm_89"),
    "gemm_mma_tf32": ("sm_86", "sm_120"),
    "gemm_mma_fp8": ("sm_89", "sm_120"),
    "gemm_mma_fp8_fast": ("sm_120",),
    "gemm_mma_fp8_blocks": ("sm_89",),
    "gemm_mma_int8": ("sm_80", "sm_89"),
    "gemm_mma_int8_blocks": ("sm_86",),
    "gemm_mma_bf16x6": ("sm_120",),
    "gemm_mma_bf16x3": ("sm_90",),
    "gemm_mma_fp16x3": ("sm_80",),
}
"""Architectures that kernels of one source are compiled for: the first, and presets in turns all of them."""

SPILLS = {("tma_packed", "sm_120"): 76}
"""Bytes that a default config may spill at most, by architecture; elsewhere none."""

LIBRARY = [kernel for kernel in kernels.KERNELS if kernel.source.parent.name == "library"]
OTHERS = [kernel for kernel in LIBRARY if not kernel.support.architectures]
SHIPPED = [
    (kernel, preset)
    for kernel in LIBRARY
    if kernel.source.stem != "gemm_mma"  # not for Hopper
    for preset in (None, *kernel.presets)
]


def config_of(kernel, preset, arch="sm_90a"):
    return kernel.config(kernel.preset(preset) if preset else None, capability=CAPABILITIES[arch])


def turn_of(kernel, preset, arch=""):
    """Whose turn it is with a config: a number that another kernel, or another preset, does not change."""
    return zlib.crc32(f"{kernel.name}:{preset}:{arch}".encode())


def sample(kernel, preset, turn=0, count=2):
    """Variants of a kernel, each of which takes a second: of its default config two, which have every order of A and of
    B between them, but of the kernel that most products are made by every layout, element type, guard and epilogue; of
    one that reads a single layout, and of a preset, one, with bounds checks, which take registers. All take turns.
    """
    config = kernel.config(kernel.preset(preset) if preset else None)
    layouts = LAYOUTS.get((kernel.name, preset), ORDERS)
    layouts = list(dict.fromkeys(kernel.layout_read(config, one) for one in layouts if one in kernel.support.layouts))
    factors = (kernel.split.dtype,) if kernel.split else kernel.support.factors
    few = preset or kernel.name in ALIKE or len(layouts) == 1
    ways = (ACCESSES[1:] if few else ACCESSES, factors, kernel.support.results, layouts)
    count = 1 if few else max(map(len, ways)) if kernel.name == "gemm_sm90" else count
    for number in range(turn * count, (turn + 1) * count):
        guards, *rest = (way[number % len(way)] for way in ways)
        epilogue = SAMPLED_EPILOGUES[(number + number // len(SAMPLED_EPILOGUES)) % len(SAMPLED_EPILOGUES)]
        yield Variant(*guards, *rest, epilogue)


@pytest.mark.parametrize(("kernel", "preset"), SHIPPED, ids=str)
def test_a_shipped_config_does_not_spill(kernel, preset, report_of):
    config = config_of(kernel, preset)
    for variant in sample(kernel, preset, turn=turn_of(kernel, preset)):
        compiled = report_of(kernel, config, variant, "sm_90a")
        report = compiled.report
        assert "Performance Loss" not in compiled.log, (
            "a warpgroup's products are serialised, or register budgets ignored"
        )
        assert report.spill_bytes <= SPILLS.get((kernel.name, "sm_90a"), 0), f"{preset} {variant}: {report}"
        assert report.registers * kernel.threads(config) <= 65536, "a block's registers do not fit a multiprocessor"


GROUPED = [(one, preset) for one in grouped_sm90.KERNELS for preset in (None, *one.presets)]


@pytest.mark.parametrize(("number", "case"), list(enumerate(GROUPED)), ids=str)
def test_a_shipped_config_of_grouped_products_does_not_spill(number, case, report_of):
    """In one form each: they take turns."""
    kernel, preset = case
    aligned, result = bool(number % 2), kernel.support.results[number % 3]
    layout = kernel.layout_read(kernel.config(), ORDERS[number % 2 * 2])
    variant = Variant(True, aligned, kernel.support.factors[number % 2], result, layout)
    compiled = report_of(kernel, config_of(kernel, preset), variant, "sm_90a")
    assert "Performance Loss" not in compiled.log
    assert compiled.report.spill_bytes == 0, f"{preset} {variant}: {compiled.report}"


PAIRS = [*split_k.KERNEL.presets.values(), *split_k.KERNEL.portfolio]


@pytest.mark.parametrize(("number", "overrides"), list(enumerate(PAIRS)))
def test_a_shipped_config_of_split_k_multiplies_complex_factors_as_fast(number, overrides, report_of):
    """In one form each, they take turns: no spills, and neither signs nor parts of elements take instructions."""
    layout = ("NN", "NT", "TN", "TT")[number % 4]
    variant = Variant(edges=number % 3 > 0, aligned=number % 3 < 2, layout=layout)
    signs = {"CONJUGATE_A": number // 2 % 2, "CONJUGATE_B": number // 4 % 2}
    real, pairs = (
        report_of(kernel, kernel.config(one), variant, "sm_90a", of_arithmetic)
        for kernel, one in ((split_k.KERNEL, overrides), (split_k.COMPLEX, {**overrides, **signs}))
    )
    assert pairs.report.spill_bytes == 0
    assert pairs.read["FFMA"] == real.read["FFMA"] > 0
    assert {name: pairs.read[name] for name in ("FADD", "FMUL")} == {name: real.read[name] for name in ("FADD", "FMUL")}
    assert pairs.read["LDS"] < real.read["LDS"] and pairs.read["LDGSTS"] < real.read["LDGSTS"]


PRESETS_OF_WARPS = [(find(name), preset) for name in OF_WARPS for preset in find(name).presets]


@pytest.mark.first(2)
@pytest.mark.parametrize(("kernel", "preset"), PRESETS_OF_WARPS, ids=str)
def test_a_preset_of_warps_does_not_spill(kernel, preset, report_of):
    """On one architecture each, Hopper's among them: they take turns."""
    number = turn_of(kernel, preset)
    arch = (*OF_WARPS[kernel.name], "sm_90a")[number % (len(OF_WARPS[kernel.name]) + 1)]
    (variant,) = sample(kernel, preset, turn=number)
    report = report_of(kernel, config_of(kernel, preset, arch), variant, arch).report
    assert report.spill_bytes == 0, f"{arch} {variant}: {report}"
    assert report.registers * kernel.threads(kernel.config(kernel.preset(preset))) <= 65536


WIDE = Variant(True, False, "bfloat16", "float32", "TN", Epilogue("column", "gelu"))
NARROW = Variant(True, False, "bfloat16", "bfloat16", "NN", Epilogue("row", "silu"))
WHOLE = NARROW._replace(aligned=True)
EIGHT = Variant(True, False, "float8_e5m2", "float16", "NT", Epilogue("row", "gelu"), "float8_e4m3fn")
INTEGERS = Variant(True, False, "uint8", "float16", "NT", Epilogue("row", "gelu"), "int8")
ROUNDED = Variant(False, True, epilogue=Epilogue("row", "gelu"))


@pytest.mark.parametrize(
    ("name", "overrides", "variant"),
    [
        ("gemm_sm90", {"BM": 192, "BN": 128, "PINGPONG": 1, "CLUSTER_M": 2}, NARROW),
        ("gemm_sm90", {"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 2, "CLUSTER_N": 2}, WIDE._replace(layout="TT")),
        ("gemm_sm90", {"BM": 192, "BN": 200, "CONSUMERS": 3, "CLUSTER_N": 2}, WIDE),
        ("gemm_sm90", {"BM": 128, "BN": 192, "CONSUMERS": 1}, WIDE),
        ("gemm_sm90", {"BM": 192, "BN": 128, "PINGPONG": 1, "TMA_STORE_STAGES": 1, "SWAP_AB": 1}, WHOLE),
        ("gemm_sm90", {"BM": 256, "BN": 96, "TMA_STORE_STAGES": 1, "SWAP_AB": 1}, NARROW),
        ("gemm_sm90", {"BM": 192, "BN": 200, "CONSUMERS": 3, "STAGES": 3, "SWAP_AB": 1}, WIDE),
        ("gemm_tf32_nn", {"BM": 192, "BN": 168, "CONSUMERS": 3}, ROUNDED),
        ("gemm_fp8_fast", {"BM": 256, "BN": 192, "STAGES": 3}, EIGHT),
        ("gemm_fp8_nn", {"BM": 256, "STAGES": 4}, EIGHT),
        ("gemm_fp8_nn", {"BM": 192, "BN": 96, "CONSUMERS": 3, "STAGES": 5}, EIGHT),
        ("gemm_fp8", {"BM": 192, "BN": 96, "CONSUMERS": 3, "STAGES": 5}, EIGHT),
        ("gemm_int8", {"BM": 256, "BN": 192, "STAGES": 3}, INTEGERS),
        ("gemm_int8", {"BM": 256, "BN": 96, "SWAP_AB": 1}, INTEGERS._replace(result="int32", epilogue=Epilogue("row"))),
        ("gemm_int8", {"BM": 192, "BN": 160, "CONSUMERS": 3, "STAGES": 3}, INTEGERS),
        ("gemm_int8_nn", {"BM": 256, "STAGES": 4}, INTEGERS),
        ("gemm_fp16x3", {"BM": 256, "STAGES": 2, "CLUSTER_M": 2}, NARROW._replace(factors="float16")),
    ],
    ids=lambda value: value.result if isinstance(value, Variant) else str(value),
)
def test_the_largest_tiles_of_warpgroups_do_not_spill(name, overrides, variant, report_of):
    """Forms of each number of consumers that hold the most sums, and forms that hold something besides. Threads of two
    have 232 registers at most, those of three 152."""
    kernel = find(name)
    config = kernel.config(overrides)
    compiled = report_of(kernel, config, variant, "sm_90a")
    assert compiled.report.spill_bytes == 0
    assert "Performance Loss" not in compiled.log


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("kernel", "arch"),
    [
        (kernel, arch)
        for kernel in OTHERS
        for arch in OF_WARPS.get(kernel.name, ARCHITECTURES)[: 1 if kernel.name in OF_WARPS else None]
        if arch != "sm_90a"  # compiled for above
        if kernel.name in OF_WARPS or arch != ("sm_80", "sm_89")[turn_of(kernel, None) % 2]  # which differ in little
    ],
    ids=str,
)
def test_every_architecture_is_compiled_for(kernel, arch, report_of):
    """In one form each: they take turns."""
    capability = CAPABILITIES[arch]
    variants = [one for one in sample(kernel, None, count=4) if kernel.support.runs_on(capability, one.factors)]
    assert bool(variants) == (capability >= kernel.support.least_capability)
    if variants:
        variant = variants[turn_of(kernel, None, arch) % len(variants)]
        config = config_of(kernel, None, arch)
        report = report_of(kernel, config, variant, arch).report
        assert report.spill_bytes <= SPILLS.get((kernel.name, arch), 0), f"{variant}: {report}"
        assert report.registers * kernel.threads(config) <= 65536


def test_no_lambda_of_a_kernel_has_parameters_of_any_type():
    """NVRTC 13.0 takes none in a kernel, though later ones do."""
    sources = list(Path(kernels.__file__).parent.rglob("*.cu*"))
    assert len(sources) > 100
    assert not [path.name for path in sources if re.search(r"\]\([^)]*\bauto\b", path.read_text())]
