"""NVRTC compiles the library's kernels in every order, for each architecture, and no register spills."""

import itertools

import pytest

from tilewright import kernels
from tilewright.engines import nvrtc
from tilewright.kernels import find
from tilewright.kernels.takes import Variant
from tilewright.problem import ACTIVATIONS, Epilogue

KERNELS = [find(name) for name in ("gemm_wmma",)]
"""Those of which every layout with every kind of access is compiled for sm_90a, and a quarter of these for each other
architecture, in turns; of the others a sample is."""
CAPABILITIES = {"sm_75": (7, 5), "sm_80": (8, 0), "sm_89": (8, 9), "sm_90a": (9, 0), "sm_120": (12, 0)}
ACCESSES = ((False, True), (True, True), (True, False))  # edges, aligned


CASES = [
    (kernel, preset, arch)
    for kernel in KERNELS
    for preset in (None, *kernel.presets)
    for arch, capability in CAPABILITIES.items()
    if any(kernel.runs_on(capability, factors) for factors in kernel.takes.factors)
]


def variants(kernel, capability):
    """A sample: every order with every kind of access, while types, bias and activation take turns."""
    takes = kernel.takes
    factors = itertools.cycle(factors for factors in takes.factors if kernel.runs_on(capability, factors))
    results = itertools.cycle(takes.results)
    epilogues = itertools.cycle([Epilogue(), Epilogue("row", "gelu"), *map(Epilogue, ("column", None), ACTIVATIONS)])
    for layout in takes.layouts:
        for edges, aligned in ACCESSES:
            yield Variant(edges, aligned, next(factors), next(results), layout, next(epilogues))


@pytest.mark.parametrize(("kernel", "preset", "arch"), CASES, ids=lambda value: getattr(value, "name", str(value)))
def test_a_shipped_config_compiles_without_spills(kernel, preset, arch):
    overrides = None if preset is None else kernel.preset(preset)
    config = kernel.config(overrides, capability=CAPABILITIES[arch])
    turn = list(CAPABILITIES).index(arch)
    for number, variant in enumerate(variants(kernel, CAPABILITIES[arch])):
        if arch != "sm_90a" and (number + turn) % 4:
            continue
        report = nvrtc.compile(kernel, config, variant, arch).report
        assert report.spill_bytes == 0, f"{config} {variant}: {report}"
        assert report.registers * kernel.threads(config) <= 65536, "a block's registers do not fit a multiprocessor"


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

SPILLS = {("tma_packed", "sm_120"): 76}
"""Bytes that a default config may spill at most, by architecture; elsewhere none."""

LIBRARY = [kernel for kernel in kernels.KERNELS if kernel.source.parent.name == "library"]
OTHERS = [kernel for kernel in LIBRARY if kernel not in KERNELS and not kernel.takes.architectures]
SHIPPED = [
    (kernel, preset)
    for kernel in LIBRARY
    if kernel.source.stem != "gemm_mma"  # not for Hopper
    for preset in (None, *kernel.presets)
]


def config_of(kernel, preset):
    return kernel.config(kernel.preset(preset) if preset else None)


def sample(kernel, preset, start=0):
    """Variants of a kernel: every layout, element type and guard, and of its default config every epilogue, though not
    each with each. Epilogues take turns from preset to preset.
    """
    layouts = LAYOUTS.get((kernel.name, preset), kernel.takes.layouts)
    factors = (kernel.split.dtype,) if kernel.split else kernel.takes.factors
    count = max(map(len, (layouts, ACCESSES, factors, kernel.takes.results, () if preset else SAMPLED_EPILOGUES)))
    ways = (ACCESSES, factors, kernel.takes.results, layouts, SAMPLED_EPILOGUES)
    for number in range(start, start + count):
        guards, *rest = (way[number % len(way)] for way in ways)
        yield Variant(*guards, *rest)


@pytest.mark.parametrize(("number", "case"), [one for one in enumerate(SHIPPED) if one[1][0] not in KERNELS], ids=str)
def test_a_shipped_config_does_not_spill(number, case):
    kernel, preset = case
    for variant in sample(kernel, preset, start=number):
        compiled = nvrtc.compile(kernel, config_of(kernel, preset), variant, "sm_90a")
        report = compiled.report
        assert "Performance Loss" not in compiled.log, (
            "a warpgroup's products are serialised, or register budgets ignored"
        )
        assert report.spill_bytes == 0, f"{preset} {variant}: {report}"
        assert report.registers * kernel.threads(config_of(kernel, preset)) <= 65536


WIDE = Variant(True, False, "bfloat16", "float32", "TN", Epilogue("column", "gelu"))
NARROW = Variant(True, False, "bfloat16", "bfloat16", "NN", Epilogue("row", "silu"))
WHOLE = Variant(False, False, "float16", "float16", "NT")


@pytest.mark.parametrize(
    ("name", "overrides", "variant"),
    [
        ("gemm_sm90", {"BM": 256, "BN": 192, "STAGES": 3}, WIDE),
        ("gemm_sm90", {"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER": 2}, WHOLE),
        ("gemm_sm90", {"BM": 128, "BN": 192, "PINGPONG": 1, "CLUSTER": 2}, WHOLE),
        ("gemm_sm90", {"BM": 192, "BN": 128, "PINGPONG": 1, "CLUSTER": 2}, NARROW),
        ("gemm_sm90", {"BM": 128, "BN": 256, "SPLITS": 2}, NARROW),
        ("gemm_bf16x3", {"BM": 256, "STAGES": 2, "CLUSTER": 2}, NARROW),
        ("gemm_bf16x6", {"PROMOTE": 32, "SPLITS": 2}, WIDE),
        ("gemm_fp16x3", {"BN": 192, "STAGES": 2}, WHOLE),
        ("gemm_fp16x3", {"BM": 256, "STAGES": 2}, NARROW._replace(factors="float16")),
    ],
    ids=lambda value: value.result if isinstance(value, Variant) else str(value),
)
def test_the_largest_tiles_of_warpgroups_do_not_spill(name, overrides, variant):
    kernel = find(name)
    config = kernel.config(overrides)
    compiled = nvrtc.compile(kernel, config, variant, "sm_90a")
    assert compiled.report.spill_bytes == 0
    assert "Performance Loss" not in compiled.log


@pytest.mark.parametrize("arch", ["sm_86", "sm_90"])
def test_products_of_warps_do_not_spill_where_the_others_are_not_compiled_for(arch):
    kernel = find("gemm_mma_fp16x3")
    report = nvrtc.compile(kernel, kernel.config(), NARROW._replace(factors="float16"), arch).report
    assert report.spill_bytes == 0


@pytest.mark.parametrize(("kernel", "arch"), list(itertools.product(OTHERS, CAPABILITIES)), ids=str)
def test_every_architecture_is_compiled_for(kernel, arch):
    capability = CAPABILITIES[arch]
    variants = [one for one in sample(kernel, None) if kernel.runs_on(capability, one.factors)]
    assert bool(variants) == (capability >= kernel.takes.least_capability)
    # Of sm_90a every shipped config is compiled above; of the others half of the variants each.
    turn = list(CAPABILITIES).index(arch) % 2
    for variant in variants[turn::2] if arch != "sm_90a" else ():
        report = nvrtc.compile(kernel, config_of(kernel, None), variant, arch).report
        assert report.spill_bytes <= SPILLS.get((kernel.name, arch), 0), f"{variant}: {report}"
