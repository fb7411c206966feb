"""Building the launcher."""

import importlib
import re
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilewright.runtime import digests, extension, launcher
from tilewright.runtime.host_compiler import find_compiler
from tilewright.runtime.plan import COOPERATIVE, OVERLAPS


@pytest.fixture
def not_loaded():
    launcher.load.cache_clear()
    yield
    launcher.load.cache_clear()


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def not_built(monkeypatch):
    monkeypatch.setattr(launcher, "_MODULE", "tilewright.runtime._no_such_launcher")


@pytest.mark.usefixtures("not_loaded", "empty_cache", "not_built")
def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert launcher.load() is None


@pytest.mark.usefixtures("not_loaded", "empty_cache", "not_built")
def test_no_headers(monkeypatch, tmp_path):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert launcher.load() is None


@pytest.mark.usefixtures("not_loaded", "empty_cache", "not_built")
def test_a_compiler_that_cannot_compile_it(monkeypatch, tmp_path):
    script = tmp_path / "compiler"
    script.write_text('#!/bin/sh\ncase "$*" in *-E*) exec g++ "$@";; esac; exit 1\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert launcher.load() is None


@pytest.mark.further
@pytest.mark.usefixtures("not_loaded", "empty_cache")
def test_it_is_built_once(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace(SOURCE="of another version"))
    monkeypatch.setattr(extension, "_OPTIONS", (*extension._OPTIONS, "-O0"))  # compiles in half of the time
    assert launcher.load().Launcher
    (built,) = (tmp_path / "cache").rglob("launcher-*.so")
    written = built.stat().st_mtime_ns
    launcher.load.cache_clear()
    assert launcher.load().MISS
    assert built.stat().st_mtime_ns == written


@pytest.mark.usefixtures("not_loaded")
def test_one_that_was_installed_is_taken(monkeypatch):
    installed = SimpleNamespace(SOURCE=launcher.load().SOURCE)
    launcher.load.cache_clear()
    monkeypatch.setattr(importlib, "import_module", lambda name: installed)
    assert launcher.load() is installed


def test_another_header_makes_another_build(tmp_path, monkeypatch):
    """Each of those that are included."""
    headers, before = digests.HEADERS, extension.digest(launcher._SOURCE)
    texts = [path.read_text() for path in (launcher._SOURCE, *headers)]
    included = {name for text in texts for name in re.findall('#include "(.*)"', text)}
    assert included == {path.name for path in headers}
    for header in headers:
        changed = tmp_path / header.name
        changed.write_text(header.read_text() + "// changed\n")
        monkeypatch.setattr(digests, "HEADERS", tuple(changed if one == header else one for one in headers))
        assert extension.digest(launcher._SOURCE) != before


@pytest.mark.further
def test_it_compiles_without_warnings(tmp_path):
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-fsyntax-only"]
    include = sysconfig.get_path("include")
    find_compiler().run([*options, '-DSOURCE_DIGEST=""', f"-I{include}", str(launcher._SOURCE)])


@pytest.mark.further
def test_structures_are_the_drivers(tmp_path):
    """The launcher declares what it uses of cuda.h; where that is installed, both must be the same."""
    headers = pytest.importorskip("cuda.pathfinder").find_nvidia_header_directory("cudart")
    if headers is None or not (Path(headers) / "cuda.h").is_file():
        pytest.skip("cuda.h is not installed")
    check = tmp_path / "check.cpp"
    check.write_text(
        f"""
        #define SOURCE_DIGEST ""
        #include "{launcher._SOURCE}"
        #include <cuda.h>
        #include <cstddef>
        static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
        static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
        static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
        static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
        static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
        static_assert({OVERLAPS} == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
        static_assert({COOPERATIVE} == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
        static_assert(NOT_CAPTURING == CU_STREAM_CAPTURE_STATUS_NONE);
        static_assert(PLAIN == CU_TENSOR_MAP_INTERLEAVE_NONE && PLAIN == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        static_assert(sizeof(TensorMap) == sizeof(CUtensorMap) && alignof(TensorMap) >= alignof(CUtensorMap));
        """
    )
    include = sysconfig.get_path("include")
    find_compiler().run(["-std=c++17", "-fsyntax-only", f"-I{include}", f"-I{headers}", str(check)])
