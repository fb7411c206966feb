"""C++ modules for Python: built at first use with this machine's compiler, and cached."""

import contextlib
import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from tilewright.core.errors import CompileError, EngineUnavailableError, MemoryFullError
from tilewright.runtime import cache, digests
from tilewright.runtime.host_compiler import SUFFIX, find_compiler, scratch

NOT_BUILT = (CompileError, EngineUnavailableError, ImportError, MemoryFullError, OSError)
"""Errors of a module that cannot be built or loaded here."""

_OPTIONS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")


def loaded(module: str, source: Path, options: Sequence[str] = ()) -> Any:
    """A module, as it was installed or built at first use; None where it is not, and cannot be: no C++ compiler, or no
    headers of Python.

    Args:
        module: its name, of which the source defines SOURCE as the macro SOURCE_DIGEST: what it was compiled from.
        source, options: see `built`.
    """
    own = digest(source)
    with contextlib.suppress(ImportError):
        installed = importlib.import_module(module)
        if own == installed.SOURCE:  # it may be an older one, where the package is installed to be edited
            return installed
    try:
        return built(module, source, [f'-DSOURCE_DIGEST="{own}"', *options])
    except NOT_BUILT:
        return None


def digest(source: Path) -> str:
    """Digest of the files that a module is made of, as setup.py has it."""
    return digests.digest((source, *digests.HEADERS))


def built(module: str, source: Path, options: Sequence[str] = (), versions: Sequence[str] = ()) -> Any:
    """A module, compiled once for each version of Python. What the cache has of it and does not load is removed, and
    compiled anew.

    Args:
        module: its name.
        source: its one source, which may include the headers in this folder.
        options: for the compiler, besides the usual ones.
        versions: of other things that it is compiled against.

    Raises:
        CompileError: it does not compile.
        EngineUnavailableError: there is no working C++ compiler.
        ImportError: it does not load.
        OSError: Python's headers are missing.
    """
    return cache.loaded(lambda: _compiled(source, options, versions), lambda path: _imported(module, path), ImportError)


def _compiled(source: Path, options: Sequence[str], versions: Sequence[str]) -> Path:
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        raise FileNotFoundError(f"there is no Python.h in {headers}")
    compiler = find_compiler()
    version = (sys.version, EXTENSION_SUFFIXES[0], *versions)
    name = f"{source.stem}-" + cache.key(compiler.key, _OPTIONS, version, digest(source))
    found = cache.find(name, SUFFIX)
    if found is None:
        with scratch() as output:
            compiler.run([*_OPTIONS, *options, f"-I{headers}", str(source), "-o", str(output)])
            found = cache.store(name, SUFFIX, output.read_bytes())
    return found


def _imported(module: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(module, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no extension module")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
