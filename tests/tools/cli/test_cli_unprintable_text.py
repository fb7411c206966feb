"""Commands on files, names and messages of other people, and on streams and signals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.text import Text
from typer.testing import CliRunner

from tilewright.kernels.source.products import START
from tilewright.tools.bench.records import Run
from tilewright.tools.cli import main
from tilewright.tools.cli.streams import remark
from tilewright.tools.report.fitted import Column, FittedTable
from tilewright.tools.report.visible import PlainConsole

ADVERSARIAL = "\x1b]0;title\x07 [red]x[/] \x9b31m \u202e \udcff"
SHOWN = r"\x1b]0;title\x07 [red]x[/] \x9b31m \u202e \udcff"
TILEWRIGHT = (sys.executable, "-c", "from tilewright.tools.cli.main import main; main()")


def run(*arguments):
    result = CliRunner().invoke(main.app, list(map(str, arguments)), env={"COLUMNS": "200"})
    return result.exit_code, result.output if result.exception is None else f"{result.output}{result.exception}"


def own_source(path, old="", new=""):
    """A file of a right kernel, or of one with a change."""
    text = START.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_control_characters_are_shown_and_markup_is_text(capsys):
    remark("note", "dim", ADVERSARIAL)
    table = FittedTable(Column(ADVERSARIAL), title=ADVERSARIAL, caption=ADVERSARIAL)
    table.add_row(ADVERSARIAL)
    table.add_row(Text("\x1b[31m", "bold"))
    PlainConsole().print(table, soft_wrap=True)
    printed = capsys.readouterr()
    assert printed.err == f"note: {SHOWN}\n"
    assert printed.out.count(SHOWN) == 4
    assert printed.out.replace("\n", "").isprintable()


def test_messages_of_compilers_and_names_of_files_are_text(tmp_path):
    path = own_source(tmp_path / "[red]x.cu", "sum = 0.0f;", "sum = no_such; // \x1b]0;title\x07 [bold]")
    command = [*TILEWRIGHT, "check", path.name]
    done = subprocess.run(command, cwd=tmp_path, env=paths(), capture_output=True, text=True, check=False)
    error = done.stderr
    assert done.returncode == 1
    assert "[red]x.cu does not compile" in error and r"// \x1b]0;title\x07 [bold]" in error
    assert "\x1b" not in error and "\x07" not in error


def paths():
    """An environment in which another folder makes no difference to what is imported."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize("name", ['a"b.cu', "a\nb.cu", "a\\b.cu", "a\udcffb.cu"])
def test_a_name_that_cannot_stand_in_a_source_is_refused(tmp_path, name):
    _, said = run("check", own_source(tmp_path / name))
    assert "compilers do not take such a name of a file" in said


def test_tables_of_a_source_have_the_name_of_its_file(tmp_path):
    status, said = run("explain", own_source(tmp_path / "[red]x.cu"), "--shape", "64")
    assert status == 0
    assert "[red]x.cu:" in said.partition("The lines that cost most")[2]


FILES = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep in an object": b'{"records": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "empty": b"",
    "no text": b"\xff\xfe{",
}
VALUES = {"gflops": ("1e999", "NaN", "-1", '"x"'), "m": ("1e999", "null", f"1{'0' * 400}", f"1{'0' * 5000}")}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_file_that_holds_no_records_is_an_error_in_a_line(tmp_path, content):
    path = tmp_path / "run.json"
    path.write_bytes(content)
    status, said = run("report", path, "-o", tmp_path / "page.html")
    assert status == 1 and "run.json is not a file of records" in said


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in VALUES for value in VALUES[field]])
def test_numbers_that_no_run_measures_are_an_error_in_a_line(tmp_path, make_record, field, value):
    record = make_record().model_dump() | {field: "@"}
    path = tmp_path / "run.json"
    path.write_text(
        json.dumps(Run(environment={}, records=[]).model_dump() | {"records": [record]}).replace('"@"', value)
    )
    status, said = run("report", path, "-o", tmp_path / "page.html")
    assert status == 1 and "run.json is not a file of records" in said


STREAMS = {
    "closed output": ("{} list >&-", 0, ""),
    "all closed": ("{} list <&- >&- 2>&-", 0, ""),
    "closed pipe": ("{{ sleep 0.2; {} list; echo $? >&2; }} | true", 0, "1\n"),
    "full disk": ("{} list > /dev/full", 1, "error: No space left on device\n"),
    "an encoding with few characters": ("PYTHONIOENCODING=ascii {} list > /dev/null", 0, ""),
}


@pytest.mark.first(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("case", STREAMS)
def test_an_output_that_takes_nothing_is_no_traceback(case):
    command, status, said = STREAMS[case]
    done = subprocess.run(
        ["/bin/sh", "-c", command.format(f"{sys.executable} -m tilewright")],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, said)


@pytest.mark.first(1)
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.parametrize(("end", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_kernel_that_hangs_is_ended_at_the_first_signal(tmp_path, end, status):
    path = own_source(
        tmp_path / "hangs.cu", "sum = 0.0f;", "sum = 0.0f;\n    for (volatile int i = 0; i == 0;) {\n    }"
    )
    command = [*TILEWRIGHT, "check", path, "--deadline", "30"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        while not any(ticks > 100 for ticks in kernels_ticks(process.pid)):
            assert process.poll() is None
            time.sleep(0.1)
        start = time.monotonic()
        process.send_signal(end)
        output, _ = process.communicate(timeout=60)
    assert time.monotonic() - start < 1, output
    assert process.returncode == status
    assert not list(tmp_path.glob("tilewright-*"))


def kernels_ticks(parent):
    """Ticks of a processor that each process has used which a process's own have started."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        stats[int(path.parent.name)] = int(fields[1]), int(fields[11])
    children = {number for number, (above, _) in stats.items() if above == parent}
    return [ticks for above, ticks in stats.values() if above in children]
