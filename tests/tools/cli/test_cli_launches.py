"""`check` and `explain` of kernels that are no matrix products: those of own_kernels/, right and with a fault."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.core.errors import ConfigError, DtypeError, LaunchError
from tilewright.core.gpus import gpu_named
from tilewright.emulator.compiler import FAST
from tilewright.emulator.launches import Placed, check_launch, compile_launch, draw
from tilewright.kernels.source.source_launch import read_launch
from tilewright.tools.bench.references import Reference
from tilewright.tools.cli import explain as explain_command
from tilewright.tools.cli import main
from tilewright.tools.explain import launch_explanation
from tilewright.tools.explain.launch_explanation import explain_launch, launch_json, launch_verdict

OWN = Path(__file__).parents[2] / "own_kernels"
KERNELS = (
    *(
        "reduction",
        "transpose:naive",
        "transpose:tiled",
        "transpose:padded",
        "tile_transpose",
        "grouped_product",
        "softmax",
    ),
    *("convolution", "histogram"),
)


def place_of(name, folder=OWN):
    file, _, entry = name.partition(":")
    return f"{folder / file}.cu" + (f":{entry}" if entry else "")


def planted(folder, name, before, after):
    """A kernel with one change of its source."""
    file = name.partition(":")[0]
    text = (OWN / f"{file}.cu").read_text()
    assert before in text
    (folder / f"{file}.cu").write_text(text.replace(before, after, 1))
    shutil.copy(OWN / "references.py", folder)
    return place_of(name, folder)


def wrong_buffers(launch):
    checked = check_launch(launch)
    assert checked.findings == []
    return [one.worst for one in Reference(launch).compare(checked.inputs, checked.outputs) if not one.right]


@pytest.mark.first(2)
@pytest.mark.parametrize("name", KERNELS)
def test_right_kernels_pass(name):
    launch = read_launch(place_of(name))
    assert not launch.product
    assert wrong_buffers(launch) == []


BARRIER = "    __syncthreads();\n"
FAULTS = {
    "a barrier less": ("reduction", BARRIER, "", "race", r"dynamic shared memory at reduction.cu:\d+.* nothing orders"),
    "a tile not waited for": ("tile_transpose", "@!done bra AGAIN; }", "}", "unfinished copy",
                              r"reads tile\[\d\]\[\d+\] at tile_transpose.cu:29"),
    "an odd end": ("transpose:naive", "if (col < cols) ", "", "out of bounds", r"writes b\[45, 0\], outside of its 45"),
    "a pad too far": ("transpose:padded", "tile[threadIdx.x][y];", "tile[threadIdx.x][y + 1];", "uninitialized read",
                      r"reads (byte \d+ of tile|tile\S+) at transpose.cu:19"),
    "a divided barrier": ("softmax", "shared[threadIdx.x + half]);\n        __syncthreads();",
                          "shared[threadIdx.x + half]), __syncthreads();", "barrier", "__syncthreads"),
    "no halo": ("convolution", "i < THREADS + 2 * RADIUS; i", "i < THREADS; i", "uninitialized read", r"window\[64\]"),
    "no atomic": ("histogram", "atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);",
                  "counts[threadIdx.x] += own[threadIdx.x];", "race", r"counts\[\d+\] at histogram.cu:\d+"),
    "elements left out": ("transpose:tiled", "if (col + y < cols &&", "if (col + y + 1 < cols &&", "unwritten",
                          r"b\[44, 0\] and 69 other elements of 3150 are never written"),
    "an input written": ("convolution", "result[at] += scale * sum", "((float*)signal)[at] = sum", "write to an input",
                         r"writes signal\[\d+\] at convolution.cu"),
}  # fmt: skip


@pytest.mark.first(5)
@pytest.mark.parametrize(("name", "before", "after", "kind", "words"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_named(tmp_path, name, before, after, kind, words):
    found = check_launch(read_launch(planted(tmp_path, name, before, after))).findings
    said = [f"{one.kind}: {one}" for one in found]
    assert any(re.search(f"^{kind}: .*{words}", one) for one in said), said


def test_an_order_that_shows_is_found(tmp_path):
    """The last block to add to a counter decides."""
    (tmp_path / "last.cu").write_text(
        "// tilewright: grid=8 block=1 turns=zeros:int32[1] who=out:int32[8]\n"
        "__global__ void last(int* turns, int* who) { who[blockIdx.x] = atomicAdd(turns, 1); }"
    )
    (found,) = check_launch(read_launch(str(tmp_path / "last.cu"))).findings
    assert (found.kind, str(found)) == (
        "order",
        "who[0] and 7 other elements of 8 are others when threads run backwards",
    )


def run(*arguments, status=0):
    result = CliRunner().invoke(main.app, [*map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == status, (result.output, result.exception)
    return " ".join(result.output.split())


def test_check_on_the_command_line(tmp_path):
    wrong = planted(tmp_path, "histogram", "own[values[i]], 1", "own[values[i]], 2")
    hangs = planted(tmp_path, "softmax", "float largest = -INFINITY;", "while (x[0] != 1e9f) {}; float largest = 0;")
    options = ("--json", tmp_path / "found.json", "--deadline", 1)
    found = run("check", place_of("softmax"), wrong, hangs, *options, status=1)
    assert "softmax nothing found x=float32[5,200] y=out:float32[5,200] rows=5 cols=200 BLOCK=64 grid=5" in found
    assert re.search(r"wrong result the relative error of counts is 1.0e\+00: counts\[0\] is \d+, the reference", found)
    assert re.search(r"hung thread \(\d+, 0, 0\) of block \(0, 0, 0\) does not end in time at softmax.cu:\d+", found)
    assert re.search(r"3 kernels checked in [\d.]+ s: 2 faulty", found)
    right, bad, hung = json.loads((tmp_path / "found.json").read_text())["checked"]
    assert (right["findings"], right["arguments"]["rows"], right["grid"]) == ([], 5, [5, 1, 1])
    assert right["arguments"]["y"] == {"role": "out", "dtype": "float32", "shape": [5, 200]}
    assert [(one["name"], one["right"]) for one in bad["compared"]] == [("counts", False)]
    assert [one["kind"] for one in hung["findings"]] == ["hung"]


def test_stores_of_one_value_are_a_note(tmp_path):
    source = tmp_path / "any.cu"
    source.write_text(
        "// tilewright: x=float32[256] flag=zeros:int32[1] grid=2 block=128\n"
        "__global__ void any(const float* x, int* flag) {\n"
        "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (x[i] > 0) flag[0] = EACH ? i : 1;\n"
        "}\n"
    )
    path = tmp_path / "found.json"
    found = run("check", source, "--config", "EACH=0", "--json", path)
    words = (
        r"thread \(\d+, 0, 0\) .* writes flag\[0\] at any.cu:4; .* wrote it at any.cu:4, the same value, and nothing"
    )
    assert re.search(rf"any.cu:any nothing found .* note {words} orders the two; \d+ times in all", found)
    (checked,) = json.loads(path.read_text())["checked"]
    (note,) = checked["notes"]
    assert (checked["findings"], note["kind"]) == ([], "same value")
    assert re.match(words, note["words"])
    assert "1 faulty" in run("check", source, "--config", "EACH=1", status=1)


def test_all_of_it_as_options(tmp_path):
    bare = tmp_path / "scale.cu"
    bare.write_text(
        "__global__ void scale(const float* x, float* y, int n) {\n"
        "    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i <= n) y[i] = 2 * x[i];\n}\n"
    )
    (tmp_path / "scale.py").write_text("def twice(x):\n    return 2 * x\n")
    words = ("--args", "x=float32[n] y=out:float32[n] n=1000", "--grid", "ceil(n/256)", "--block", 256)
    found = run("check", bare, *words, "--reference", f"{tmp_path / 'scale.py'}:twice", status=1)
    assert "reads x[1000], outside of its 1000 elements at scale.cu:3" in found
    bare.write_text(bare.read_text().replace("<=", "<"))
    assert "y: error 0.0e+00" in run("check", bare, *words, "--reference", f"{tmp_path / 'scale.py'}:twice")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("naive", "--args", "n=1"), "--args takes one source file, as in softmax.cu, got naive"),
        ((place_of("softmax"), "--shape", "8"), "--shape is for matrix products: "),
        ((place_of("softmax"), "--reference", "no.py:f"), "no.py cannot be loaded: FileNotFoundError"),
        ((place_of("softmax"), "--reference", f"{OWN}/references.py:transpose"), "takes 'a', which is no parameter"),
        ((place_of("softmax"), "--reference", f"{OWN}/references.py:soft"), "there is no function 'soft' in "),
    ],
)
def test_wrong_usage_is_said(options, words):
    result = CliRunner().invoke(main.app, ["check", *options])
    assert isinstance(result.exception, ConfigError)
    assert words in str(result.exception)


@pytest.mark.further
def test_explain_shows_what_tiles_and_a_pad_are_for(tmp_path, monkeypatch):
    pytest.importorskip("cuda.core")
    monkeypatch.setattr(explain_command, "present_gpu", lambda: None)
    path, sizes, h200 = tmp_path / "naive.json", "rows=1024 cols=1024", gpu_named("H200")
    found = run("explain", place_of("transpose:naive"), "--args", sizes, "--json", path)
    assert "transpose.cu:naive on one H200: 1,024 blocks of 256 threads" in found
    facts = {"naive": json.loads(path.read_text())}
    for name in ("tiled", "padded"):
        facts[name] = launch_json(explain_launch(read_launch(place_of(f"transpose:{name}"), sizes), h200))
    naive, tiled, padded = facts.values()
    # Each of 262144 / 8 warps' requests stores 32 elements: in 32 sectors, or in 4.
    assert [one["global_store"]["requests"] for one in facts.values()] == [32768] * 3
    assert [one["global_store"]["sectors"] for one in facts.values()] == [32768 * 32, 32768 * 4, 32768 * 4]
    assert [one["shared_load"]["bank_conflicts"] for one in facts.values()] == [0, 32768 * 31, 0]
    assert naive["bytes"]["least_read"] == naive["bytes"]["least_written"] == 4 * 1024 * 1024
    assert naive["flops"] == 0
    assert (naive["binds"], tiled["binds"]) == ("L2", "shared memory")
    assert padded["occupancy"]["limits"]["shared memory"] > 0
    assert "A store of a warp touches 32.0 sectors" in naive["verdict"]


def test_a_kernel_that_crashes_ends_no_explanation(tmp_path, monkeypatch):
    pytest.importorskip("cuda.core")
    monkeypatch.setattr(explain_command, "present_gpu", lambda: None)
    (tmp_path / "crash.cu").write_text(
        "// tilewright: grid=1 block=1 x=int32[1] y=out:int32[1]\n"
        "__global__ void crash(const int* x, int* y) { *y = 5 / (*x - *x); }"
    )
    result = CliRunner().invoke(main.app, ["explain", str(tmp_path / "crash.cu")])
    assert isinstance(result.exception, LaunchError)
    assert "the kernel ends its process: ended by SIG" in str(result.exception)


def test_a_kernel_that_never_ends_ends_an_explanation(tmp_path, monkeypatch):
    pytest.importorskip("cuda.core")
    monkeypatch.setattr(explain_command, "present_gpu", lambda: None)
    hangs = planted(tmp_path, "softmax", "float largest = -INFINITY;", "while (x[0] != 1e9f) {}; float largest = 0;")
    result = CliRunner().invoke(main.app, ["explain", hangs, "--deadline", "1"])
    assert isinstance(result.exception, LaunchError)
    assert "the kernel does not end: no answer in 1 s" in str(result.exception)


@pytest.mark.further
def test_large_launches_are_estimated():
    pytest.importorskip("cuda.core")
    launch = read_launch(place_of("convolution"), "n=524288")
    one = explain_launch(launch, gpu_named("A100 40GB"))
    assert one.traffic.extrapolated
    assert one.traffic.operations.ffma == pytest.approx(8 * 524288, rel=0.01)
    assert one.traffic.groups["global_store"].sectors == 524288 // 8
    assert "estimated from 1,024 of 8,192 blocks" in one.notes
    assert launch_verdict(one)


@pytest.mark.further
def test_launches_of_many_accesses_are_estimated(tmp_path, monkeypatch):
    pytest.importorskip("cuda.core")
    (tmp_path / "rows.cu").write_text(
        "// tilewright: grid=rows block=32 x=float32[rows,cols] y=out:float32[rows,32] rows=60 cols=640\n"
        "__global__ void sums(const float* x, float* y, int rows, int cols) {\n"
        "    float sum = 0;\n"
        "    for (int i = threadIdx.x; i < cols; i += 32) sum += x[blockIdx.x * cols + i];\n"
        "    y[blockIdx.x * 32 + threadIdx.x] = sum;\n}\n"
    )
    launch, h200 = read_launch(str(tmp_path / "rows.cu")), gpu_named("H200")
    whole = explain_launch(launch, h200).traffic
    assert not whole.extrapolated
    assert whole.groups["global_load"].requests == 60 * 20
    for most, blocks in ((10 * 32 * 21, 10), (1, 4)):
        monkeypatch.setattr(launch_explanation, "_MOST_ACCESSES", most)
        one = explain_launch(launch, h200)
        assert f"estimated from {blocks} of 60 blocks" in one.notes
        assert one.traffic.groups == whole.groups
        assert one.traffic.operations == whole.operations


@pytest.mark.parametrize("rows", ["const float** rows", "float* const* rows", "float *rows[]"])
def test_pointers_to_pointers_are_refused(tmp_path, rows):
    (tmp_path / "own.cu").write_text(
        "// tilewright: grid=1 block=32 rows=float32[32] y=out:float32[32]\n"
        f"__global__ void first({rows}, float* y) {{ y[threadIdx.x] = rows[threadIdx.x][0]; }}\n"
    )
    with pytest.raises(ConfigError, match="rows of first points to pointers"):
        read_launch(str(tmp_path / "own.cu"))


@pytest.mark.parametrize(
    ("word", "error", "words"),
    [
        ("c_weights=float32[8]", LaunchError, "c_weights has 28 bytes in the source, got 32"),
        ("c_weights=int32[7]", DtypeError, "c_weights, constant memory of blur, points to float, which is float32"),
        ("c_weights=out:float32[7]", ConfigError, "c_weights, constant memory of blur, is read alone, got out"),
    ],
)
def test_what_constant_memory_cannot_hold(word, error, words):
    place = Path(__file__).parents[2] / "own_kernels/unmodified/leet_blur.cu"
    with pytest.raises(error, match=words):
        launch = read_launch(str(place), f"input=float32[9] output=out:float32[9] N=9 {word}", grid="1", block="32")
        Placed(launch, draw(launch)).run(compile_launch(launch, FAST))


@pytest.mark.further
def test_a_few_blocks_have_the_banks_of_their_multiprocessors():
    pytest.importorskip("cuda.core")
    launch, h200 = read_launch(place_of("softmax"), "rows=3 cols=4096"), gpu_named("H200")
    few, as_many = (explain_launch(launch, replace(h200, multiprocessors=count)) for count in (132, 3))
    assert few.roofline.times_us["L1"] == pytest.approx(as_many.roofline.times_us["L1"])
    assert few.roofline.arithmetic_us == pytest.approx(as_many.roofline.arithmetic_us)
    assert few.roofline.memory_us == as_many.roofline.memory_us
    assert any("that have a block" in note for note in few.notes)
    assert not any("that have a block" in note for note in as_many.notes)


def test_sass_shows_its_code(tmp_path):
    pytest.importorskip("cuda.core")
    path = tmp_path / "code.json"
    found = run("sass", place_of("transpose:tiled"), "--arch", "sm_80", "--json", path)
    assert "transpose.cu:tiled for sm_80" in found
    facts = json.loads(path.read_text())
    assert (facts["arch"], facts["spill_bytes"], facts["shared_bytes"]) == ("sm_80", 0, 4 * 32 * 32)
    assert any(one["opcode"].startswith("STS") for one in facts["listing"])
    assert ".visible .entry" in run("sass", place_of("softmax"), "--ptx")
    result = CliRunner().invoke(main.app, ["sass", place_of("softmax"), "--arch", "sm_12"])
    assert "arch must be one that the compiler knows" in str(result.exception)
    (tmp_path / "twice.cu").write_text(
        "// tilewright: grid=1 block=32 COUNT=4 x=inout:float32[32]\n"
        "template <int COUNT> __global__ void twice(float* x) { x[threadIdx.x] *= COUNT; }"
    )
    assert "ILi4EE" in run("sass", tmp_path / "twice.cu", "--ptx")


CHAIN = """// tilewright: grid=ceil(n/256) block=256 x=float32[n] y=out:float32[n] flags=zeros:int32[4096] n=5000
__global__ void chain(const float* x, float* y, volatile int* flags, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (threadIdx.x == 0) {
        while (WAITS && flags[blockIdx.x OTHER] == 0) {}
        flags[blockIdx.x] = 1;
    }
    __syncthreads();
    if (i < n) y[i] = x[i] + 1;
}
"""
BEFORE, AFTER = {"WAITS": "blockIdx.x > 0", "OTHER": "- 1"}, {"WAITS": "blockIdx.x + 1 < gridDim.x", "OTHER": "+ 1"}


@pytest.mark.first(1)
@pytest.mark.parametrize("words", [BEFORE, AFTER], ids=["before", "after"])
def test_explain_of_blocks_that_wait_for_each_other_runs_all_or_says_what_to_do(tmp_path, words):
    pytest.importorskip("cuda.core")
    text = CHAIN
    for name, code in words.items():
        text = text.replace(name, code)
    (tmp_path / "chain.cu").write_text(text)
    place, gpu = str(tmp_path / "chain.cu"), gpu_named("H200")
    found = explain_launch(read_launch(place), gpu)
    assert found.traffic.groups["global_store"].requests == 20 + 157  # a flag a block; 5000 elements by warps
    assert found.flops is None
    assert any("operations are not counted: blocks wait for each other" in note for note in found.notes)
    with pytest.raises(
        LaunchError, match=r"a sample of the 3,907 cannot run .* smaller launch, .* up to 131,072 threads"
    ):
        explain_launch(read_launch(place, "n=1000000"), gpu)
