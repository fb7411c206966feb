"""NVRTC compiles the library's kernels in every order, for each architecture, and no register spills."""

import itertools

import pytest

from tilewright.engines import nvrtc
from tilewright.kernels import find
from tilewright.kernels.takes import Variant
from tilewright.problem import ACTIVATIONS, Epilogue

KERNELS = [find(name) for name in ("gemm_wmma",)]
CAPABILITIES = {"sm_75": (7, 5), "sm_80": (8, 0), "sm_89": (8, 9), "sm_90a": (9, 0), "sm_120": (12, 0)}
ACCESSES = ((False, True), (True, True), (True, False))  # edges, aligned

CASES = [
    (kernel, layout, arch)
    for kernel in KERNELS
    for layout in kernel.takes.layouts
    for arch, capability in CAPABILITIES.items()
    if any(kernel.runs_on(capability, factors) for factors in kernel.takes.factors)
]


def variants(kernel, layout, capability):
    """A sample: the plain form of each kind of access, and one in which types and epilogue take turns."""
    takes = kernel.takes
    factors = itertools.cycle(factors for factors in takes.factors if kernel.runs_on(capability, factors))
    results = itertools.cycle(takes.results)
    biases = itertools.cycle(("row", "column", None))
    activations = itertools.cycle(ACTIVATIONS[takes.layouts.index(layout) :] + ACTIVATIONS)
    for edges, aligned in ACCESSES:
        yield Variant(edges, aligned, takes.factors[0], takes.results[0], layout)
        if takes.epilogue:
            epilogue = Epilogue(next(biases), next(activations))
            yield Variant(edges, aligned, next(factors), next(results), layout, epilogue)


@pytest.mark.parametrize(("kernel", "layout", "arch"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_shipped_config_compiles_without_spills(kernel, layout, arch):
    config = kernel.config(capability=CAPABILITIES[arch])
    for variant in variants(kernel, layout, CAPABILITIES[arch]):
        report = nvrtc.compile(kernel, config, variant, arch).report
        assert report.spill_bytes == 0, f"{config} {variant}: {report}"
        assert report.registers * kernel.threads(config) <= 65536, "a block's registers do not fit a multiprocessor"
