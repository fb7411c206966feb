"""GPUs: their peaks against what NVIDIA publishes, and how their drivers' names are read."""

import json
from pathlib import Path

import pytest

from tilewright.core.errors import GpuNotFoundError
from tilewright.core.gpus import COMPUTE_CAPABILITIES, GPUS, MULTIPROCESSORS, find_gpu, gpu_named

RECORDS = Path(__file__).parents[2] / "results"

PUBLISHED_TFLOPS = {
    "V100": 15.7,
    "T4": 8.1,
    "A100 40GB": 19.5,
    "A100 80GB": 19.5,
    "RTX A6000": 38.7,
    "RTX 3060": 12.7,
    "RTX 3090": 35.6,
    "L4": 30.3,
    "L40S": 91.6,
    "RTX 4090": 82.6,
    "RTX 5060": 19.2,
    "RTX 5060 Ti": 23.7,
    "RTX 5070": 30.9,
    "RTX 5070 Ti": 43.9,
    "RTX 5080": 56.3,
    "RTX 5090": 104.8,
    "H100 PCIe": 51,
    "H100": 67,
    "H200": 67,
    "GH200": 67,
    "B200": 75,
    "B300": 75,
    "GB10": 31,
}


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_peaks_are_the_published_ones(gpu):
    assert gpu.tflops == pytest.approx(PUBLISHED_TFLOPS[gpu.name], rel=0.01)
    assert gpu.capability in MULTIPROCESSORS


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_the_l2_cache_is_faster_than_memory(gpu):
    assert gpu.l2_bytes_per_clock * gpu.clock_mhz / 1e3 > gpu.dram_gbs


def tile_bytes(config, size=4096, item=2):
    """Bytes of the tiles of A and B that blocks without clusters load for a square product."""
    blocks = (size // config["BM"]) * (size // config["BN"])
    return blocks * (config["BM"] + config["BN"]) * size * item


def test_no_kernel_on_record_reads_more_from_the_l2_cache_than_the_probe():
    """Rung 20 loads tiles as fast as the probe loads words; products of user kernels on an H100 pass 20 bytes a
    multiprocessor."""
    of = "h200/machine.json", "h200/ncu/profiles.json", "h100/ncu/own_products.json"
    machine, profiles, products = (json.loads((RECORDS / name).read_text()) for name in of)
    (probe,) = (one for one in machine["bandwidths"] if one["level"] == "L2 cache")
    roof = gpu_named("H200").l2_bytes_per_clock
    assert probe["work"] / probe["cycles"] == pytest.approx(roof, rel=0.05)  # of two H200s, 48 and 46
    found = {one["way"]: one["facts"] for one in profiles["measurements"] if one["what"]["shape"].startswith("4096x")}
    clocks = {name: one["counters"]["sm__cycles_elapsed.max"] for name, one in found.items()}
    read = [32 * one["counters"]["lts__t_sectors_op_read.sum"] / clocks[name] for name, one in found.items()]
    assert max(read) < roof
    assert 0.98 * roof < tile_bytes(found["wgmma_tma"]["config"]) / clocks["wgmma_tma"] < roof
    large = [one for one in products["profiles"] if one["shape"] == "4096x4096x4096"]
    loaded = [tile_bytes(one["config"]) / one["counters"]["sm__cycles_elapsed.max"] for one in large]
    assert min(loaded) > 20 * 132 and max(loaded) < gpu_named("H100").l2_bytes_per_clock


def test_a_block_can_have_all_of_a_multiprocessors_shared_memory_but_the_systems():
    for capability, limits in COMPUTE_CAPABILITIES.items():
        sm = MULTIPROCESSORS[capability]
        assert limits.shared_per_block == sm.shared_bytes - sm.reserved_shared_bytes


@pytest.mark.parametrize(
    ("device", "capability", "name"),
    [
        ("NVIDIA H200", (9, 0), "H200"),
        ("NVIDIA H100 80GB HBM3", (9, 0), "H100"),
        ("NVIDIA H100 PCIe", (9, 0), "H100 PCIe"),
        ("NVIDIA GH200 480GB", (9, 0), "GH200"),
        ("NVIDIA A100-SXM4-80GB", (8, 0), "A100 80GB"),
        ("NVIDIA A100-PCIE-40GB", (8, 0), "A100 40GB"),
        ("NVIDIA RTX A6000", (8, 6), "RTX A6000"),
        ("NVIDIA GeForce RTX 3060", (8, 6), "RTX 3060"),
        ("NVIDIA GeForce RTX 4090", (8, 9), "RTX 4090"),
        ("NVIDIA GeForce RTX 5060", (12, 0), "RTX 5060"),
        ("NVIDIA GeForce RTX 5060 Ti", (12, 0), "RTX 5060 Ti"),
        ("NVIDIA B300 SXM6 AC", (10, 3), "B300"),
        ("NVIDIA GB10", (12, 1), "GB10"),
        ("Tesla T4", (7, 5), "T4"),
        ("Tesla V100-SXM2-16GB", (7, 0), "V100"),
    ],
)
def test_products_are_known_by_what_their_drivers_call_them(device, capability, name):
    gpu = find_gpu(device, capability)
    assert gpu.name == name
    assert gpu in GPUS


def test_an_unlisted_product_is_taken_for_one_of_its_capability():
    other = find_gpu("NVIDIA GeForce RTX 3060 Ti", (8, 6))
    assert other not in GPUS
    assert (other.name, other.capability) == ("GeForce RTX 3060 Ti", (8, 6))
    assert find_gpu("", (8, 7)).multiprocessors in {gpu.multiprocessors for gpu in GPUS if gpu.capability == (8, 6)}
    assert find_gpu("", (13, 0)).capability == (13, 0)


PUBLISHED_LIMITS = {
    # Threads, blocks and kilobytes of shared memory a multiprocessor; FP32 lanes; kilobytes that a block can ask for.
    "V100": (2048, 32, 96, 64, 96),
    "T4": (1024, 16, 64, 64, 64),
    "A100 40GB": (2048, 32, 164, 64, 163),
    "A100 80GB": (2048, 32, 164, 64, 163),
    "RTX A6000": (1536, 16, 100, 128, 99),
    "RTX 3060": (1536, 16, 100, 128, 99),
    "RTX 3090": (1536, 16, 100, 128, 99),
    "L4": (1536, 24, 100, 128, 99),
    "L40S": (1536, 24, 100, 128, 99),
    "RTX 4090": (1536, 24, 100, 128, 99),
    "RTX 5060": (1536, 24, 100, 128, 99),
    "RTX 5060 Ti": (1536, 24, 100, 128, 99),
    "RTX 5070": (1536, 24, 100, 128, 99),
    "RTX 5070 Ti": (1536, 24, 100, 128, 99),
    "GB10": (1536, 24, 100, 128, 99),
    "RTX 5080": (1536, 24, 100, 128, 99),
    "RTX 5090": (1536, 24, 100, 128, 99),
    "H100 PCIe": (2048, 32, 228, 128, 227),
    "H100": (2048, 32, 228, 128, 227),
    "H200": (2048, 32, 228, 128, 227),
    "GH200": (2048, 32, 228, 128, 227),
    "B200": (2048, 32, 228, 128, 227),
    "B300": (2048, 32, 228, 128, 227),
}
"""CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""

PUBLISHED_PRODUCTS = {
    # Multiprocessors, GB/s of memory, MB of L2: data sheets and architecture white papers.
    "V100": (80, 900, 6),
    "T4": (40, 320, 4),
    "A100 40GB": (108, 1555, 40),
    "A100 80GB": (108, 2039, 40),
    "RTX A6000": (84, 768, 6),
    "RTX 3060": (28, 360, 3),
    "RTX 3090": (82, 936, 6),
    "L4": (58, 300, 48),
    "L40S": (142, 864, 96),
    "RTX 4090": (128, 1008, 72),
    "RTX 5060": (30, 448, 32),
    "RTX 5060 Ti": (36, 448, 32),
    "RTX 5070": (48, 672, 48),
    "RTX 5070 Ti": (70, 896, 48),
    "GB10": (48, 273, 24),
    "RTX 5080": (84, 960, 64),
    "RTX 5090": (170, 1792, 96),
    "H100 PCIe": (114, 2000, 50),
    "H100": (132, 3350, 50),
    "H200": (132, 4800, 60),
    "GH200": (132, 4000, 60),
    "B200": (148, 8000, 126),
    "B300": (160, 8000, 126),
}


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_limits_are_the_published_ones(gpu):
    sm = gpu.multiprocessor
    threads, blocks, shared, lanes, per_block = PUBLISHED_LIMITS[gpu.name]
    assert (sm.threads, sm.blocks, sm.shared_bytes, sm.lanes) == (threads, blocks, shared * 1024, lanes)
    assert sm.shared_bytes - sm.reserved_shared_bytes == per_block * 1024
    assert (sm.registers, sm.registers_per_thread, sm.partitions) == (65536, 255, 4)
    assert (gpu.multiprocessors, gpu.dram_gbs, gpu.l2_bytes // 2**20) == PUBLISHED_PRODUCTS[gpu.name]


@pytest.mark.parametrize(
    ("name", "arithmetic", "tflops"),
    [
        ("V100", "float16", 125),
        ("T4", "float16", 65),
        ("A100 80GB", "bfloat16", 312),
        ("A100 80GB", "tf32", 156),
        ("RTX A6000", "float16", 155),
        ("RTX 3090", "float16", 71),
        ("RTX 4090", "float16", 165),
        ("L40S", "tf32", 183),
        ("H200", "float16", 989),
        ("H200", "tf32", 495),
        ("B200", "bfloat16", 2250),
        ("RTX 5070", "float16", 61.7),
        ("RTX 5090", "float16", 210),
        ("H200", "float32", 67),
        ("V100", "tf32", 15.7),
    ],
)
def test_tensor_core_peaks_are_near_the_published_ones(name, arithmetic, tflops):
    """Dense, summed in FP32. NVIDIA gives some of them for a lower clock than the boost clock."""
    assert gpu_named(name).peak_tflops(arithmetic) == pytest.approx(tflops, rel=0.09)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H200", "H200"),
        ("h200", "H200"),
        ("NVIDIA H200", "H200"),
        ("a6000", "RTX A6000"),
        ("rtx3090", "RTX 3090"),
        ("4090", "RTX 4090"),
        ("geforce rtx 5060 ti", "RTX 5060 Ti"),
        ("nvidia h100 80gb hbm3", "H100"),
        ("PCIe", "H100 PCIe"),
        ("A100-80GB", "A100 80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
    ],
)
def test_products_are_found_by_name(text, name):
    assert gpu_named(text).name == name


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("way", [str, str.lower, str.upper, lambda name: f"NVIDIA {name}", lambda name: f" {name} "])
def test_every_listed_product_is_found_by_its_whole_name(gpu, way):
    assert gpu_named(way(gpu.name)) is gpu


def test_a_part_of_a_name_means_the_only_one_that_has_it():
    """Every part of every name: all names that have it are candidates, unless it is one name as a whole."""
    plain = {gpu.name: gpu.name.replace(" ", "").lower() for gpu in GPUS}
    parts = {
        name[begin:end] for name in plain.values() for begin in range(len(name)) for end in range(begin + 1, len(name))
    }
    for part in sorted(parts - set(plain.values())):
        having = [name for name in plain if part in plain[name]]
        if len(having) == 1:
            assert gpu_named(part).name == having[0]
            continue
        with pytest.raises(GpuNotFoundError) as refused:
            gpu_named(part)
        assert repr(part) in str(refused.value)
        assert str(refused.value).partition(" give one of ")[2].split(", ") == having


@pytest.mark.parametrize(
    ("part", "candidates"),
    [
        ("H10", "H100 PCIe, H100"),
        ("a100", "A100 40GB, A100 80GB"),
        ("rtx", "RTX A6000, RTX 3060, RTX 3090, RTX 4090, RTX 5060, RTX 5060 Ti, RTX 5070"),
        ("5060", "RTX 5060, RTX 5060 Ti"),
    ],
)
def test_a_part_of_several_names_is_refused_with_them(part, candidates):
    with pytest.raises(GpuNotFoundError, match=f"'{part}' is part of [0-9]+ GPUs' names: give one of {candidates}"):
        gpu_named(part)


def test_an_unknown_product_is_refused_with_the_nearest():
    with pytest.raises(GpuNotFoundError, match="did you mean 'RTX 4090'"):
        gpu_named("RTX 4091")
    with pytest.raises(GpuNotFoundError, match="no GPU is called ''"):
        gpu_named("")


def test_products_of_parts_are_made_of_several():
    gpu = gpu_named("H200")
    assert gpu.peak_tflops("fp16x3") == pytest.approx(gpu.peak_tflops("float16") / 3, rel=0.01)
    assert gpu.peak_tflops("bf16x6") == pytest.approx(gpu.peak_tflops("bfloat16") / 6, rel=0.01)


def test_the_l2_of_the_records_gpu_is_what_its_driver_reports():
    gpu = json.loads((RECORDS / "h200" / "ladder.json").read_text())["environment"]["gpu"]
    assert find_gpu(gpu["name"], (9, 0)).l2_bytes == gpu["l2_bytes"]
