"""Finding the C++ compiler, compiling with it, and the cache of what it made."""

import ctypes
import hashlib
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulator_helpers import launch

from tilewright.core.errors import CompileError, EngineUnavailableError
from tilewright.emulator import compiler, prebuilt, program
from tilewright.emulator.compiler import CHECKED, FAST, compile_kernel
from tilewright.emulator.counting import COUNTED
from tilewright.emulator.engine import EmulatorEngine
from tilewright.emulator.program import worker_count
from tilewright.emulator.runtime_library import find_runtime
from tilewright.runtime import cache
from tilewright.runtime.host_compiler import Compiler, find_compiler

SOURCE = 'extern "C" __global__ void kernel(int* out) { __syncthreads(); out[threadIdx.x] = VALUE; }'


def run(value, **options):
    """Compile SOURCE, run it on 4 threads, and see whether it is right."""
    out = np.zeros(4, dtype=np.int32)
    launch(SOURCE, out, block=(4, 1, 1), defines={"VALUE": value}, **options)
    np.testing.assert_array_equal(out, value)


@pytest.fixture
def other_compiler(monkeypatch, tmp_path):
    """Another compiler in CXX, with options, which writes down its calls; returns them as a list of lines.

    The runtime is the usual one: to compile another takes ten seconds.
    """
    log, usual = tmp_path / "calls", find_runtime()
    for module in (compiler, program):
        monkeypatch.setattr(module, "find_runtime", lambda: usual)
    monkeypatch.setenv("COMPILER_LOG", str(log))
    commands = 'echo "$@" >> "$COMPILER_LOG"; exec g++ "$@" -O0'
    monkeypatch.setenv("CXX", f"sh -c {shlex.quote(commands)} sh -DSEVEN=7")
    return lambda: log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def fresh_cache(monkeypatch, tmp_path):
    """A cache folder that holds nothing but the runtime, if that is not an installed one."""
    folder, library = tmp_path / "cache", find_runtime().library.resolve()  # its path is that of an open folder
    folder.mkdir()
    if library.is_relative_to(cache.folder().resolve()):
        shelf = folder / library.parent.name
        shelf.mkdir()
        shutil.copy(library, shelf)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(folder))
    return folder


def test_a_compile_error_shows_the_compilers_words():
    source = 'extern "C" __global__ void kernel(int* out) {\n\n    out[0] = no_such_thing;\n}'
    with pytest.raises(CompileError, match=r"(?s)kernel.cu does not compile: .*kernel.cu:3.*no_such_thing"):
        launch(source, np.zeros(1))


def test_a_compile_error_in_a_file_names_the_file(tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text('extern "C" __global__ void kernel(int* out) { return 1; }')
    with pytest.raises(CompileError, match=r"(?s)broken.cu does not compile: .*broken.cu:1"):
        launch(path, np.zeros(1))


def test_a_source_without_the_entry():
    with pytest.raises(CompileError, match="other"):
        launch(SOURCE, np.zeros(1), entry="other", defines={"VALUE": 1})


def test_a_function_that_is_nowhere_defined():
    source = 'int nowhere(); extern "C" __global__ void kernel(int* out) { *out = nowhere(); }'
    with pytest.raises(CompileError, match="nowhere"):
        launch(source, np.zeros(1))


ZEROS_AND_A_COPY = """(
    [=] { struct { float of[999]; } a{}; a.of[int(out[0])] = 1; auto b = a; return b.of[int(out[0])]; }
)()"""


@pytest.mark.further
@pytest.mark.parametrize(("call", "links"), [("out[0]", 1), (ZEROS_AND_A_COPY, 1), ("expf(out[0])", 2)])
def test_kernels_that_call_no_library_are_linked_without_any(monkeypatch, fresh_cache, call, links):
    run, calls = Compiler.run, []
    monkeypatch.setattr(Compiler, "run", lambda self, arguments: (calls.append(arguments), run(self, arguments)))
    source = f"""extern "C" __global__ void kernel(float* out) {{
        __shared__ float one;
        one = {call};
        __syncthreads();
        out[threadIdx.x] = one;
    }}"""
    out = np.ones(1, dtype=np.float32)
    launch(source, out)
    np.testing.assert_allclose(out, np.exp(1) if "exp" in call else 1, rtol=1e-6)
    assert sum("-shared" in arguments for arguments in calls) <= links


def test_more_locals_than_a_fibers_stack_has_room_for():
    source = """
    extern "C" __global__ void kernel(int* out) {
        volatile int cells[10000];
        cells[out[0]] = 1;
        out[0] = cells[out[1]];
    }
    """
    with pytest.raises(CompileError, match=r"frame size .* (larger than|exceeds limit)"):
        launch(source, np.zeros(1))


def test_headers_next_to_a_source_are_found(tmp_path):
    (tmp_path / "value.cuh").write_text("#define VALUE 41\n")
    path = tmp_path / "source.cu"
    path.write_text(f'#include "value.cuh"\n{SOURCE}')
    out = np.zeros(1, dtype=np.int32)
    launch(path, out)
    assert out[0] == 41
    (tmp_path / "value.cuh").write_text("#define VALUE 42\n")
    launch(path, out)
    assert out[0] == 42


def test_cxx_names_the_compiler_and_its_code_is_compiled_once(other_compiler):
    value = secrets.randbelow(2**30)  # which is in no cache
    run(value)
    first = other_compiler()
    assert any("kernel.cu" in call for call in first)
    run(value)
    assert other_compiler() == first
    run(value + 1)
    assert len(other_compiler()) > len(first)


@pytest.mark.usefixtures("other_compiler")
def test_cxx_may_have_options():
    out = np.zeros(1, dtype=np.int32)
    launch(SOURCE, out, defines={"VALUE": "SEVEN"})
    assert out[0] == 7


@pytest.mark.first(1)
@pytest.mark.parametrize("options", [(), ("-DSIMT_PORTABLE_FIBERS",)], ids=["usual", "without assembly"])
def test_fibers_go_on_where_they_stopped(options, tmp_path):
    library = tmp_path / "fibers.so"
    source, include = Path(__file__).with_name("fibers.cpp"), compiler._RUNTIME
    find_compiler().run(
        ["-std=c++17", "-O1", "-fPIC", "-shared", *options, f"-I{include}", str(source), "-o", str(library)]
    )
    sums = np.zeros(9, dtype=np.int32)
    ctypes.CDLL(str(library)).run_fibers(sums.ctypes)
    np.testing.assert_array_equal(sums, np.arange(9) * (1 + sum(range(20))))


def test_the_compilers_version():
    assert find_compiler().version.split()[0] in ("GCC", "Clang", "Debian", "Ubuntu", "Apple")
    assert find_compiler().version.split()[-1][0].isdigit()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-compiler -O3", "CXX is 'no-such-compiler -O3', but there is no program 'no-such-compiler'"),
        ("g++ 'unclosed", 'CXX must be a command, got "g\\+\\+ \'unclosed"'),
        ("false", "the C\\+\\+ compiler 'false' does not work"),
    ],
)
def test_a_compiler_in_cxx_that_cannot_be_used(monkeypatch, command, message):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(EngineUnavailableError, match=message):
        EmulatorEngine()


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailableError) as caught:
        EmulatorEngine()
    for hint in ("apt install g++", "dnf install gcc-c++", "xcode-select --install", "CXX"):
        assert hint in str(caught.value)


def test_without_gxx_another_compiler_is_found(monkeypatch, tmp_path):
    compiler = tmp_path / "c++"
    compiler.write_text(f'#!/bin/sh\nexec {shutil.which("g++")} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler().command == ("c++",)


@pytest.fixture
def one_line_runtime(monkeypatch, tmp_path):
    """A runtime of one line in place of the emulator's, which takes seconds to compile; an empty cache."""
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "runtime.cpp").write_text("int one() { return 1; }\n")
    monkeypatch.setattr(prebuilt, "RUNTIME", tmp_path / "runtime")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("one_line_runtime")
def test_a_compiler_that_cannot_compile_the_runtime(monkeypatch, tmp_path):
    script = tmp_path / "my compiler"
    script.write_text('#!/bin/sh\ncase "$*" in *-E*) exec g++ "$@";; esac; echo no standard library >&2; exit 1\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", shlex.quote(str(script)))
    with pytest.raises(EngineUnavailableError, match=r"(?s)runtime does not compile: .*no standard library"):
        run(1)


def test_a_damaged_kernel_is_compiled_anew(fresh_cache):
    kernel = compile_kernel(SOURCE, "kernel", {"VALUE": 3})
    assert fresh_cache in kernel.resolve().parents
    whole = kernel.read_bytes()
    kernel.write_bytes(whole[: len(whole) // 2])
    run(3)
    assert kernel.read_bytes() == whole


def test_code_of_another_kind_in_the_cache_is_compiled_anew(fresh_cache, tmp_path):
    (tmp_path / "empty.cpp").touch()
    library = tmp_path / "empty.so"
    find_compiler().run(["-shared", str(tmp_path / "empty.cpp"), "-o", str(library)])
    elf = library.read_bytes()
    # No code, code of a machine that is none, and a library without the kernel.
    for value, content in enumerate((b"code", elf[:18] + b"\xff\xff" + elf[20:], elf), 40):
        kernel = compile_kernel(SOURCE, "kernel", {"VALUE": value})
        kernel.unlink()
        digest = hashlib.sha256(content).hexdigest()[:16]
        planted = kernel.with_name(f"{kernel.stem.rpartition('-')[0]}-{digest}.so")
        planted.write_bytes(content)
        run(value)
        assert kernel.exists() and not planted.exists()


@pytest.mark.further
@pytest.mark.parametrize("build", [FAST, CHECKED, COUNTED], ids=["fast", "checked", "counted"])
def test_what_all_kernels_begin_with_is_parsed_once(build, fresh_cache):
    if find_compiler().is_clang:
        pytest.skip("Clang is given the text")
    build = replace(build, gcc_only=(*build.gcc_only, "-Werror=invalid-pch"))  # said of one that it cannot use
    kernels = {compile_kernel(SOURCE, "kernel", {"VALUE": value}, build) for value in (13, 14)}
    assert len(kernels) == 2
    (parsed,) = fresh_cache.rglob("prelude-*")
    compiler._parsed.cache_clear()
    compile_kernel(SOURCE, "kernel", {"VALUE": 15}, build)
    assert list(fresh_cache.rglob("prelude-*")) == [parsed]


@pytest.mark.further
def test_a_parsed_beginning_that_is_gone_or_of_another_compiler_is_no_obstacle(fresh_cache):
    if find_compiler().is_clang:
        pytest.skip("Clang is given the text")
    run(16)
    (parsed,) = fresh_cache.rglob("prelude-*")
    parsed.write_bytes(b"gpch.of something else")
    run(17)
    parsed.unlink()
    run(18)


@pytest.mark.usefixtures("one_line_runtime")
def test_a_damaged_runtime_is_compiled_anew():
    library = find_runtime().library
    whole = library.read_bytes()
    library.write_bytes(whole[: len(whole) // 2])
    assert find_runtime().library.read_bytes() == whole


@pytest.mark.further
def test_another_cache_folder_in_the_same_process(fresh_cache, monkeypatch, tmp_path):
    """The process has the runtime loaded from one folder, and kernels from another must find that."""
    run(8)
    shutil.copytree(fresh_cache, tmp_path / "other")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "other"))
    run(8)


def test_two_processes_compile_the_same_kernel(fresh_cache):
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {folders!r}; import test_emulator_compiler as t; t.run(9)"
    processes = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(2)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    assert not list(fresh_cache.rglob("*.part"))


@pytest.mark.further
@pytest.mark.usefixtures("fresh_cache")
def test_two_threads_compile_the_same_kernel():
    failures = []

    def work():
        try:
            run(10)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_number_of_workers(monkeypatch):
    monkeypatch.delenv("TILEWRIGHT_EMULATOR_THREADS", raising=False)
    assert worker_count() >= 1
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_THREADS", "5")
    assert worker_count() == 5
    run(11)


@pytest.mark.parametrize("value", ["0", "-1", "many", ""])
def test_a_number_of_workers_that_is_none(monkeypatch, value):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_THREADS", value)
    with pytest.raises(EngineUnavailableError, match=f"EMULATOR_THREADS must be a positive integer, got '{value}'"):
        run(12)


@pytest.mark.further
def test_how_far_code_is_optimized(monkeypatch):
    found = set()
    for level in ("1", "2", "3", ""):
        monkeypatch.setenv("TILEWRIGHT_EMULATOR_OPTIMIZE", level)
        found.add(compile_kernel(SOURCE, "kernel", {"VALUE": 8}))
    assert len(found) == 3


@pytest.mark.parametrize("value", ["0", "4", "fast"])
def test_an_optimization_that_there_is_not(monkeypatch, value):
    monkeypatch.setenv("TILEWRIGHT_EMULATOR_OPTIMIZE", value)
    with pytest.raises(EngineUnavailableError, match=f"EMULATOR_OPTIMIZE must be 1, 2 or 3, got '{value}'"):
        compile_kernel(SOURCE, "kernel", {"VALUE": 8})
