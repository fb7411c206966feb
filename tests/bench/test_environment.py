"""What a record says of where it was made."""

import datetime
import getpass
import json
import platform
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilewright import version
from tilewright.bench import environment as module
from tilewright.bench.environment import environment

EMULATOR = SimpleNamespace(name="emulator", device_name="a CPU", capability=None, cache_bytes=0)


def test_versions_and_machine():
    facts = environment(EMULATOR)
    assert json.loads(json.dumps(facts)) == facts
    assert facts["tilewright"] == version.__version__
    assert facts["engine"] == "emulator"
    assert facts["python"] == platform.python_version()
    assert {"numpy", "cuda-core", "nvidia-cuda-nvrtc"} <= facts["libraries"].keys()
    assert facts["cpu"]["cores"] >= 1
    assert "gpu" not in facts
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(facts["date"])
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1)


def test_nothing_personal():
    text = json.dumps(environment(EMULATOR))
    words = set(re.findall(r"[\w.-]+", text))
    assert not words & {platform.node(), getpass.getuser()}
    assert str(Path.home()) not in text
    assert str(Path(version.__file__).parent) not in text


def test_the_revision_can_be_named(monkeypatch):
    monkeypatch.setenv(module.REVISION_VARIABLE, "v1.2-3-gabc-dirty")
    assert environment(EMULATOR)["revision"] == "v1.2-3-gabc-dirty"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder that stands in for the package's."""
    monkeypatch.delenv(module.REVISION_VARIABLE, raising=False)
    (tmp_path / "version.py").write_text("")
    monkeypatch.setattr(version, "__file__", str(tmp_path / "version.py"))
    return tmp_path


def git(folder, *words):
    identity = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.com")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_the_revision_is_the_checkouts(package):
    assert "revision" not in environment(EMULATOR)
    git(package, "init")
    (package / "other.py").write_text("")
    git(package, "add", "other.py")
    git(package, "commit", "-m", "one")
    assert "revision" not in environment(EMULATOR), "somebody else's checkout: the package is not in it"
    git(package, "add", "version.py")
    git(package, "commit", "-m", "two")
    clean = environment(EMULATOR)["revision"]
    assert len(clean) >= 7
    (package / "version.py").write_text("changed")
    assert environment(EMULATOR)["revision"] == f"{clean}-dirty"


def test_a_machine_that_tells_nothing(monkeypatch, package):
    """No git, no compiler, no /proc, no packages: the facts are left out, and nothing fails."""
    monkeypatch.setenv("PATH", str(package))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(module, "_LIBRARIES", ("no-such-package",))
    facts = environment(EMULATOR)
    assert "revision" not in facts
    assert "compiler" not in facts
    assert facts["libraries"] == {}
