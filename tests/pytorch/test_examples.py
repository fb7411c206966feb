"""The examples for PyTorch run to their ends."""

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


def test_every_example_for_pytorch_is_run():
    assert {path.name for path in EXAMPLES.glob("torch_*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_example(name):
    result = subprocess.run([sys.executable, str(EXAMPLES / name)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for words in PRINTED[name]:
        assert words in result.stdout
