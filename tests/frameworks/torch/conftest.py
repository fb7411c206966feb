"""Fixtures that the tests with PyTorch share; a folder called torch would be imported as PyTorch."""

from importlib import import_module

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _on_the_host(monkeypatch):
    """These tests say the same on a machine with a GPU: matmul is told that there is none."""
    monkeypatch.setattr(import_module("tilewright.api.call"), "cuda_unavailable", lambda: "a test says so")
    torch.manual_seed(0)
