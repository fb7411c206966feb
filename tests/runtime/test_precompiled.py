"""Machine code from an installed wheel: what is taken from it, and what is compiled all the same."""

import importlib
import sys
import zipfile
from dataclasses import replace

import pytest

from tilewright.core.problem import Problem, orders
from tilewright.kernels import find
from tilewright.kernels.support import Addresses
from tilewright.runtime import nvrtc, precompiled
from tilewright.runtime.relayouts import jobs
from tilewright.tools.tune import warming, wheel

ARCH = "sm_89"
CAPABILITIES = {"sm_89": (8, 9), "sm_86": (8, 6), "sm_87": (8, 7)}
KERNEL = find("coalesced")


def job(edges=False, **overrides):
    """A launch of rung 2 whose tiles reach past the end of D, or do not."""
    a, b = orders("NN")
    problem = Problem(*(3 * [100 if edges else 128]), KERNEL.support.arithmetic(), a=a, b=b)
    return jobs(KERNEL, KERNEL.config(overrides), problem, Addresses()).jobs[0]


def code_of(job, arch=ARCH):
    return job.kernel, job.config, job.variant, arch


def installed_for(arch, site):
    """Install a wheel with code of two variants of rung 2; returns the folder of its package."""
    path = wheel.wheel_in(site, arch)
    assert wheel.write(path, [job(), job(edges=True)], CAPABILITIES[arch]) == path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    importlib.invalidate_caches()
    return site / f"tilewright_{arch}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def installed(site):
    return installed_for(ARCH, site)


def test_the_code_is_the_compilers_and_so_is_its_report(installed):
    for one in (job(), job(edges=True)):
        found, made = precompiled.find(*code_of(one)), nvrtc.compile(*code_of(one), lineinfo=False)
        assert found == made
        assert found.report.registers > 0


def test_what_is_not_in_it_or_of_another_source_is_not_found(installed, tmp_path):
    assert precompiled.has(*code_of(job()))
    assert not precompiled.has(*code_of(job(BLOCK=8)))
    assert not precompiled.has(*code_of(job()._replace(kernel=find("naive"), config=find("naive").config())))
    changed = tmp_path / KERNEL.source.name
    changed.write_text(KERNEL.source.read_text() + "\n// changed\n")
    assert not precompiled.has(*code_of(job()._replace(kernel=replace(KERNEL, source=changed))))
    assert precompiled.find(KERNEL, KERNEL.config(), job().variant, "sm_80") is None


def test_what_it_has_is_not_compiled_ahead(installed, monkeypatch):
    compiled = []
    monkeypatch.setattr(nvrtc, "compile", lambda *code, lineinfo: compiled.append(code))
    other = job(BLOCK=8)
    assert list(warming.warmed([job(), other], CAPABILITIES[ARCH])) == [1, 2]
    assert compiled == [code_of(other)]


@pytest.mark.parametrize(("arch", "damaged", "there"), [("sm_86", "xz", True), ("sm_87", "json", False)])
def test_a_damaged_file_has_no_code(site, arch, damaged, there):
    file = installed_for(arch, site) / f"{KERNEL.name}.{damaged}"
    file.write_bytes(file.read_bytes()[:-40])
    assert precompiled.has(*code_of(job(), arch)) is there
    assert precompiled.find(*code_of(job(), arch)) is None


def test_a_wheel_is_the_same_file_each_time_and_names_its_content(installed, tmp_path):
    path = wheel.wheel_in(tmp_path, ARCH)
    wheel.write(path, [job(edges=True), job()], CAPABILITIES[ARCH])
    assert path.read_bytes() == (installed.parent / path.name).read_bytes()
    with zipfile.ZipFile(path) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("METADATA"))
        text = archive.read(metadata).decode()
    assert "No GPU of this architecture has timed it." in text
    assert "| coalesced | 1 | float32 | NN | none | 2 |" in text
