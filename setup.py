"""Builds the launcher into the package where there is a C++ compiler; where there is none, it is left out."""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("src/tilewright/engines/launcher.cpp")
HEADERS = sorted(SOURCE.parent.glob("*.h"))  # as extension.py has them
digest = hashlib.sha256(b"".join(path.read_bytes() for path in (SOURCE, *HEADERS))).hexdigest()

setup(
    ext_modules=[
        Extension(
            "tilewright.engines._launcher",
            [SOURCE.as_posix()],
            depends=[path.as_posix() for path in HEADERS],
            define_macros=[("LAUNCHER_SOURCE", f'"{digest}"')],
            extra_compile_args=["-std=c++17", "-fvisibility=hidden", "-g0"],
            optional=True,
        )
    ]
)
