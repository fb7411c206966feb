"""A product in Triton, as its users write one, compiled for an H100 without any GPU.

Run as `python -m studies.worklog.triton_product FILE`, where triton is installed: FILE is the record that pages read.
"""

import json
import os
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TILES = {"TILE_M": 128, "TILE_N": 256, "TILE_K": 64, "GROUP": 8}
OPTIONS = {"num_warps": 8, "num_stages": 4}


@triton.jit
def product(
    a, b, c, m, n, k, a_row, b_row, c_row,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """C = A @ B of row-major float16 matrices; blocks go down GROUP rows of tiles before they go on to the right."""
    block = tl.program_id(0)
    across = tl.cdiv(n, TILE_N)
    first = block // (GROUP * across) * GROUP
    height = min(tl.cdiv(m, TILE_M) - first, GROUP)
    inside = block % (GROUP * across)
    rows = (first + inside % height) * TILE_M + tl.arange(0, TILE_M)
    columns = inside // height * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, TILE_K)
    from_a = a + (rows % m)[:, None] * a_row + depth[None, :]
    from_b = b + depth[:, None] * b_row + (columns % n)[None, :]
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for step in range(tl.cdiv(k, TILE_K)):
        left = k - step * TILE_K
        part_a = tl.load(from_a, mask=depth[None, :] < left, other=0.0)
        part_b = tl.load(from_b, mask=depth[:, None] < left, other=0.0)
        total = tl.dot(part_a, part_b, total)
        from_a += TILE_K
        from_b += TILE_K * b_row
    stored = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * c_row + columns[None, :], total.to(tl.float16), mask=stored)


def main(out: Path) -> None:
    """Compile it, and record the PTX; addresses and widths are multiples of 16, as PyTorch's mostly are."""
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # else the PTX names the files of this machine
    types = dict.fromkeys("abc", "*fp16") | dict.fromkeys(("m", "n", "k", "a_row", "b_row", "c_row"), "i32")
    aligned = {(place,): [["tt.divisibility", 16]] for place in range(len(types))}
    source = ASTSource(product, types | dict.fromkeys(TILES, "constexpr"), constexprs=TILES, attrs=aligned)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=OPTIONS)
    record = {
        "format": 2,
        "environment": {"triton": triton.__version__},
        "shared_bytes": made.metadata.shared,
        "ptx": made.asm["ptx"].splitlines(),
    }
    part = out.with_name(f"{out.name}.part")
    part.write_text(json.dumps(record | {"tiles": TILES, "options": OPTIONS}, indent=1) + "\n", encoding="utf-8")
    part.replace(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
