"""NVRTC compiles the library's kernels for each architecture, and no register spills in a shipped config."""

import itertools

import pytest

from tilewright.engines import nvrtc
from tilewright.kernels import KERNELS
from tilewright.kernels.spec import RUNG_ARGUMENTS
from tilewright.kernels.takes import Variant
from tilewright.problem import Epilogue

CAPABILITIES = {"sm_75": (7, 5), "sm_80": (8, 0), "sm_89": (8, 9), "sm_90a": (9, 0), "sm_120": (12, 0)}
EPILOGUES = (Epilogue(), Epilogue("row", "gelu"), Epilogue("column", "gelu_tanh"), Epilogue("row", "silu"))
GUARDS = ((False, True), (True, True), (True, False))  # edges, aligned

# The layouts that a config is for, where that is not every one that its kernel takes: others are right, but slower.
LAYOUTS = {
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

SPILLS = {("tma_packed", "sm_120"): 68, ("gemm_wmma", "sm_80"): 8, ("gemm_wmma", "sm_89"): 8}
"""Bytes that a default config may spill at most, by architecture; elsewhere none."""

LIBRARY = [kernel for kernel in KERNELS if kernel.arguments != RUNG_ARGUMENTS]
SHIPPED = [(kernel, preset) for kernel in LIBRARY for preset in (None, *kernel.presets)]


def config_of(kernel, preset):
    return kernel.config(kernel.preset(preset) if preset else None)


def sample(kernel, preset, start=0):
    """Variants of a kernel: every layout, element type, epilogue and guard, though not each with each."""
    layouts = LAYOUTS.get((kernel.name, preset), kernel.takes.layouts)
    count = max(len(layouts), len(GUARDS), len(EPILOGUES), len(kernel.takes.factors), len(kernel.takes.results))
    ways = (GUARDS, kernel.takes.factors, kernel.takes.results, layouts, EPILOGUES)
    for number in range(start, start + count):
        guards, *rest = (way[number % len(way)] for way in ways)
        yield Variant(*guards, *rest)


@pytest.mark.parametrize(("number", "case"), list(enumerate(SHIPPED)), ids=str)
def test_a_shipped_config_does_not_spill(number, case):
    kernel, preset = case
    for variant in sample(kernel, preset, start=number):
        report = nvrtc.compile(kernel, config_of(kernel, preset), variant, "sm_90a").report
        assert report.spill_bytes == 0, f"{preset} {variant}: {report}"
        assert report.registers * kernel.threads(config_of(kernel, preset)) <= 65536


@pytest.mark.parametrize(("kernel", "arch"), list(itertools.product(LIBRARY, CAPABILITIES)), ids=str)
def test_every_architecture_is_compiled_for(kernel, arch):
    capability = CAPABILITIES[arch]
    variants = [one for one in sample(kernel, None) if kernel.runs_on(capability, one.factors)]
    assert bool(variants) == (capability >= kernel.takes.least_capability)
    for variant in variants:
        report = nvrtc.compile(kernel, config_of(kernel, None), variant, arch).report
        assert report.spill_bytes <= SPILLS.get((kernel.name, arch), 0), f"{variant}: {report}"
