"""Builds the launcher into the package where there is a C++ compiler; where there is none, it is left out."""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

SOURCE, HEADER = (Path("src/tilewright/engines", name) for name in ("launcher.cpp", "steps.h"))
digest = hashlib.sha256(SOURCE.read_bytes() + HEADER.read_bytes()).hexdigest()

setup(
    ext_modules=[
        Extension(
            "tilewright.engines._launcher",
            [SOURCE.as_posix()],
            depends=[HEADER.as_posix()],
            define_macros=[("LAUNCHER_SOURCE", f'"{digest}"')],
            extra_compile_args=["-std=c++17", "-fvisibility=hidden", "-g0"],
            optional=True,
        )
    ]
)
