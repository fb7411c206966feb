"""`tilewright new`, and the commands with a kernel from a source file, as a user types them."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.core.errors import ConfigError, LaunchError
from tilewright.kernels import LADDER, resolve
from tilewright.kernels.source.products import START
from tilewright.tools.cli import main


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in a folder that has start.cu; gives its words, and checks its exit status."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "start.cu").write_text(START.read_text())

    def command(*arguments, status=0):
        result = CliRunner().invoke(main.app, [*map(str, arguments)], env={"COLUMNS": "300"})
        if isinstance(result.exception, ConfigError):
            raise result.exception
        assert result.exit_code == status, (result.output, result.exception)
        return " ".join(result.output.split())

    return command


def test_new_writes_a_kernel_that_passes(run, tmp_path):
    assert "wrote my_gemm.cu: next, tilewright check my_gemm.cu" in run("new", "my_gemm")
    written = (tmp_path / "my_gemm.cu").read_text()
    assert "tilewright check my_gemm.cu" in written
    assert "start" not in written
    for options in ((), ("--beta", 0, "--config", "TILE=8")):
        assert "my_gemm.cu:my_gemm nothing found TILE=" in run("check", "my_gemm.cu", *options)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "rung", ["shared_tiled:fastcuda_v2", *(kernel.name for kernel in LADDER if kernel.rung <= 14), "wgmma"]
)
def test_new_copies_a_rung_that_passes(run, tmp_path, rung):
    run("new", "mine", "--from", rung)
    assert (tmp_path / "mine.cu").read_text().endswith(resolve(rung)[0].source.read_text())
    assert "nothing found" in run("check", "mine.cu", "--shape", "67x45x83", "--shape", "64x64x96")


@pytest.mark.first(1)
@pytest.mark.parametrize("rung", ["vectorized", "naive"])
def test_a_copy_has_the_numbers_of_its_rung(run, rung):
    """Also where tiles do not divide the product, and its rows are not aligned."""
    run("new", "mine", "--from", rung)
    for shape in ("256", "250x131x77"):
        said = [run("explain", name, "--shape", shape, "--gpu", "H100") for name in (rung, "mine.cu")]
        registers, times = ([re.findall(found, one) for one in said] for found in (r"\d+ registers", r"[\d.]+ [um]s\b"))
        assert registers[0] == registers[1]
        assert times[0][:3] == times[1][:3] != []


def test_a_copy_may_have_another_config(run, tmp_path):
    run("new", "mine", "--from", "thread_tiled_1d", "--config", "TM=1,TN=4,BK=16")
    assert "#define BK 16" in (tmp_path / "mine.cu").read_text()
    assert "nothing found" in run("check", "mine.cu", "--shape", "67x45x83")
    with pytest.raises(ConfigError, match="BK"):
        run("check", "mine.cu", "--config", "BK=8")
    with pytest.raises(ConfigError, match="--config is for a copy of a rung"):
        run("new", "other", "--config", "BK=8")
    assert not (tmp_path / "other.cu").exists()


def test_a_source_says_which_macros_its_operands_decide(run, tmp_path):
    guarded = START.read_text().replace("TILE=16:8,16,32", "TILE=16 edges=UNEVEN", 1)
    (tmp_path / "guarded.cu").write_text(guarded.replace("if (", "if (UNEVEN || ", 1))
    assert "nothing found" in run("check", "guarded.cu", "--shape", "64")
    assert "out of bounds" in run("check", "guarded.cu", "--shape", "61", status=1)
    (tmp_path / "guarded.cu").write_text(guarded.replace("edges=UNEVEN", "edges=1+1"))
    with pytest.raises(ConfigError, match=r"edges must be a macro's name, as in edges=EDGES, got 1\+1"):
        run("check", "guarded.cu")


def test_new_copies_no_rung_with_tensor_maps(run, tmp_path):
    result = CliRunner().invoke(main.app, ["new", "mine", "--from", "wgmma_tma"])
    assert "--from takes a rung without tensor maps, 1 to 14 or 19" in str(result.exception)
    assert not (tmp_path / "mine.cu").exists()


@pytest.mark.parametrize(("name", "words"), [("start", "start.cu is there already"), ("my-gemm", "must be letters")])
def test_new_replaces_nothing_and_says_which_names_there_are(run, tmp_path, name, words):
    result = CliRunner().invoke(main.app, ["new", name])
    assert result.exit_code == 1
    assert words in str(result.exception)
    assert (tmp_path / "start.cu").read_text() == START.read_text()


def test_check_finds_a_missing_barrier(run, tmp_path):
    text = START.read_text()
    (tmp_path / "hasty.cu").write_text(text.replace("__syncthreads();  // all have read them", ""))
    found = run("check", "hasty.cu", status=1)
    assert "hasty.cu:start faulty TILE=16 fault" in found
    assert re.search(r"race 256x256x128, beta 0.5 thread .* tile_[ab].* hasty.cu:\d+; thread .* hasty.cu:\d+", found)


STORE = re.search(r"    if \(row < M && col < N\) C.*", START.read_text())[0]
NEVER_RIGHT = {
    "crash": (
        "    reinterpret_cast<void (*)()>(8)();",
        r"crashed 16x16x16, beta 0.5 thread \S+ \S+ 0\) of block .* causes a fault .* at wild.cu:(?P<line>\d+)",
    ),
    "recursion": (
        "    struct S { static __device__ int f(int n) { volatile int x = n; return f(x) + x; } }; C[0] = S::f(row);",
        r"crashed 16x16x16, beta 0.5 thread \S+ \S+ 0\) of block .* overflows its stack at wild.cu:(?P<line>\d+)",
    ),
    "a loop": (
        "    for (int i = 0; i != 1; i &= 6) C[0] += 1;",
        r"hung 16x16x16, beta 0.5 thread \S+ \S+ 0\) of block .* does not end in time at wild.cu:(?P<line>\d+)",
    ),
    "division": (
        "    C[0] = 1 / (row - row);",
        r"division by zero 16x16x16, beta 0.5 in block .* thread .* divides by zero \(wild.cu:\d+\)",
    ),
    "hang": (
        "    while (A[0] != 12345.0f) {}",
        r"hung 16x16x16, beta 0.5 thread \S+ \S+ 0\) of block .* does not end in time at wild.cu:(?P<line>\d+)",
    ),
    "far away": (
        "    C[(long long)(row * N + col) << 30] = sum;",
        r"out of bounds 16x16x16, beta 0.5 thread .* writes [ABC]\[",  # the nearest, by where they lie
    ),
}


@pytest.mark.parametrize(("store", "words"), NEVER_RIGHT.values(), ids=NEVER_RIGHT)
def test_a_kernel_that_crashes_or_never_ends_is_a_finding(run, tmp_path, store, words):
    (tmp_path / "wild.cu").write_text(START.read_text().replace(STORE, store))
    found = run("check", "wild.cu", "start.cu", "--shape", "16x16x16", "--deadline", 1, status=1)
    said = re.search(rf"wild.cu:start faulty TILE=16 fault .* {words}", found)
    assert said, found
    if "line" in said.groupdict():
        assert store.strip() in (tmp_path / "wild.cu").read_text().splitlines()[int(said["line"]) - 1]
    assert "start.cu:start nothing found" in found
    assert "2 kernels checked" in found


def test_findings_as_json(run, tmp_path):
    (tmp_path / "wild.cu").write_text(START.read_text().replace(STORE, STORE.replace("row < M", "row <= M")))
    run("check", "wild.cu", "naive", "--shape", "15x16x8", "--beta", 0, "--json", "found.json", status=1)
    wild, naive = json.loads((tmp_path / "found.json").read_text())["checked"]
    assert (wild["kernel"], wild["config"], naive["kernel"]) == ("wild.cu:start", {"TILE": 16}, "naive")
    (problem,) = wild["problems"]
    assert (problem["shape"], problem["case"], problem["beta"], problem["right"]) == ("15x16x8", "NN float32", 0, True)
    (finding,) = problem["findings"]
    line = next(i for i, text in enumerate((tmp_path / "wild.cu").read_text().split("\n"), 1) if "row <= M" in text)
    assert (finding["kind"], finding["count"]) == ("out of bounds", 16)
    assert finding["lines"] == [{"file": "wild.cu", "line": line}]
    assert re.search(r"writes C\[15, \d+\], outside of its 15 x 16 elements", finding["words"])
    assert naive["problems"][0]["findings"] == []
    printed = CliRunner().invoke(main.app, ["check", "naive", "--shape", "8", "--json", "-"]).stdout
    assert json.loads(printed)["checked"][0]["problems"][0]["right"] is True


def test_notes_are_no_faults(run, tmp_path):
    text = START.read_text().replace(STORE, f"    tile_a[0][0] = 1;\n{STORE}")
    (tmp_path / "done.cu").write_text(text)
    found = run("check", "done.cu", "--shape", "16x16x16", "--shape", "20", "--json", "found.json")
    assert re.search(
        r"done.cu:start nothing found TILE=16 note thread .* writes tile_a\[0\]\[0\] at done.cu:\d+; [^;]*; \d+ times",
        found,
    )
    assert found.count("note") == 1
    (done,) = json.loads((tmp_path / "found.json").read_text())["checked"]
    assert [[one["kind"] for one in problem["notes"]] for problem in done["problems"]] == [["same value"]] * 2


def test_a_source_that_does_not_compile_is_said(run, tmp_path):
    (tmp_path / "odd.cu").write_text(START.read_text().replace("float sum", "float sum = nothing"))
    result = CliRunner().invoke(main.app, ["check", "odd.cu"])
    assert "odd.cu does not compile" in str(result.exception)
    assert "nothing" in str(result.exception)


@pytest.mark.further
def test_check_s_scalars_are_those_that_a_kernel_takes(run, tmp_path):
    plain = START.read_text().replace("float alpha, ", "").replace("float beta, ", "").replace("alpha * sum", "sum")
    (tmp_path / "plain.cu").write_text(re.sub(r"sum \+ \(beta.*;", "sum;", plain))
    assert "plain.cu:start nothing found" in run("check", "plain.cu")
    result = CliRunner().invoke(main.app, ["check", "plain.cu", "--alpha", "2"])
    assert "plain.cu:start has no alpha, so that it is 1, got 2.0" in str(result.exception)


def test_explain_counts_its_lines(run):
    found = run("explain", "start.cu", "--shape", 512, "--gpu", "H200", "--json", "found.json")
    assert "start.cu:start TILE=16 512x512x512, float32, on one H200: 1,024 blocks of 256 threads" in found
    assert re.search(r"start.cu:\d+ shared loads 5.243 M", found)
    # 32 x 32 blocks read a tile of A and of B in each of 32 steps, by 8 warps: a request each, of 2 rows of 64 bytes.
    assert "global loads 524,288 2.097 M" in found


@pytest.mark.parametrize(
    ("name", "deadline", "words"),
    [
        ("division", 60, r"the kernel ends its process: ended by SIG\w+\. tilewright check may name the fault$"),
        ("hang", 1, "the kernel does not end: no answer in 1 s.*; --deadline gives it longer$"),
    ],
)
def test_a_kernel_that_crashes_or_never_ends_ends_no_explanation(run, tmp_path, name, deadline, words):
    pytest.importorskip("cuda.core")
    (tmp_path / "wild.cu").write_text(START.read_text().replace(STORE, NEVER_RIGHT[name][0]))
    result = CliRunner().invoke(main.app, ["explain", "wild.cu", "--shape", "16", "--deadline", f"{deadline}"])
    assert isinstance(result.exception, LaunchError)
    assert re.search(words, str(result.exception))


def test_explain_draws_it(run, tmp_path):
    pytest.importorskip("cuda.core")
    run("explain", "start.cu", "--shape", 64, "--gpu", "H200", "--figure", "start.svg")
    assert "start.cu:start, 64x64x64" in (tmp_path / "start.svg").read_text()


def test_bench_verifies_it(run):
    found = run("bench", "start.cu", "naive", "--shape", "40x33x50", "--engine", "emulator", "--json", "run.json")
    assert re.search(r"start.cu:start TILE=16 \S+ \S+ ok", found)
    records = json.loads(Path("run.json").read_text())["results"]
    assert [record["kernel"] for record in records] == ["start.cu:start", "naive"]


def test_tune_tries_its_values_and_saves_nothing_that_matmul_would_pick(run):
    found = run("tune", "start.cu", "--shape", 64, "--engine", "emulator", "--journal", "journal.jsonl")
    assert re.search(r"3 of 3 configs tried: [^.]*timed", found)
    result = CliRunner().invoke(main.app, ["tune", "start.cu", "--save"])
    assert "--save is for kernels that matmul picks from" in str(result.exception)


def test_tune_takes_the_types_that_a_source_has(run, tmp_path):
    shutil.copy(Path(__file__).parents[2] / "own_kernels" / "tile_product.cu", tmp_path)
    tune = ("tune", "tile_product.cu", "--shape", 16, "--engine", "emulator", "--journal", "journal.jsonl")
    assert "1 of 1 configs tried: 1 timed" in run(*tune)
    result = CliRunner().invoke(main.app, [str(word) for word in (*tune, "--dtype", "float32")])
    assert str(result.exception) == "tile_product.cu:tile_product takes bfloat16, got float32"


UNGUARDED = START.read_text().replace("(beta == 0.0f ? 0.0f : beta * C[row * N + col])", "beta * C[row * N + col]")


def test_a_kernel_that_reads_c_where_beta_is_0_is_reported(run, tmp_path):
    (tmp_path / "sum.cu").write_text(UNGUARDED)
    words = r"C is read though beta is 0, where it may hold anything, as NaN here: the kernel needs \(beta == 0 \? 0 : "
    found = run("check", "sum.cu", "--shape", 16, "--beta", 0, status=1)
    assert re.search(f"wrong result 16x16x16, beta 0 the relative error against float64 is nan: {words}", found)
    assert "nothing found" in run("check", "sum.cu", "--shape", 16)
    on_emulator = ("--shape", 16, "--engine", "emulator")
    assert re.search(f"wrong result: sum.cu:start on 16x16x16: {words}", run("bench", "sum.cu", *on_emulator, status=1))
    assert " ok " in run("bench", "sum.cu", *on_emulator, "--beta", 0.5)
    tune = ("tune", "sum.cu", *on_emulator, "--journal", "journal.jsonl")
    assert re.search(f"no config gave a right result: relative error nan, .*; {words}", run(*tune, status=1))
    assert re.search(r"3 of 3 configs tried: [^.]*timed", run(*tune, "--beta", 0.5, "--alpha", 2))
    # Another product has trials of its own.
    assert "3 of 3 configs tried, 3 of them in earlier runs" in run(*tune, "--beta", 0.5, "--alpha", 2)
    assert "in earlier runs" not in run(*tune, "--beta", 0.25)
    (tmp_path / "wrong.cu").write_text(UNGUARDED.replace("alpha * sum", "alpha + sum"))
    assert "C is read" not in run("bench", "wrong.cu", *on_emulator, status=1)


def test_tune_s_scalars_are_those_that_tables_and_kernels_have(run, tmp_path):
    for arguments, words in (
        (("naive", "--save", "--beta", "1"), "--save is for products with alpha 1 and beta 0, got alpha 1 and beta 1"),
        (("start.cu", "--alpha", "1e39"), "--alpha takes 0, or a number of"),
    ):
        result = CliRunner().invoke(main.app, ["tune", *arguments, "--engine", "emulator"])
        assert words in str(result.exception)


def test_sass_shows_its_code(run):
    pytest.importorskip("cuda.core")
    found = run("sass", "start.cu", "--config", "TILE=32", "--arch", "sm_80")
    assert "start.cu:start TILE=32 for sm_80: float32 " in found
    assert "8192 bytes of shared memory" in found
    assert ".visible .entry" in run("sass", "start.cu", "--ptx")


def test_a_template_has_machine_code_too(run, tmp_path):
    pytest.importorskip("cuda.core")
    text = START.read_text().replace("__global__", "template <int TILE, typename T>\n__global__", 1)
    head, rest = text.split("\n", 1)
    (tmp_path / "typed.cu").write_text(f"{head} entry=start<TILE,float>\n{rest}")
    assert "typed.cu:start TILE=8 for sm_90a" in run("sass", "typed.cu", "--config", "TILE=8")
    assert "nothing found" in run("check", "typed.cu", "--shape", "40x30x20")


def test_a_file_named_without_its_ending_is_pointed_out(run):
    result = CliRunner().invoke(main.app, ["check", "start"])
    assert str(result.exception) == "no kernel is called 'start'; did you mean the file start.cu?"
