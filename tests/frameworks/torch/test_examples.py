"""The examples for PyTorch run to their ends."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.api.engines import cuda_unavailable

pytestmark = pytest.mark.further

EXAMPLES = Path(__file__).parents[3] / "examples"

PRINTED = {
    "torch_layer.py": [
        "step 60: loss",
        "['tilewright.matmul.default']",
        "the Jacobian of three rows: (3, 1, 16)",
    ],
    "torch_model.py": ["step 4: loss"],
}

ON_CPU = {
    "torch_layer.py": ["tilewright: NumPy's BLAS multiplies", "its product is NumPy's"],
    "torch_model.py": ["Without a GPU enable() changes nothing", "no products to report: PyTorch finds no GPU"],
    "torch_cholesky.py": ["tilewright: NumPy's BLAS multiplies", "compare NumPy's products with PyTorch's"],
    "torch_conjugate_gradients.py": ["tilewright: NumPy's BLAS multiplies", "compare NumPy's products with PyTorch's"],
}
"""Output of examples where there is no GPU, the first text before all else."""


SOLVERS = {
    "torch_cholesky.py": (1e-6, "s  residual"),
    "torch_conjugate_gradients.py": (1e-5, "steps  residual"),
}
SIZES = ["150", "40", "--precision", "fp16x3"]
"""Arguments of solvers: sizes that blocks do not divide."""

RUN = """
import contextlib, io, json, runpy, sys, traceback
for path, *arguments in json.loads(sys.argv[1]):
    printed = io.StringIO()
    sys.argv = [path, *arguments]
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException:
            traceback.print_exc()
    print(json.dumps(printed.getvalue()), flush=True)
"""
"""Runs several programs one after another in one process, since PyTorch takes seconds to load."""


def test_every_example_for_pytorch_is_run():
    assert {path.name for path in EXAMPLES.glob("torch_*.py")} == {*PRINTED, *SOLVERS}


def test_each_prints_what_it_should():
    """All in one process, which takes most of the time to begin."""
    programs = [[str(EXAMPLES / name)] for name in PRINTED] + [[str(EXAMPLES / name), *SIZES] for name in SOLVERS]
    result = subprocess.run([sys.executable, "-c", RUN, json.dumps(programs)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    printed = dict(zip((*PRINTED, *SOLVERS), map(json.loads, result.stdout.splitlines()), strict=True))
    for name, words in (*PRINTED.items(), *((name, ("PyTorch", "tilewright", SOLVERS[name][1])) for name in SOLVERS)):
        assert "Traceback" not in printed[name], printed[name]
        for one in words:
            assert one in printed[name]
    for name, (within, _) in SOLVERS.items():
        stock, ours = map(float, re.findall(r"residual (\S+)", printed[name]))
        assert stock < within and ours < within
    if cuda_unavailable():
        for name, (first, then) in ON_CPU.items():
            assert printed[name].startswith(first)
            assert then in printed[name]
