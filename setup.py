"""Compiles the emulator's runtime, the launcher and the predictions where there is a C++ compiler."""

import os
import runpy
import shlex
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

PACKAGE = Path("src/tilewright")
DIGESTS, PREBUILT = PACKAGE / "runtime" / "digests.py", PACKAGE / "emulator" / "prebuilt.py"
OPTIONS_LIE_IN = ("setup.py", str(DIGESTS), str(PREBUILT))
"""Files whose changes make options others."""

RUNTIME = "tilewright.emulator._runtime"

digests, prebuilt = runpy.run_path(str(DIGESTS)), runpy.run_path(str(PREBUILT))


def module(name: str, source: str, *options: str) -> Extension:
    """A Python extension, which says what it was compiled from: see `runtime/extension.py`."""
    path, headers = PACKAGE / source, digests["HEADERS"]
    digest = digests["digest"]((path, *headers))
    return Extension(
        name,
        [path.as_posix()],
        depends=[*map(str, headers), *OPTIONS_LIE_IN],
        define_macros=[("SOURCE_DIGEST", f'"{digest}"')],
        extra_compile_args=["-std=c++17", "-fvisibility=hidden", "-g0", *options],
        optional=True,
    )


def runtime() -> Extension:
    """The emulator's runtime, a library that Python does not import: see `emulator/runtime_library.py`."""
    asked = [option for option in shlex.split(os.environ.get("CFLAGS", "")) if option.startswith("-O")]
    return Extension(
        RUNTIME,
        [],
        depends=[*map(str, sorted((PACKAGE / "emulator").glob("*/*.[ch]*"))), *OPTIONS_LIE_IN],
        extra_compile_args=[*prebuilt["PREBUILT_OPTIONS"], "-g0", *asked],  # the last -O counts
        extra_link_args=["-pthread", "-fno-lto", f"-Wl,-soname,{prebuilt['runtime_name'](digests['digest'])}"],
        language="c++",
        optional=True,
    )


class Build(build_ext):
    """Compiles at the same time, and the runtime's sources as one."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or True

    def build_extension(self, ext: Extension) -> None:
        if ext.name == RUNTIME:
            if not self.force and not newer_group(ext.depends, self.get_ext_fullpath(ext.name)):
                return  # the unit, which is written anew, would always be newer
            unit = Path(self.build_temp, "runtime.cpp")
            unit.parent.mkdir(parents=True, exist_ok=True)
            unit.write_text(prebuilt["unit"](prebuilt["runtime_sources"]()), encoding="utf-8")
            ext.sources = [str(unit)]
        super().build_extension(ext)


setup(
    ext_modules=[
        runtime(),  # first, since it takes longest
        module("tilewright.runtime._launcher", "runtime/launcher.cpp"),
    ],
    cmdclass={"build_ext": Build},
)
