"""The examples for PyTorch run to their ends."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

PRINTED = {
    "torch_layer.py": [
        "step 60: loss",
        "['tilewright.matmul.default']",
        "the Jacobian of three rows: (3, 1, 16)",
    ],
    "torch_model.py": ["step 4: loss", "ms saved, as tables expect"],
}


SOLVERS = {
    "torch_cholesky.py": (1e-6, "s  residual"),
    "torch_conjugate_gradients.py": (1e-5, "steps  residual"),
}


def test_every_example_for_pytorch_is_run():
    assert {path.name for path in EXAMPLES.glob("torch_*.py")} == {*PRINTED, *SOLVERS}


@pytest.mark.parametrize("name", PRINTED)
def test_example(name):
    result = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for words in PRINTED[name]:
        assert words in result.stdout


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_are_as_exact_with_either_product(name):
    """Sizes that blocks do not divide."""
    within, words = SOLVERS[name]
    command = [sys.executable, str(EXAMPLES / name), "150", "40", "--precision", "fp16x3"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for printed in ("PyTorch", "tilewright", words):
        assert printed in result.stdout
    stock, ours = map(float, re.findall(r"residual (\S+)", result.stdout))
    assert stock < within and ours < within
