"""GPUs: their peaks against what NVIDIA publishes, and how their drivers' names are read."""

import pytest

from tilewright.gpus import COMPUTE_CAPABILITIES, GPUS, MULTIPROCESSORS, find_gpu

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
    "RTX 5090": 104.8,
    "H100 PCIe": 51,
    "H100": 67,
    "H200": 67,
    "GH200": 67,
    "B200": 75,
}


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_peaks_are_the_published_ones(gpu):
    assert gpu.tflops == pytest.approx(PUBLISHED_TFLOPS[gpu.name], rel=0.01)
    assert gpu.capability in MULTIPROCESSORS


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
