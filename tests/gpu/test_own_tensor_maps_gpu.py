"""Users' kernels that take tensor maps, on a real GPU: the maps that lines of their sources describe."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from behind_pointers import behind_one_pointer
from this_gpu import CAPABILITY
from tilewright.core.problem import Layout, Problem
from tilewright.kernels.source.products import from_source
from tilewright.tools.bench.measure import verify
from tilewright.tools.bench.records import Run
from tilewright.tools.bench.verify import Operands, limit
from tilewright.tools.cli import main

pytestmark = pytest.mark.skipif(CAPABILITY != (9, 0), reason="of Hopper")

OWN = Path(__file__).parents[1] / "own_kernels"
QUEUE = {
    "block": "384",
    "grid": "M/BM*(N/BN)",
    "shared": "(BM+BN)*BK*2*QSIZE+16*QSIZE",
    "args": "M,N,K,C,A,B",
    "layout": "NT",
    "C": "column",
    "tile": "(BM,BN,BK)",
    "maps": "tensorMapA:A(BM,BK,swizzle=128B,panel=64),tensorMapB:B(BN,BK,swizzle=128B,panel=64)",
}


@pytest.mark.parametrize(
    ("place", "defines", "words", "shape"),
    [
        ("tile_product.cu", {}, {}, (40, 36, 72)),
        ("tile_product.cu", {}, {}, (320, 256, 640)),
        ("unmodified/tma_steps.cu", {"BM": 128, "BN": 32, "BK": 128, "QSIZE": 3}, QUEUE, (256, 384, 1024)),
    ],
    ids=["two dimensions", "many tiles", "panels"],
)
def test_maps_of_sources_are_those_of_the_driver(engine, place, defines, words, shape):
    kernel = from_source(OWN / place, "", defines, **words)
    problem = Problem(*shape, kernel.support.arithmetic(), b=Layout("column"))
    _, error = verify(engine, kernel, kernel.config(), Operands.draw(problem))
    assert error <= limit(problem)


def test_maps_of_a_source_behind_one_pointer(engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("maps.cu").write_text(behind_one_pointer((OWN / "tile_product.cu").read_text()))
    kernel = from_source("maps.cu")
    problem = Problem(320, 256, 640, kernel.support.arithmetic(), b=Layout("column"))
    _, error = verify(engine, kernel, kernel.config(), Operands.draw(problem))
    assert error <= limit(problem)
    for command in ("bench", "tune"):
        result = CliRunner().invoke(main.app, [command, "maps.cu", "--shape", "96x64x128", "--json", f"{command}.json"])
        assert result.exit_code == 0, result.output
        assert Run.load(Path(f"{command}.json")).records[0].verified
