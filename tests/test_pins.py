"""Behaviour that a change of structure keeps to the letter: the picked kernel and config, and a plan's description.

`python tests/test_pins.py` writes `pins.txt` anew, whose diff is then what a change does to its users.
"""

import itertools
import pkgutil
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

import tilewright
from stand_ins import NumPyEngine
from tilewright.core.dtypes import FLOAT8
from tilewright.core.errors import TilewrightError
from tilewright.core.problem import PRECISIONS
from tilewright.select.selector import select
from tilewright.select.tables.cases import problem_of
from tilewright.select.tables.store import shipped

PATH = Path(__file__).with_name("pins.txt")
DRAWN = 300
CASES = (
    *(f"{layout} float32" for layout in ("NN", "NT", "TN", "TT")),
    *(f"{layout} bfloat16->bfloat16" for layout in ("NN", "NT", "TN", "TT")),
    *("NN float16->float16", "TN float16->float16 bias+gelu", "NT bfloat16", f"NT {FLOAT8[0]}->bfloat16"),
)
GPUS = (("NVIDIA H200", (9, 0)), ("NVIDIA H100 80GB HBM3", (9, 0)), ("NVIDIA A100-SXM4-80GB", (8, 0)), ("?", (12, 0)))


def picks():
    """Picks for every tabled problem on its GPU, and for drawn ones on GPUs of each kind, a line each."""
    for table in shipped():
        for problem in dict.fromkeys(problem_of(one.m, one.n, one.k, one.case, one.batch) for one in table.entries):
            yield _pick(problem, table.gpu, table.capability)
    source = random.Random(56)
    for _ in range(DRAWN):
        sizes = [int(2 ** source.uniform(0, 13)) for _ in range(3)]
        problem = problem_of(*sizes, source.choice(CASES), source.choice((1, 1, 1, 7)))
        gpu, capability = source.choice(GPUS)
        if problem.dtype == "float32":
            arithmetic = replace(problem.arithmetic, precision=source.choice((None, *PRECISIONS)))
            problem = replace(problem, arithmetic=arithmetic)
        yield _pick(problem, gpu, capability)


def _pick(problem, gpu, capability):
    try:
        kernel, config = select(problem, capability, gpu)
        words = f"{kernel.name} {config}"
    except TilewrightError as error:
        words = type(error).__name__
    batch = f"{problem.batch} of " if problem.batch > 1 else ""
    return f"{gpu}: {batch}{problem.shape} {problem.case}: {words}"


def descriptions():
    """Descriptions of plans of forty calls."""
    sizes = ((64, 64, 64), (1, 4096, 4096), (4096, 4096, 4096), (1000, 3, 50), (300, 200, 0))
    kinds = (("float32", None), ("float32", "fp16x3"), ("float16", None), ("float32", "ieee"))
    for (m, n, k), (dtype, precision), capability in itertools.product(sizes, kinds, ((9, 0), (8, 0))):
        a, b = np.zeros((m, k), dtype), np.zeros((n, k), dtype).T
        bias = np.zeros(n, dtype) if m == 64 else None
        engine = NumPyEngine(capability)
        engine.device_name = {(9, 0): "NVIDIA H200", (8, 0): "NVIDIA A100-SXM4-80GB"}[capability]
        activation = "relu" if bias is not None else None
        plan = tilewright.plan(a, b, bias=bias, activation=activation, precision=precision, engine=engine)
        yield plan.describe()


def test_picks_and_descriptions_are_as_they_were():
    assert [*picks(), *descriptions()] == PATH.read_text().split("\n\n")


NAMED = re.compile(r"\b(tilewright(?:\.[A-Za-z_]\w*)+)|from (tilewright[\w.]*) import ([\w, ]+)")
ROOT = Path(__file__).parents[1]


def test_what_documents_and_examples_name_can_be_imported():
    """And whatever is public at the root."""
    names = {f"tilewright.{name}" for name in tilewright.__all__}
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")):
        for dotted, module, imported in NAMED.findall(path.read_text()):
            names |= {dotted} if dotted else {f"{module}.{name.strip()}" for name in imported.split(",")}
    assert {"tilewright.matmul", "tilewright.torch.enable", "tilewright.distributed.all_gather_matmul"} <= names
    for name in sorted(names):
        assert pkgutil.resolve_name(name) is not None


if __name__ == "__main__":
    PATH.write_text("\n\n".join([*picks(), *descriptions()]))
