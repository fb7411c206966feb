"""NVRTC compiles every rung of the course for real, for each architecture, and no register spills.

The library's kernels, in all that they take, are those of test_library_compiles.py.
"""

import struct
from dataclasses import astuple

import pytest

from tilewright.core.gpus import COMPUTE_CAPABILITIES
from tilewright.kernels import KERNELS, find
from tilewright.kernels.kernel import tuned_for
from tilewright.kernels.support import Variant
from tilewright.runtime import nvrtc
from tilewright.tools.explain.machine_code import machine_code

RUNGS = [kernel for kernel in KERNELS if kernel.source.parent.name == "ladder"]
CAPABILITIES = {"sm_75": (7, 5), "sm_80": (8, 0), "sm_89": (8, 9), "sm_90a": (9, 0), "sm_120": (12, 0)}


PRODUCTS = {"wgmma_tma": 2 * 4, "specialised": 4, "tma_store": 2 * 4, "interleaved": 6 * 4, "wgmma_int8": 2 * 4}
"""Instructions of a step along k: for each 64 rows of a warpgroup, and 32 bytes of k, and each product of parts."""

CASES = [
    (kernel, dtype, arch)
    for kernel in RUNGS
    for dtype in kernel.support.factors
    for arch, capability in CAPABILITIES.items()
    if kernel.support.runs_on(capability, dtype)
    if arch != ("sm_80", "sm_89")[kernel.rung % 2]  # which differ in little: rungs take turns
]


@pytest.mark.parametrize(("kernel", "dtype", "arch"), CASES, ids=lambda value: getattr(value, "name", value))
def test_a_shipped_config_compiles_without_spills(kernel, dtype, arch, report_of):
    config = kernel.config(capability=CAPABILITIES[arch])
    types = {"factors": dtype, "result": kernel.support.arithmetic(dtype).result}
    variants = [
        Variant(edges=False, aligned=kernel.support.vectorized, **types),
        Variant(edges=True, aligned=False, **types),
    ]
    if kernel.support.vectorized:
        variants.append(Variant(edges=True, aligned=True, **types))
    turn = RUNGS.index(kernel) + list(CAPABILITIES).index(arch)
    if arch != "sm_90a":  # one: architectures take turns
        variants = [variants[turn % len(variants)]]
    elif not kernel.support.architectures:  # that whose main loop tests/tools/explain/test_machine_code.py reads
        variants = [variants[kernel.rung % 2]]
    elif kernel.support.vectorized:
        del variants[1 + turn % 2]  # one with bounds checks: kernels take turns
    for variant in variants:
        compiled = report_of(kernel, config, variant, arch)
        report = compiled.report
        assert report.spill_bytes == 0, f"{config} {variant}: {report}"
        assert "serialized" not in compiled.log, "ptxas says so of a warpgroup's products"
        assert report.registers * kernel.threads(config) <= 65536, "a block's registers do not fit a multiprocessor"


@pytest.mark.parametrize(
    ("kernel", "preset"), [(kernel, preset) for kernel in RUNGS for preset in kernel.presets], ids=str
)
def test_every_preset_compiles(kernel, preset, report_of):
    config = kernel.config(kernel.preset(preset))
    needed = max(kernel.support.least_capability, (8, 0))
    arch = next(arch for arch, capability in CAPABILITIES.items() if capability >= needed)
    assert report_of(kernel, config, Variant(True, False, kernel.support.factors[0]), arch).report.registers


@pytest.mark.first(1)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_warpgroups_are_not_serialised(name):
    """ptxas waits for each product before the next where it is not sure of their registers. Of rungs with the same
    products, one; of each, `test_a_shipped_config_compiles_without_spills` reads what ptxas says."""
    kernel = find(name)
    config = kernel.config()
    variant = Variant(False, True, *astuple(kernel.support.arithmetic()))
    main_loop = machine_code(kernel, config, variant, "sm_90a").main_loop
    products = [one for one in main_loop if one.name in ("HGMMA", "IGMMA")]
    steps, rest = divmod(len(products), PRODUCTS[kernel.name])
    assert steps and not rest
    waits = [one for one in main_loop if one.name == "WARPGROUP" and one.modifiers[:1] == ("DEPBAR",)]
    assert len(waits) <= steps


@pytest.mark.parametrize("cluster", [2, 4])
def test_machine_code_has_the_clusters_that_the_spec_says(cluster):
    """Then a launch needs no attribute for them."""
    kernel = find("clusters")
    config = kernel.config({"CLUSTER_M": cluster})
    assert kernel.cluster(config) == cluster
    code = nvrtc.compile(kernel, config, Variant(False, True, *astuple(kernel.support.arithmetic())), "sm_90a").code
    attribute = struct.pack("<BBH3I", 4, 0x3D, 12, cluster, 1, 1)  # EIATTR_CTA_PER_CLUSTER
    assert attribute in code


@pytest.mark.parametrize("overrides", [{"PROMOTE": 16}, {"PROMOTE": 128}], ids=str)
@pytest.mark.parametrize("name", ["promoted", "interleaved"])
def test_sums_that_begin_anew_do_not_serialise_products(name, overrides, report_of):
    """Within a stage, and held over several."""
    kernel = find(name)
    compiled = report_of(kernel, kernel.config(overrides), Variant(True, False), "sm_90a")
    assert "serialized" not in compiled.log
    assert compiled.report.spill_bytes == 0


@pytest.mark.first(3)
@pytest.mark.parametrize(
    "name",
    ["specialised", "persistent", "clusters", "rasterized", "pingpong", "tma_store", "interleaved", "wgmma_int8"],
)
def test_register_budgets_hold_where_a_thread_has_few_sums(name, report_of):
    """ptxas ignores them where it is not told how many registers a block starts with."""
    kernel = find(name)
    variant = Variant(False, True, *astuple(kernel.support.arithmetic()))
    compiled = report_of(kernel, kernel.config({"BN": 64}), variant, "sm_90a")
    assert "setmaxnreg" not in compiled.log
    assert compiled.report.spill_bytes == 0


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_presets_of_gpus_name_known_capabilities(kernel):
    assert {name for name in kernel.presets if name.startswith("sm_")} <= set(map(tuned_for, COMPUTE_CAPABILITIES))
