"""Fixtures that the tests of other libraries share."""

import re
from pathlib import Path

import numpy as np
import pytest


def pytest_configure(config):
    """Registers the markers of NumPy's tests, as NumPy's own conftest.py does."""
    tests = Path(np.__file__).parent / "_core" / "tests" / "test_multiarray.py"
    if tests.exists():
        for marker in sorted(set(re.findall(r"pytest\.mark\.(\w+)", tests.read_text("utf-8")))):
            config.addinivalue_line("markers", f"{marker}: NumPy's")


@pytest.fixture(autouse=True)
def _on_the_host(monkeypatch):
    """matmul is given no GPU, also on a machine that has one."""
    monkeypatch.setattr("tilewright.api.call.cuda_unavailable", lambda: "a test says so")
