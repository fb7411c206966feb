"""`tilewright fault`: each file fails as it is, its solution passes, and what only hides the fault does not."""

import re

import pytest
from typer.testing import CliRunner

from solutions import SOLUTIONS, applied, changes
from tilewright.kernels import find
from tilewright.tools.cli import fault, launches, main
from tilewright.tools.explain.traffic import count

NAMED = (
    "out of bounds", "sectors of global memory", "race", "uninitialized read", "wrong result", "misaligned access",
    "wavefronts of shared memory", "race", "unfinished copy", "unfinished copy",
    "-6144 bytes of its phase 0 are missing", "missing fence",
)  # fmt: skip
"""Words by which each file fails as it is written."""
NUMBERS = range(1, len(fault.FILES) + 1)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command in an empty folder: its exit status, and what it prints."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        result = CliRunner().invoke(main.app, ["fault", *map(str, arguments)], env={"COLUMNS": "300"})
        return result.exit_code, f"{result.output}{result.exception or ''}"

    return command


def test_all_are_listed_by_what_is_seen(run):
    status, printed = run()
    assert status == 0
    assert re.findall(r"^ +(\d+) +(\d+) +\w", printed, re.MULTILINE) == [
        (str(number), re.search(r"after page (\d+)", file.read_text())[1]) for number, file in enumerate(fault.FILES, 1)
    ]


def test_a_file_is_written_once(run, tmp_path):
    status, printed = run(3)
    assert status == 0
    assert "a block copies tiles of A and B" in printed
    assert "tilewright fault 3 --mark fault_03.cu" in printed
    written = tmp_path / "fault_03.cu"
    assert written.read_bytes() == fault.FILES[2].read_bytes()
    written.write_text(written.read_text() + "// mine\n")
    status, printed = run(3)
    assert status == 1
    assert "fault_03.cu is there already: --mark marks it, --force writes the fault again" in printed
    assert written.read_text().endswith("// mine\n")
    assert run(3, "--force")[0] == 0
    assert written.read_bytes() == fault.FILES[2].read_bytes()
    (tmp_path / "mine.cu").write_text("// mine\n")
    status, printed = run(3, "mine.cu", "--force")
    assert status == 1
    assert "FILE takes a path for fault 3, got mine.cu" in printed
    assert (tmp_path / "mine.cu").read_text() == "// mine\n"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--mark",), 1, "--mark takes the number of a fault"),
        ((3, "notes.txt"), 1, "FILE must end in .cu, got notes.txt"),
        ((3, "--mark"), 1, "no kernel can be read from fault_03.cu: No such file"),
        ((0,), 2, "Invalid value for 'N'"),
    ],
)
def test_wrong_usage_is_named(run, arguments, status, words):
    found, printed = run(*arguments)
    assert found == status
    assert words in printed


@pytest.mark.first(3)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_fault_is_named_and_its_solution_passes(run, tmp_path, number):
    shipped = fault.FILES[number - 1]
    file = tmp_path / shipped.name
    file.write_text(shipped.read_text())
    status, printed = run(number, "--mark")
    assert status == 1
    assert NAMED[number - 1] in printed
    assert "passed" not in printed
    name, hunks = changes((SOLUTIONS / "faults.md").read_text())[number - 1]
    assert name == shipped.name
    file.write_text(applied(file.read_text(), hunks))
    status, printed = run(number, "--mark")
    assert status == 0, printed
    assert f"fault {number}: passed" in printed
    kernel = find(str(file))
    shape = (fault.ALIGNED if kernel.support.aligned else fault.ODD)[0]
    counted = count(kernel, kernel.config(), launches.problem_for(kernel, shape, None, None))
    copies = counted.groups["async_copy"]
    least = counted.global_sectors - copies.sectors, counted.shared_wavefronts - copies.wavefronts
    assert least == fault.WORK[number - 1]


HIDDEN = {
    "without the products": (3, "sum += tile_a[y][i] * tile_b[i][x];", "sum += 0;", "wrong result"),
    "barriers in the wrong place": (
        3, "    if (row < M && col < N) C", "    __syncthreads();\n    if (row < M && col < N) C", "race"
    ),
    "without shared memory": (
        3, "sum += tile_a[y][i] * tile_b[i][x];",
        "if (row < M && col < N && k + i < K) sum += A[row * K + k + i] * B[(size_t)(k + i) * N + col];",
        "sectors of global memory, and those of a solution 4,608",
    ),
    "without asynchronous copies": (
        9,
        'asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");',
        "*shared = bytes ? *global : 0.0f;", "sectors of global memory, and those of a solution 512",
    ),
}  # fmt: skip


@pytest.mark.further
@pytest.mark.parametrize("hidden", HIDDEN)
def test_what_hides_a_fault_does_not_pass(run, tmp_path, hidden):
    number, old, new, words = HIDDEN[hidden]
    text = fault.FILES[number - 1].read_text()
    assert text.count(old) == 1
    (tmp_path / "mine.cu").write_text(text.replace(old, new))
    status, printed = run(number, "mine.cu", "--mark")
    assert status == 1
    assert words in printed
