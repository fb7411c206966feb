"""`tilewright explain` on the command line."""

import json

import pytest
from typer.testing import CliRunner

from tilewright.core.errors import (
    ConfigError,
    EngineUnavailableError,
    FigureError,
    GpuNotFoundError,
    PathError,
    ProblemError,
)
from tilewright.core.gpus import find_gpu, gpu_named
from tilewright.core.problem import Arithmetic, Problem, orders
from tilewright.select.selector import select
from tilewright.select.tables.store import device_of
from tilewright.tools.bench import ncu
from tilewright.tools.cli import explain as command
from tilewright.tools.cli.main import app
from tilewright.tools.explain import block_counts

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(command, "present_gpu", lambda: None)


def explain(*arguments):
    result = RUNNER.invoke(app, ["explain", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_tables_and_the_sentence_on_what_binds():
    text = explain("shared_tiled", "--shape", "256").output
    assert "on one H200" in text
    assert "Shared memory binds" in text
    assert "shared loads" in text
    assert "shared_tiled.cu:" in text
    assert "Roofline" in text
    assert "64 of 64 warps" in text
    assert "note:" in text
    assert "merges the shared loads" in text


def test_json_with_config_gpu_and_scalars(tmp_path):
    path = tmp_path / "explained.json"
    shown = explain(
        "6", "--shape", "100x200x100", "--config", "BM=64,BN=64", "--gpu", "a100 80gb", "--alpha", "2", "--beta", "0.5",
        "--json", str(path),
    )  # fmt: skip
    assert "float32, alpha 2, beta 0.5, on one A100 80GB" in " ".join(shown.output.split())
    facts = json.loads(path.read_text())
    assert (facts["kernel"], facts["shape"], facts["gpu"], facts["arch"]) == (
        "vectorized", "100x200x100", "A100 80GB", "sm_80",
    )  # fmt: skip
    assert (facts["config"]["BM"], facts["alpha"], facts["beta"]) == (64, 2.0, 0.5)
    assert facts["edges"]
    assert not facts["extrapolated"]
    for group, counters in {
        "global_load": ("requests", "sectors"),
        "global_store": ("requests", "sectors"),
        "shared_load": ("requests", "wavefronts"),
        "shared_store": ("requests", "wavefronts"),
    }.items():
        assert all(isinstance(facts[group][counter], int) for counter in counters)


def test_4096_and_the_h200_are_the_defaults(tmp_path):
    path = tmp_path / "explained.json"
    output = explain("coalesced", "--json", str(path)).output
    facts = json.loads(path.read_text())
    assert (facts["shape"], facts["gpu"]) == ("4096x4096x4096", "H200")
    assert facts["global_load"] | {"requests": 2 * 4096**3 // 32, "sectors": 5 * 4096**3 // 32} == facts["global_load"]
    assert "extrapolated" in output


def test_counters_next_to_the_profilers(monkeypatch, tmp_path):
    counted = {
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 16384,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 40960,
    }
    monkeypatch.setattr(ncu, "check_available", lambda: None)
    monkeypatch.setattr(ncu, "profile", lambda launches: [counted for _ in launches])
    path = tmp_path / "explained.json"
    text = explain("coalesced", "--shape", "64", "--ncu", "--json", str(path)).output
    assert "Nsight Compute" in text
    row = next(line for line in text.splitlines() if "global load sectors" in line)
    assert row.split()[-3:] == ["40,960", "40,960", "none"]
    assert json.loads(path.read_text())["ncu"] == counted


def test_what_only_the_profiler_sees(monkeypatch):
    counted = {
        "gpu__time_duration.sum": 4_000.0,
        "dram__bytes_read.sum": 300_000.0,
        "dram__bytes_write.sum": 140_000.0,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 40960.0,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": 10240.0,
        ncu.STALLS["long_scoreboard"]: 3.0,
        ncu.STALLS["selected"]: 1.0,
    }
    monkeypatch.setattr(ncu, "check_available", lambda: None)
    monkeypatch.setattr(ncu, "profile", lambda launches: [counted])
    lines = [" ".join(line.split()) for line in explain("coalesced", "--shape", "64", "--ncu").output.splitlines()]
    for line in ("time 4.0 us", "speed of DRAM 110 GB/s", "loads that L1 had 25.0%"):
        assert line in lines
    assert "warps wait: long scoreboard 75.0%" in lines
    assert not any("L2 had" in line for line in lines), "it was not counted"


def test_what_it_cannot_do_it_says(monkeypatch):
    monkeypatch.setattr(ncu, "cuda_unavailable", lambda: "none here")
    with pytest.raises(EngineUnavailableError, match="none here"):
        explain("naive", "--ncu")
    with pytest.raises(GpuNotFoundError, match="did you mean 'H100'"):
        explain("naive", "--gpu", "H101")
    for name, why in (("H10", "'H10' is part of 2 GPUs' names"), ("", "no GPU is called ''")):
        with pytest.raises(GpuNotFoundError, match=why):
            explain("naive", "--gpu", name)


def test_this_machines_gpu_comes_first(monkeypatch):
    monkeypatch.setattr(command, "present_gpu", lambda: ("NVIDIA L4", (8, 9)))
    assert "on one L4" in explain("naive", "--shape", "64").output


@pytest.mark.further
def test_a_kernel_of_parts_is_explained_without_their_making():
    text = explain("gemm_bf16x3", "--config", "BN=32", "--shape", "256", "--gpu", "h200").output
    assert "256x256x256, float32" in text
    assert "without the relayout of A and B beforehand" in text
    assert "by tensor cores" in text


def test_json_on_standard_output_is_alone_there():
    result = explain("naive", "--shape", "64", "--json", "-")
    assert json.loads(result.stdout)["kernel"] == "naive"
    assert "Roofline" in result.stderr


def test_figures_and_json_have_folders_made_and_replace_nothing_else(tmp_path):
    figure, facts = tmp_path / "new" / "naive.svg", tmp_path / "newer" / "naive.json"
    arguments = ("naive", "--shape", "16", "--figure", str(figure), "--json", str(facts))
    assert explain(*arguments).exit_code == explain(*arguments).exit_code == 0
    assert figure.read_text().startswith("<svg")
    facts.write_text('{"records": []}')
    with pytest.raises(PathError, match=r"--json takes a path for an explanation, got .*, which is there and holds"):
        explain(*arguments)
    with pytest.raises(PathError, match="--figure must name a file of its own"):
        explain("naive", "--json", str(tmp_path / "x.svg"), "--figure", str(tmp_path / "x.svg"))


def test_a_gpu_that_is_too_old_is_named_with_its_own_capability():
    with pytest.raises(ConfigError, match=r"async_copy needs .* 8.0 or newer for float32, got 7.0"):
        explain("async_copy", "--gpu", "V100")
    assert "V100 has compute capability 7.0: kernels run on 7.5 and newer" in " ".join(
        explain("naive", "--gpu", "V100", "--shape", "64").output.split()
    )


@pytest.mark.further
def test_orders_are_those_of_the_launch(tmp_path):
    """B lies along k there, so that a box of it has as many rows as the tile has columns, and none in vain."""
    tiles = {}
    for layout in ("NN", "NT"):
        path = tmp_path / f"{layout}.json"
        shown = explain(
            "gemm_sm90", "--shape", "512", "--config", "BN=80", "--layout", layout, "--json", str(path)
        ).output
        assert (f"512x512x512, {layout} float16" in shown) == (layout != "NN")
        facts = json.loads(path.read_text())
        assert facts["layout"] == layout
        tiles[layout] = facts["bytes"]["tensor_maps"]
    assert tiles["NN"] > tiles["NT"]
    with pytest.raises(ProblemError, match="naive takes layouts NN of A and B, got TN"):
        explain("naive", "--layout", "TN")


def test_what_it_cannot_count_is_refused():
    with pytest.raises(ProblemError, match="--alpha takes 0, or a number of"):
        explain("naive", "--alpha", "inf")
    with pytest.raises(FigureError, match="--figure takes a problem whose result has elements"):
        explain("naive", "--shape", "0", "--figure", "x.svg")


def test_memory_that_a_problem_is_too_large_for_is_named(monkeypatch):
    monkeypatch.setattr(block_counts.np, "zeros", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(ProblemError, match=r"too large to be counted on this machine: .* lines of 8192 elements"):
        explain("naive", "--shape", "8192")


@pytest.mark.further
@pytest.mark.parametrize(
    "words",
    [
        ("--gpu", "H100", "--shape", "128x256x512", "--dtype", "bfloat16", "--layout", "NT"),
        ("--gpu", "RTX 3060", "--shape", "256x384x128", "--precision", "tf32"),
    ],
    ids=" ".join,
)
def test_best_is_what_matmul_would_run_on_a_gpu(words, tmp_path):
    path = tmp_path / "explained.json"
    said = dict(zip(words[::2], words[1::2], strict=True))
    explain("best", *words, "--json", str(path))
    facts = json.loads(path.read_text())
    gpu, dtype = gpu_named(said["--gpu"]), said.get("--dtype", "float32")
    a, b = orders(said.get("--layout", "NN"))
    problem = Problem.parse(said["--shape"], arithmetic=Arithmetic(dtype, dtype, said.get("--precision")), a=a, b=b)
    kernel, config = select(problem, gpu.capability, device_of(gpu))
    assert (facts["kernel"], facts["config"], facts["gpu"]) == (kernel.name, dict(config), gpu.name)


def test_best_takes_no_config_and_a_named_kernel_no_precision():
    with pytest.raises(ConfigError, match="--config needs a kernel whose parameters it sets, got BM=64 for best"):
        explain("best", "--config", "BM=64")
    with pytest.raises(ProblemError, match="--precision is for 'best': naive keeps its own, got tf32"):
        explain("naive", "--precision", "tf32")


def test_drivers_names_of_listed_gpus_that_have_a_table_and_of_others():
    assert device_of(gpu_named("H100")) == "NVIDIA H100 80GB HBM3"
    assert device_of(gpu_named("RTX 3060")) == "RTX 3060"
    assert find_gpu("RTX 3060", (8, 6)) == gpu_named("RTX 3060")


def test_where_there_is_nothing_to_multiply_nothing_more_is_shown():
    text = explain("naive", "--shape", "0").output
    assert "There is nothing to multiply." in text and "Roofline" not in text


def test_a_launch_of_few_threads_is_bound_by_none_of_what_it_does(tmp_path):
    path = tmp_path / "twice.cu"
    path.write_text(
        "// tilewright: grid=8 block=64 x=float32[n] y=out:float32[n] n=512\n"
        "__global__ void twice(const float* x, float* y, int n) {\n"
        "    const int i = blockIdx.x * 64 + threadIdx.x;\n"
        "    y[i] = 2 * x[i];\n"
        "}\n"
    )
    explain(str(path), "--json", str(tmp_path / "twice.json"))
    facts = json.loads((tmp_path / "twice.json").read_text())
    assert facts["binds"] == "launch" and facts["verdict"].startswith("The launch itself binds: it takes 1.27 us")
