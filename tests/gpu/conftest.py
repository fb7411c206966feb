"""Tests that need an NVIDIA GPU: marked `gpu`, and deselected on a machine that has none."""

import os
from pathlib import Path

import pytest

from tilewright.engines.registry import cuda_unavailable, resolve_engine

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX takes most of the GPU's memory from the others


def pytest_collection_modifyitems(config, items):
    here = Path(__file__).parent
    with_gpu = [item for item in items if here in item.path.parents]
    for item in with_gpu:
        item.add_marker(pytest.mark.gpu)
    if cuda_unavailable():
        items[:] = [item for item in items if item not in with_gpu]
        config.hook.pytest_deselected(items=with_gpu)


@pytest.fixture(scope="session")
def engine():
    return resolve_engine("cuda")
