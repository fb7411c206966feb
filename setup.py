"""Builds the launcher and the predictions into the package where there is a C++ compiler; else they are left out."""

import hashlib
from pathlib import Path

from setuptools import Extension, setup

HEADERS = sorted(Path("src/tilewright/engines").glob("*.h"))  # as extension.py has them


def extension(module: str, source: str, *options: str) -> Extension:
    """A module, which says what it was compiled from: see `engines/extension.py`."""
    path = Path("src/tilewright", source)
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in (path, *HEADERS))).hexdigest()
    return Extension(
        module,
        [path.as_posix()],
        depends=[file.as_posix() for file in HEADERS],
        define_macros=[("SOURCE_DIGEST", f'"{digest}"')],
        extra_compile_args=["-std=c++17", "-fvisibility=hidden", "-g0", *options],
        optional=True,
    )


setup(
    ext_modules=[
        extension("tilewright.engines._launcher", "engines/launcher.cpp"),
        extension("tilewright.analysis._predicting", "analysis/predicting.cpp", "-ffp-contract=off"),
    ]
)
