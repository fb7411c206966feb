"""Tests that need an NVIDIA GPU: marked `gpu`, and deselected on a machine that has none."""

import os
from pathlib import Path

import pytest

from tilewright.api.engines import cuda_unavailable, resolve_engine

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # or JAX takes most of the GPU's memory from the others


def pytest_collection_modifyitems(config, items):
    here = Path(__file__).parent
    with_gpu, others = [], []
    for item in items:
        (with_gpu if item.path.is_relative_to(here) else others).append(item)
    for item in with_gpu:
        item.add_marker(pytest.mark.gpu)
    if cuda_unavailable():
        items[:] = others
        config.hook.pytest_deselected(items=with_gpu)


@pytest.fixture(scope="session")
def engine():
    return resolve_engine("cuda")
