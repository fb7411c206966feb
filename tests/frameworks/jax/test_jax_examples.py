"""The example for JAX runs to its end."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.api.engines import cuda_unavailable

pytest.importorskip("jax")

EXAMPLE = Path(__file__).parents[3] / "examples" / "jax_layer.py"


@pytest.mark.further
def test_the_example_learns():
    result = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    first, last = map(float, re.findall(r"loss (\d+\.\d+)", result.stdout))
    assert last < first / 1.5
    if cuda_unavailable():
        assert result.stdout.startswith("tilewright: NumPy's BLAS multiplies")
        assert "its products are NumPy's" in result.stdout
    assert "the gradients of five examples: [(5, 8, 64), (5, 64), (5, 64, 1), (5, 1)]" in result.stdout
