"""The command line, from its arguments to its exit status."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright import version
from tilewright.api import engines as registry
from tilewright.core.problem import Layout, Problem
from tilewright.kernels import KERNELS, find
from tilewright.tools.bench.environment import environment
from tilewright.tools.bench.verify import Operands
from tilewright.tools.cli import bench, info, main, streams
from tilewright.tools.cli.main import COMMANDS
from tilewright.tools.report import course, ratios


@pytest.fixture
def tilewright(monkeypatch, capsys):
    """Run the command line; gives exit status, standard output and standard error, white space evened."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tilewright", *arguments])
        status = 0
        try:
            main.main()
        except SystemExit as stop:
            status = stop.code or 0
        printed = capsys.readouterr()
        return status, " ".join(printed.out.split()), " ".join(printed.err.split())

    return run


def test_list_shows_every_rung(tilewright):
    status, out, _ = tilewright("list")
    assert status == 0
    for kernel in KERNELS:
        assert f"{kernel.rung or ''} {kernel.name} {kernel.idea}".strip() in out


def test_list_of_a_kernel_explains_its_parameters(tilewright):
    status, out, _ = tilewright("list", "3")
    assert status == 0
    assert "side of the tiles of A, B and C" in out
    assert "TILE*TILE must be at most 1024" in out
    assert "shared_tiled:fastcuda_v2 is PAD=1" in out


def test_info_tells_what_the_machine_has(tilewright):
    status, out, _ = tilewright("info")
    assert status == 0
    assert "cache folder" in out
    assert "numpy" in out


def test_info_tells_what_a_multiprocessor_holds(tilewright, monkeypatch):
    gpu = {"name": "NVIDIA RTX A6000", "compute_capability": "8.6"}
    monkeypatch.setattr(info, "environment", lambda engine: environment(engine) | {"gpu": gpu})
    status, out, _ = tilewright("info")
    assert status == 0
    assert "1,536 threads, 16 blocks, 65,536 registers, 102,400 bytes of shared memory" in out
    assert "1,024 threads, 255 registers a thread, 101,376 bytes of shared memory, 1,024 more for the system" in out


@pytest.mark.parametrize("samples", [(), ("--samples", "2")], ids=["verified", "timed"])
def test_bench_verifies_and_times_where_that_is_asked_for(tilewright, tmp_path, samples):
    path = tmp_path / "run.json"
    arguments = ("--shape", "70x50x30", "--shape", "8", "--beta", "0.5", "--engine", "emulator", "--json", str(path))
    status, out, _ = tilewright("bench", "naive", "10", *arguments, *samples)
    assert status == 0
    assert "GFLOP/s" not in out
    run = json.loads(path.read_text())
    found, nothing = (run["records"], run["results"]) if samples else (run["results"], run["records"])
    assert not nothing
    expected = [(name, m) for m in (70, 8) for name in ("naive", "warptiled")]
    assert [(one["kernel"], one["m"]) for one in found] == expected
    assert all(one["verified"] and one["beta"] == 0.5 for one in found)
    assert run["environment"]["engine"] == "emulator"
    if samples:
        assert "Its times are not GPU times." in out and "NumPy version" in out
        assert all(one["time_us"]["samples"] == 2 and one["baseline"] for one in found)
    else:
        assert not re.search(r"\btimes?\b|NumPy|\d m?s\b", out)
    assert out.endswith("4 of 4 results are right")


SOME = ("naive", "autotuned", "wmma_f16", "skinny", "wgmma", "gemm_mma", "gemm_fp8")
"""Kernels of the course and of the library; tests/kernels runs each."""


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("words", "expected", "last"),
    [
        ([], SOME[:5], "5 of 5 rungs are right"),
        (["library"], SOME[5:], "2 of 2 kernels are right"),
        (["--all"], SOME, "7 of 7 kernels are right"),
        (["library", "naive"], (*SOME[5:], "naive"), "3 of 3 kernels are right"),
    ],
    ids=["course", "library", "all", "library and a rung"],
)
def test_the_course_and_the_library_are_a_line_a_kernel(tilewright, monkeypatch, tmp_path, words, expected, last):
    assert bench.KERNELS is KERNELS
    monkeypatch.setattr(bench, "KERNELS", tuple(map(find, SOME)))
    path = tmp_path / "run.json"
    status, out, _ = tilewright("bench", *words, "--shape", "9", "--engine", "emulator", "--json", str(path))
    assert status == 0
    assert [one["kernel"] for one in json.loads(path.read_text())["results"]] == list(expected)
    assert out.count("9x9x9, each in its own arithmetic") == 1
    assert len(re.findall(r" [\d.]+e[+-]\d+ [\d.]+e-\d+ ok\b", out)) == len(expected)
    assert last in out
    commands = re.findall(r"tilewright ((?:check|explain|new) \w+)", out)
    assert commands == ([] if words else ["check missing_barrier", "explain coalesced", "new my_gemm"])


def test_the_course_shows_what_each_rung_is_and_its_speed_on_a_gpu(tilewright, monkeypatch):
    monkeypatch.setattr(bench, "KERNELS", tuple(map(find, SOME)))
    _, out, _ = tilewright("bench", "--shape", "9", "--engine", "emulator")
    speeds = {one.kernel: one for one in course.measured().rungs}
    assert f"GFLOP/s: at 4096x4096x4096 on an {course.measured().where}" in out
    assert f"{find('naive').brief} float32" in out
    for name, mark in (("naive", ""), ("wgmma", ""), ("skinny", r"\*")):
        one = speeds[name]
        share = f"{100 * one.gflops / one.baseline_gflops:.0f}%"
        assert re.search(rf"{find(name).brief} \w+ \S+ \S+ ok {ratios.speed(one.gflops)}{mark} {share}", out)
    assert "*: at 1x4096x4096" in out


def test_speeds_are_of_the_arithmetic_that_the_course_has(tilewright, monkeypatch):
    monkeypatch.setattr(bench, "KERNELS", tuple(map(find, ("wmma_f16", "wgmma"))))
    _, out, _ = tilewright("bench", "--shape", "9", "--dtype", "float16", "--engine", "emulator")
    assert "14 wmma_f16" in out and ratios.speed(course.measured().rungs[13].gflops) in out
    _, out, _ = tilewright(
        "bench", "--shape", "9", "--dtype", "bfloat16", "--out-dtype", "float32", "--engine", "emulator"
    )
    assert "14 wmma_f16" in out and "GFLOP/s" not in out


def test_rung_9_runs_with_what_was_searched_for_the_gpu_whose_speeds_are_shown(tilewright, tmp_path):
    path = tmp_path / "run.json"
    status, _, _ = tilewright("bench", "9", "--shape", "256", "--engine", "emulator", "--json", str(path))
    (result,) = json.loads(path.read_text())["results"]
    assert (status, result["verified"]) == (0, True)
    assert result["config"] == dict(find("autotuned").config(capability=course.measured().capability))
    assert result["config"] != dict(find("vectorized").config())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--all", "naive"], "--all takes no names of kernels, got naive"),
        (["--dtype", "float8_e4m3fn"], "none of these kernels takes 256x256x256 NN float8_e4m3fn; 'library'"),
    ],
)
def test_a_course_that_there_is_not_is_refused(tilewright, arguments, message):
    status, out, err = tilewright("bench", "--engine", "emulator", *arguments)
    assert (status, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("found", ["path", "file", "neither"])
def test_commands_to_go_on_with_are_those_that_this_shell_has(tmp_path, monkeypatch, found):
    program = tmp_path / "tilewright"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if found == "path" else "/nonexistent")
    monkeypatch.setattr(sys, "argv", ["__main__.py" if found == "neither" else str(program)])
    expected = {"path": "tilewright", "file": str(program), "neither": f"{sys.executable} -m tilewright"}
    assert streams.invoked() == expected[found]


def test_bench_runs_a_suite(tilewright):
    arguments = ("--suite", "tiny", "--suite", "tiny", "--shape", "9", "--engine", "emulator")
    status, out, _ = tilewright("bench", "naive", "vectorized", *arguments)
    assert status == 0
    assert out.count(" ok ") == (6 + 1) * 2, "a suite that is named twice runs once"


def test_rungs_that_take_no_float32_run_in_their_own_type(tilewright, tmp_path):
    path = tmp_path / "run.json"
    arguments = ("--shape", "40x30x20", "--shape", "8", "--engine", "emulator", "--json", str(path))
    assert tilewright("bench", "naive", "wmma_f16", "wmma_tf32", *arguments)[0] == 0
    records = json.loads(path.read_text())["results"]
    ran = [(record["kernel"], record["dtype"], record["m"]) for record in records]
    floats = [(kernel, "float32", m) for m in (40, 8) for kernel in ("naive", "wmma_tf32")]
    assert ran == [*floats, ("wmma_f16", "float16", 40), ("wmma_f16", "float16", 8)]


def test_a_type_that_is_given_is_run_by_the_rungs_that_take_it(tilewright, tmp_path, monkeypatch):
    some = tuple(map(find, ("naive", "wmma_f16", "split_k", "gemm_wmma", "gemm_mma", "gemm_fp8")))
    monkeypatch.setattr(bench, "KERNELS", some)
    path = tmp_path / "run.json"
    arguments = ("--dtype", "bfloat16", "--shape", "33x34x35", "--engine", "emulator", "--json", str(path))
    status, out, _ = tilewright("bench", "--all", *arguments)
    assert status == 0
    assert "33x34x35, " in out
    records = json.loads(path.read_text())["results"]
    takers = [kernel.name for kernel in some if "bfloat16" in kernel.support.factors]
    results = {name: find(name).support.arithmetic("bfloat16").result for name in takers}
    assert {record["kernel"]: record["out_dtype"] for record in records} == results
    assert {record["dtype"] for record in records} == {"bfloat16"}
    status, _, err = tilewright("bench", "naive", *arguments)
    assert status == 2
    assert "naive takes float32, got bfloat16" in err


def test_bench_takes_layouts_batches_epilogues_and_result_types(tilewright, tmp_path):
    path = tmp_path / "run.json"
    case = ("--layout", "NT", "--layout", "TN", "--batch", "2", "--bias", "--activation", "gelu")
    arguments = ("--shape", "33x34x35", "--out-dtype", "bfloat16", "--engine", "emulator", "--json", str(path))
    status, out, _ = tilewright("bench", "skinny", "split_k", *case, *arguments)
    assert status == 0
    assert "2 of 33x34x35, NT float32->bfloat16 bias+gelu" in out
    records = json.loads(path.read_text())["results"]
    assert [(record["kernel"], record["layout"]) for record in records] == [
        ("skinny", "NT"), ("split_k", "NT"), ("skinny", "TN"), ("split_k", "TN"),
    ]  # fmt: skip
    facts = {"batch": 2, "bias": "row", "activation": "gelu", "out_dtype": "bfloat16"}
    assert all(facts.items() <= record.items() and record["verified"] for record in records)


@pytest.mark.further
def test_of_all_rungs_those_run_that_take_the_case(tilewright, tmp_path, monkeypatch):
    some = tuple(
        map(find, ("naive", "wmma_f16", "promoted", "split_k", "skinny", "gemm_wmma", "gemm_fp8", "gemm_bf16x6"))
    )
    monkeypatch.setattr(bench, "KERNELS", some)  # another test runs all of them
    path = tmp_path / "run.json"
    arguments = ("--shape", "16", "--layout", "NT", "--engine", "emulator", "--json", str(path))
    assert tilewright("bench", "--all", *arguments)[0] == 0
    ran = {record["kernel"] for record in json.loads(path.read_text())["results"]}
    transposed = [
        takes.scaled(Problem(16, 16, 16, takes.arithmetic(), b=Layout("column")))
        for takes in (kernel.support for kernel in some)
    ]
    assert ran == {kernel.name for kernel, one in zip(some, transposed, strict=True) if not kernel.why_not(one)}
    assert {"split_k", "skinny"} <= ran
    status, _, err = tilewright("bench", "naive", *arguments)
    assert status == 2
    assert "naive takes layouts NN of A and B, got NT" in err


def test_without_a_gpu_no_calls_are_timed(tilewright):
    status, out, err = tilewright("bench", "best", "--shape", "8", "--engine", "emulator", "--end-to-end")
    assert status == 1
    assert "--end-to-end needs a GPU: the emulator's times say nothing of one" in err
    assert not out


def test_without_a_gpu_there_is_no_baseline_kernel_to_show(tilewright):
    arguments = ("naive", "--shape", "8", "--engine", "emulator", "--show-baseline-kernel")
    status, out, err = tilewright("bench", *arguments)
    assert status == 0
    assert "no baseline kernel: without a GPU the baseline is NumPy, which runs none" in err
    assert "grid" not in out


def test_bench_takes_configs_and_presets(tilewright):
    arguments = ("--shape", "64", "--engine", "emulator")
    _, out, _ = tilewright("bench", "vectorized", "--config", "BM=32,BN=32,BK=16,TM=4,TN=4", *arguments)
    assert "BM=32 BN=32 BK=16 TM=4 TN=4" in out
    _, out, _ = tilewright("bench", "shared_tiled:fastcuda_v2", *arguments)
    assert "TILE=32 PAD=1" in out


def test_a_wrong_result_is_shown_and_fails(tilewright, tmp_path, monkeypatch):
    right = find("coalesced")
    source = tmp_path / right.source.name
    source.write_text(right.source.read_text().replace("k < K", "k < K - 1"))
    monkeypatch.setattr(bench.Words, "resolve", lambda words, name: (replace(right, name=name, source=source), {}))
    status, out, err = tilewright("bench", "broken", "--shape", "32", "--engine", "emulator")
    assert status == 1
    assert "WRONG" in out
    assert "wrong result: broken on 32x32x32" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["warptield"], "no kernel is called 'warptield'; did you mean 'warptiled'?"),
        (["naive:fastcuda_v2"], "naive has no preset 'fastcuda_v2'; did you mean 'fastcuda_v1'?"),
        (["--shape", "3x4"], "shape must read MxNxK, as in 4096x4096x4096, got '3x4'"),
        (["--shape", "3x4x-1"], "shape must read MxNxK"),
        (["--suite", "sqares"], "no suite is called 'sqares'; did you mean 'squares'?"),
        (["10", "--config", "BX=3"], "warptiled has no parameter 'BX'"),
        (["10", "--config", "BM"], "config must read NAME=INTEGER,..., as in BM=64,BN=64; got 'BM'"),
        (["10", "--config", "BM=48"], "BM must be a multiple of WM"),
        (
            ["--dtype", "float64"],
            "dtype must be one of float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8, uint8, got 'float64'",
        ),
        (
            ["--out-dtype", "float64"],
            "out_dtype must be one of float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int8, uint8, int32, "
            "got 'float64'",
        ),
        (["--layout", "NX"], "layout must be one of NN, NT, TN, TT, A's order then B's, got 'NX'"),
        (["--activation", "rellu"], "got 'rellu'; did you mean 'relu'?"),
        (["10", "--config", "BM=64,BM=128"], "config must give each parameter once, got BM twice in 'BM=64,BM=128'"),
        (["--alpha", "nan"], "--alpha takes 0, or a number of 1.2e-38 to 3.4e+38 in magnitude, got nan"),
        (["--alpha", "inf"], "--alpha takes 0, or a number of 1.2e-38 to 3.4e+38 in magnitude, got inf"),
        (["--beta", "1e-50"], "--beta takes 0, or a number of 1.2e-38 to 3.4e+38 in magnitude, got 1e-50"),
        (["naive", "--shape", "8", "--shape", "1000000"], "1000000x1000000x1000000 needs 37,253 GiB of memory"),
        (["naive", "--shape", "2000000000"], "2000000000x2000000000x2000000000 needs"),
        (["--engine", "gpu"], "engine must be one of auto, cuda, emulator, got 'gpu'"),
    ],
)
def test_bad_input_is_named(tilewright, arguments, message):
    status, out, err = tilewright("bench", "--engine", "emulator", *arguments)
    assert status == 2
    assert message in err
    assert not out


def test_wrong_usage_has_its_own_status(tilewright):
    status, _, err = tilewright("bench", "--samples", "0")
    assert status == 2
    assert "--samples" in err


@pytest.mark.parametrize("command", ["list", "bench", "check", "explain", "sass", "tune"])
def test_a_shell_completes_names_of_kernels(tilewright, monkeypatch, command):
    monkeypatch.setenv("_TILEWRIGHT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"tilewright {command} spl")
    monkeypatch.setenv("COMP_CWORD", "2")
    status, out, _ = tilewright()
    assert status == 0
    assert sorted(out.split()) == ["split", "split_k"]


@pytest.mark.parametrize("command", [[], ["list"], ["info"], ["bench"]])
def test_help_teaches(tilewright, command):
    status, out, _ = tilewright(*command, "--help")
    assert status == 0
    assert "Usage: tilewright" in out


def test_records_that_cannot_be_written_fail_by_name(tilewright, tmp_path):
    status, _, err = tilewright(
        "bench", "naive", "--shape", "8", "--engine", "emulator", "--json", str(tmp_path / "file" / "run.json")
    )
    assert status == 0
    (tmp_path / "plain").write_text("")
    status, out, err = tilewright(
        "bench", "naive", "--shape", "8", "--engine", "emulator", "--json", str(tmp_path / "plain" / "run.json")
    )
    assert status == 2
    assert f"--json takes a path for a file of records, got {tmp_path}/plain/run.json, but {tmp_path}/plain is" in err
    assert not out, "it is said before the run"


def test_ctrl_c_stops_a_run_and_keeps_what_was_measured(tmp_path):
    path = tmp_path / "run.json"
    command = [
        sys.executable,
        "-c",
        "from tilewright.tools.cli.main import main; main()",
        "bench",
        "naive",
        "--engine",
        "emulator",
    ]
    command += ["--shape", "8", "--shape", "2048", "--json", str(path)]
    with subprocess.Popen(command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not path.exists():
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        process.communicate()
    assert process.returncode not in (0, None)
    assert time.monotonic() - start < 10
    assert len(json.loads(path.read_text())["results"]) == 1


def test_no_command_loads_cuda_before_it_needs_it():
    named = "; ".join(f"import tilewright.tools.cli.{name}" for name in COMMANDS)
    check = f"import sys; {named}; assert not [name for name in sys.modules if name.split('.')[0] == 'cuda']"
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.further
def test_a_command_is_imported_once_it_is_named():
    code = (
        "import sys; from tilewright.tools.cli.main import app; sys.argv[1:] = ['check', '--help']\n"
        "try: app(prog_name='tilewright')\n"
        "finally: print([name for name in sys.modules if name.startswith('tilewright.tools.cli.')])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "tilewright.tools.cli.check'" in out
    assert "tilewright.tools.cli.tune'" not in out


def test_names_are_imported_when_they_are_asked_for():
    code = (
        "import sys, tilewright, tilewright.tools.cli.main\n"
        "assert 'numpy' not in sys.modules and {*tilewright.__all__} <= {*dir(tilewright)}\n"
        "assert all(getattr(tilewright, name) is not None for name in tilewright.__all__)\n"
        "assert 'matmul' in vars(tilewright) and len(tilewright.list_kernels()) > 20\n"
        "try: tilewright.matmull\n"
        "except AttributeError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out == "module 'tilewright' has no attribute 'matmull'\n"


@pytest.mark.further
@pytest.mark.parametrize(
    ("command", "given", "found"), [("check", None, "1"), ("check", "2", "2"), ("bench", None, "None")]
)
def test_numpy_begins_with_one_thread_for_a_check(command, given, found):
    code = (
        f"import gc, os, sys; from tilewright.tools.cli.main import app; sys.argv[1:] = ['{command}', '--help']\n"
        "assert 'numpy' not in sys.modules\n"
        "try: app(prog_name='tilewright')\n"
        "finally: assert gc.isenabled() and 'numpy' in sys.modules; print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    environment |= {"OPENBLAS_NUM_THREADS": given} if given else {}
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert run.stdout.split()[-1] == found


def test_records_on_standard_output_are_alone_there(tilewright):
    status, out, err = tilewright(
        "bench", "naive", "--shape", "8", "--shape", "9", "--engine", "emulator", "--json", "-"
    )
    assert status == 0
    assert [record["m"] for record in json.loads(out)["results"]] == [8, 9]
    assert "9x9x9, float32" in err


def test_records_replace_records_and_nothing_else(tilewright, tmp_path):
    path = tmp_path / "run.json"
    arguments = ("bench", "naive", "--shape", "8", "--engine", "emulator", "--json", str(path))
    path.write_text('{"mine": 1}')
    status, out, err = tilewright(*arguments)
    assert status == 2
    assert f"--json takes a path for a file of records, got {path}, which is there and holds something else" in err
    assert (path.read_text(), out) == ('{"mine": 1}', "")
    path.unlink()
    assert tilewright(*arguments)[0] == tilewright(*arguments)[0] == 0


def test_info_says_what_is_missing(tilewright, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    registry._made.cache_clear()
    status, out, err = tilewright("info")
    registry._made.cache_clear()
    assert (status, err) == (0, "")
    assert "none: there is no C++ compiler" in out
    assert "cache folder" in out


def test_the_version_is_printed(tilewright):
    assert tilewright("--version") == (0, f"tilewright {version.__version__}", "")


@pytest.mark.parametrize("command", [[], ["list"], ["bench"]])
def test_help_has_a_short_name(tilewright, command):
    assert tilewright(*command, "-h") == tilewright(*command, "--help")


def run_module(*arguments, **options):
    return subprocess.run([sys.executable, "-m", "tilewright", *arguments], capture_output=True, text=True, **options)


def test_the_package_runs_as_a_module_and_completes_words():
    words = {"_TILEWRIGHT_COMPLETE": "complete_bash", "COMP_WORDS": "tilewright be", "COMP_CWORD": "1"}
    assert run_module(env=os.environ | words).stdout.split() == ["bench"]


@pytest.mark.first(1)
@pytest.mark.parametrize("arguments", ["list", "--version", "bench -h"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error_in_one_line(arguments):
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "tilewright", *arguments.split()], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (run.returncode, run.stderr) == (1, "error: No space left on device\n")


def test_memory_that_is_full_is_an_error_in_one_line(tilewright, monkeypatch):
    def draw(*_):
        raise MemoryError("Unable to allocate 4. GiB")

    monkeypatch.setattr(Operands, "draw", draw)
    status, _, err = tilewright("bench", "naive", "--shape", "8", "--engine", "emulator")
    assert (status, err) == (1, "error: memory is full: Unable to allocate 4. GiB")


@pytest.mark.first(2)
@pytest.mark.parametrize("command", ["list", "bench", "check", "explain", "sass", "tune"])
def test_every_command_takes_a_preset_and_refuses_an_unknown_one(tilewright, command, tmp_path):
    sized = [] if command == "list" else ["--shape", "16"]
    placed = ["--engine", "emulator"] if command in ("bench", "tune") else []
    kept = ["--journal", str(tmp_path / "j.jsonl")] if command == "tune" else []
    status, out, _ = tilewright(command, "naive:fastcuda_v1", *sized, *placed, *kept)
    assert status == 0
    assert re.search("BLOCK_X=16[ ,]BLOCK_Y=16[ ,]X_ALONG_N=1", out)
    status, _, err = tilewright(command, "naive:fastcuda_v9", *sized, *placed, *kept)
    assert status == 2
    assert "naive has no preset 'fastcuda_v9'; did you mean 'fastcuda_v1'?" in err
