"""A wheel of machine code for one architecture, which `runtime/precompiled.py` reads.

Made of the same sources by the same compiler it is the same file, byte by byte.
"""

import base64
import csv
import hashlib
import io
import json
import lzma
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from tilewright.core import gpus
from tilewright.core.files import FileKind, Output, check_outputs, save
from tilewright.runtime import nvrtc, precompiled
from tilewright.runtime.relayouts import Job
from tilewright.select.tables import store
from tilewright.version import __version__

_BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The time that all files of a wheel have, the first that a zip archive can say."""


def wheel_in(folder: Path, arch: str) -> Path:
    """The wheel of an architecture in a folder.

    Raises:
        PathError: it cannot be written, or something else has its name.
    """
    path = folder / f"{precompiled.package_of(arch)}-{__version__}-py3-none-any.whl"
    check_outputs([Output("--wheel", path, FileKind("a wheel", lambda content: content.startswith(b"PK")))])
    return path


def write(path: Path, needed: Sequence[Job], capability: tuple[int, int]) -> int:
    """Pack code that is in the cache into a wheel, and return how many bytes it has; what is missing there is compiled.

    Raises:
        WriteError: the file cannot be written.
        CompileError: the compiler refuses a kernel.
    """
    arch = gpus.limits(capability).arch
    package, by_kernel = precompiled.package_of(arch), defaultdict(list)
    for job in needed:
        by_kernel[job.kernel.name].append(job)
    files = {f"{package}/__init__.py": f'"""Machine code of tilewright {__version__} for {arch}."""\n'.encode()}
    for name, jobs in sorted(by_kernel.items()):
        index, blocks = _packed(jobs, arch)
        files[f"{package}/{name}.json"] = json.dumps(index, sort_keys=True).encode()
        files[f"{package}/{name}.xz"] = blocks
    content = _wheel(package, files, _description(by_kernel, capability, arch))
    save(path, content, f"the wheel to {path}")
    return len(content)


def _packed(jobs: Sequence[Job], arch: str) -> tuple[dict[str, precompiled.Packed], bytes]:
    """Index and blocks of a kernel's codes: those of a config and a type, which are much alike, share a block."""
    index, blocks = {}, bytearray()
    ordered = sorted(jobs, key=lambda job: (_block_of(job), str(job.variant)))
    for _, members in groupby(ordered, _block_of):
        codes, found = bytearray(), {}
        for kernel, config, variant in ((job.kernel, job.config, job.variant) for job in members):
            cubin = nvrtc.compile(kernel, config, variant, arch, lineinfo=False)
            found[precompiled.key(kernel, config, variant, arch)] = cubin, len(codes)
            codes += cubin.code
        block = lzma.compress(codes, lzma.FORMAT_XZ, preset=9)
        for key, (cubin, begin) in found.items():
            report = cubin.report.registers, cubin.report.spill_bytes, cubin.report.shared_bytes
            end = begin + len(cubin.code)
            index[key] = precompiled.Packed(len(blocks), len(block), begin, end, cubin.entry, *report)
        blocks += block
    return index, bytes(blocks)


def _block_of(job: Job) -> tuple[str, str]:
    return str(job.config), job.variant.factors


def _description(by_kernel: Mapping[str, Sequence[Job]], capability: tuple[int, int], arch: str) -> str:
    """Content of a wheel for its readers, as a table of Markdown."""
    timed = [table.gpu for table in store.shipped() if table.capability == capability]
    lines = [
        f"Machine code of tilewright {__version__} for {arch}, which it loads in place of compiling. "
        + (f"Timed on: {', '.join(timed)}." if timed else "No GPU of this architecture has timed it."),
        "",
        "| kernel | configs | types | orders of A and B | epilogues | codes |",
        "| --- | ---: | --- | --- | --- | ---: |",
    ]
    for name, jobs in sorted(by_kernel.items()):
        variants = [job.variant for job in jobs]
        types, orders = _distinct(of.factors for of in variants), _distinct(of.layout for of in variants)
        epilogues = _distinct(str(of.epilogue) or "none" for of in variants)
        lines.append(
            f"| {name} | {len({job.config for job in jobs})} | {types} | {orders} | {epilogues} | {len(jobs)} |"
        )
    return "\n".join([*lines, "", "Whatever else a product needs is compiled at its first use.", ""])


def _distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(sorted(words)))


def _wheel(package: str, files: Mapping[str, bytes], description: str) -> bytes:
    """A wheel, by PyPA's binary distribution format, with these files."""
    metadata = {
        "Metadata-Version": "2.1",
        "Name": package.replace("_", "-"),
        "Version": __version__,
        "Summary": description.partition("\n")[0],
        "Requires-Dist": f"tilewright=={__version__}",
        "Description-Content-Type": "text/markdown",
    }
    wheel = {"Wheel-Version": "1.0", "Generator": "tilewright", "Root-Is-Purelib": "true", "Tag": "py3-none-any"}
    info = f"{package}-{__version__}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"{_headers(metadata)}\n{description}".encode(),
        f"{info}/WHEEL": _headers(wheel).encode(),
    }
    record, rows = io.StringIO(), [(name, _digest(data), len(data)) for name, data in files.items()]
    csv.writer(record, lineterminator="\n").writerows([*rows, (f"{info}/RECORD", "", "")])
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        for name, data in {**files, f"{info}/RECORD": record.getvalue().encode()}.items():
            entry = zipfile.ZipInfo(name, _BEGINNING)
            entry.external_attr = 0o644 << 16
            made.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def _headers(fields: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
