"""Code and arithmetic on the worklog's pages: kernels whole, helpers where they first appear, launches, roofs."""

import re
import textwrap
from pathlib import Path

from studies.profiles.measuring import SHAPE
from studies.results import course_gpu
from studies.templates import block
from tilewright import kernels
from tilewright.core.gpus import Gpu, find_gpu
from tilewright.core.problem import Problem
from tilewright.kernels.config import Config
from tilewright.kernels.kernel import Kernel
from tilewright.tools.explain.cost.prediction import L2_BYTES

SOURCES = "../../src/tilewright/kernels"
FOLDER = Path(kernels.__file__).parent


def whole(kernel: Kernel) -> str:
    """A kernel's source from behind what it includes, as a Markdown block, and where the file is.

    Raises:
        LookupError: the source includes nothing.
    """
    lines = kernel.source.read_text(encoding="utf-8").splitlines()
    includes = [number for number, line in enumerate(lines) if line.startswith("#include")]
    if not includes:
        raise LookupError(f"{kernel.source.name} includes nothing: where does its code begin?")
    code = "\n".join(lines[includes[-1] + 1 :]).strip("\n")
    return f"```cuda\n{code}\n```\n\nThe file, with what it includes: {link(kernel.source)}"


def link(file: Path) -> str:
    """A link to a source from a page of the worklog."""
    return f"[{file.name}]({SOURCES}/{file.relative_to(FOLDER).as_posix()})"


def helper(name: str, header: str) -> str:
    """All functions of a name in a header, with the comments above them, as a box.

    Raises:
        LookupError: the header has none.
    """
    file = FOLDER / "include" / header
    blocks = file.read_text(encoding="utf-8").split("\n\n")
    defined = [one for one in blocks if re.search(rf"\b{name}\(", re.sub(r"//.*", "", one).partition("{")[0])]
    if not defined:
        raise LookupError(f"{header} has no function {name}")
    code = "\n\n".join(one.strip("\n") for one in defined)
    return textwrap.indent(f"**`{name}`**, of {link(file)}:\n\n```cuda\n{code}\n```", "> ", lambda _: True)


def launch(kernel: Kernel, config: Config, problem: Problem, gpu: Gpu) -> str:
    """Blocks and threads of a launch, as a program in CUDA C++ would write it."""
    blocks = kernel.launched(problem, config, gpu.multiprocessors, None)
    x, y, _ = kernel.block(config)
    threads = f"dim3({x}, {y})" if y > 1 else x
    arguments = "M, N, K, alpha, A, lda, B, ldb, beta, C, ldc"
    return f"```cuda\n{kernel.name}<<<{blocks}, {threads}>>>({arguments});  // M = N = K = {problem.k}\n```"


def roof(problem: Problem, gpu: Gpu) -> str:
    """The least time that operations and bytes of a float32 product take on a GPU, as lines of arithmetic."""
    m, n, k = problem.m, problem.n, problem.k
    counts = {"m": m, "n": n, "k": k, "operations": problem.flops, "moved": 4 * (m * k + k * n + m * n)}
    return block("worklog/tables.md.j2", "roof", gpu=gpu, **counts)


def calculated(expression: str, digits: str) -> str:
    """The value of an expression of numbers, with this many digits behind the point.

    It may name the size of squares, n; of the course's GPU the time of arithmetic at that size, arithmetic_ms, the time
    to move each matrix once, dram_us, the bandwidth, dram_gbs, the lines that an L1 cache looks up in a clock,
    l1_lines, and the bytes of tiles that the L2 cache serves in one for each multiprocessor, l2_bytes; and that
    bandwidth of an RTX A6000, a6000_dram_gbs.

    Raises:
        LookupError: it is no such expression.
    """
    gpu, n = course_gpu(), Problem.parse(SHAPE).n
    names = {"n": n, "dram_gbs": gpu.dram_gbs, "arithmetic_ms": 2 * n**3 / gpu.tflops / 1e9}
    names |= {"dram_us": 12 * n**2 / gpu.dram_gbs / 1e3, "a6000_dram_gbs": find_gpu("RTX A6000", (8, 6)).dram_gbs}
    names |= {"l1_lines": gpu.multiprocessor.l1_lines, "l2_bytes": L2_BYTES}
    try:
        value = eval(expression, {"__builtins__": {}}, names)
    except (NameError, SyntaxError, TypeError) as error:
        raise LookupError(f"{expression!r}: {error}") from error
    return f"{value:,.{int(digits)}f}"
