"""The cache on disk: what killed processes leave behind is removed, and only what is this user's alone is loaded."""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tilewright.core.errors import CompileError, ConfigError
from tilewright.runtime import cache
from tilewright.runtime.host_compiler import find_compiler

KILLED = """
import os, signal
from tilewright.runtime import cache
with cache.scratch() as folder:
    (folder / "output").write_text("half")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """An empty cache folder, in a temporary folder of its own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    cache._sweep.cache_clear()
    cache._planted.clear()
    monkeypatch.setenv("_TILEWRIGHT_SPARE_CACHE", "")
    yield tmp_path
    cache._sweep.cache_clear()
    monkeypatch.undo()
    tempfile.tempdir = None


def age(path, hours):
    then = time.time() - 3600 * hours
    os.utime(path, (then, then))


@pytest.mark.parametrize(("hours", "remain"), [(1, True), (25, False)])
def test_what_a_killed_process_left_is_removed_after_a_day(temporary, hours, remain):
    killed = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, check=False)
    left = temporary / killed.stdout.strip()
    assert killed.returncode < 0
    assert left.is_dir() and left.parent == temporary
    half = temporary / "cache" / "ab" / ".entry.part"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    others = temporary / "tilewright-other"
    others.mkdir()
    for path in (left, half, others):
        age(path, hours)
    entry = cache.store("kernel-ab", ".so", b"code")
    assert (left.exists(), half.exists(), others.exists()) == (remain, remain, True)
    assert cache.find("kernel-ab", ".so") == entry


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
ANOTHER = 12345
"""Number of a user who is neither root nor the one who runs the tests."""


def planted(temporary, name="kernel-ab"):
    """An entry, and its file in the cache folder."""
    return cache.store(name, ".so", b"code").resolve()


def test_folders_are_made_for_this_user_alone(temporary):
    file = planted(temporary)
    assert [oct(folder.stat().st_mode & 0o777) for folder in file.parents[:2]] == ["0o700", "0o700"]


@AS_ROOT
@pytest.mark.parametrize("of", ["entry", "folder of the entry", "cache folder"])
def test_what_another_user_could_have_written_is_compiled_anew(temporary, of):
    file = planted(temporary)
    os.chown({"entry": file, "folder of the entry": file.parent, "cache folder": file.parents[1]}[of], ANOTHER, -1)
    with pytest.warns(RuntimeWarning, match=rf"it belongs to user .*{ANOTHER}") as said:
        assert cache.find("kernel-ab", ".so") is None
        anew = cache.store("kernel-ab", ".so", b"new code")
        assert cache.find("kernel-ab", ".so") == anew
        cache.store("kernel-ba", ".so", b"other code")
    assert len(said) == 1, "it is said once"
    assert anew.read_bytes() == b"new code"


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_to_is_said_with_what_helps(temporary, mode):
    file = planted(temporary)
    file.parents[1].chmod(mode)
    with pytest.warns(RuntimeWarning, match=rf"mode 0{mode:o}\); chmod -R go-w .*yours alone"):
        assert cache.find("kernel-ab", ".so") is None
    file.parents[1].chmod(0o755)
    assert cache.find("kernel-ab", ".so").resolve() == file


def test_a_file_that_others_may_write_to_and_a_link_are_removed(temporary):
    for name, plant in {"kernel-ab": lambda file: file.chmod(0o666), "kernel-cd": lambda file: link(file)}.items():
        file = planted(temporary, name)
        plant(file)
        cache._planted.clear()
        with pytest.warns(RuntimeWarning, match="is not loaded but compiled anew"):
            assert cache.find(name, ".so") is None
        assert not os.path.lexists(file)


def link(file):
    """Have a link lead to a file, in its place."""
    file.rename(file.with_name("elsewhere"))
    file.symlink_to(file.with_name("elsewhere"))


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1777])
def test_a_link_to_the_cache_counts_where_others_could_not_have_made_it(temporary, monkeypatch, mode):
    file = planted(temporary)
    above = temporary / "above"
    above.mkdir()
    above.chmod(mode)
    (above / "link").symlink_to(temporary / "cache")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(above / "link"))
    if mode == 0o777:
        with pytest.warns(RuntimeWarning, match=r"the link .*link may be another user's"):
            assert cache.find("kernel-ab", ".so") is None
    else:
        assert cache.find("kernel-ab", ".so").resolve() == file


@pytest.mark.skipif(sys.platform != "linux", reason="open folders have no paths")
def test_a_folder_in_the_place_of_the_cache_is_not_loaded_from(temporary):
    found = planted(temporary) and cache.find("kernel-ab", ".so")
    (temporary / "cache").rename(temporary / "away")
    other = temporary / "cache" / found.parent.name
    other.mkdir(parents=True)
    (other / found.name).write_bytes(b"another's")
    assert found.read_bytes() == b"code"


def test_damaged_entries_go_and_of_doubles_the_oldest_stays(temporary):
    file = planted(temporary)
    double, damaged = (file.parent / f"kernel-ab-{name}.so" for name in (DIGEST_OF_OTHER, "0123456789abcdef"))
    double.write_bytes(b"other")
    damaged.write_bytes(b"half")
    for path, hours in ((file, 2), (double, 1)):
        age(path, hours)
    assert cache.find("kernel-ab", ".so").resolve() == file
    assert list(file.parent.iterdir()) == [file]


DIGEST_OF_OTHER = hashlib.sha256(b"other").hexdigest()[:16]


def test_two_that_compile_the_same_get_one_file(temporary):
    assert cache.store("kernel-ab", ".so", b"one") == cache.store("kernel-ab", ".so", b"another")


def test_compilers_write_their_own_files_to_a_folder_that_is_removed(temporary, monkeypatch):
    monkeypatch.setenv(
        "CXX", "sh -c 'case $* in *-dM*) exec g++ \"$@\";; esac; touch $TMPDIR/cc.s; echo $TMPDIR >&2; exit 1' sh"
    )
    with pytest.raises(CompileError) as error:
        find_compiler().run([])
    folder = Path(str(error.value).splitlines()[-1])
    assert folder.parent == temporary and folder.name.startswith("tilewright-build-") and not folder.exists()


def used(entry, days):
    """Have an entry be used last so long ago."""
    then = time.time() - days * 24 * 3600
    os.utime(entry, (then, then))


@pytest.fixture
def bounded(temporary, monkeypatch):
    """A cache of at most 32 KB."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_GB", "32e-6")
    monkeypatch.setattr(cache, "_unseen", {})
    return temporary


def test_where_the_cache_is_larger_than_its_bound_what_was_used_least_recently_goes(bounded):
    entries = [cache.store(f"{number:032}", ".cubin", bytes([number]) * 8000) for number in range(4)]
    for entry, days in zip(entries, (3, 4, 1, 2), strict=True):
        used(entry, days)
    assert cache.find(f"{1:032}", ".cubin") is not None  # now it was used last
    newest = cache.store(f"{4:032}", ".cubin", b"4" * 8000)
    left = [entry.exists() for entry in (*entries, newest)]
    assert left == [False, True, True, False, True]


def test_what_was_just_written_or_found_stays_whatever_the_bound(bounded):
    entries = [cache.store(f"{number:032}", ".cubin", bytes([number]) * 20000) for number in range(4)]
    assert all(entry.exists() for entry in entries)


@pytest.mark.parametrize("bound", ["many", "-1", "0"])
def test_a_bound_that_is_no_number_is_said_before_anything_is_written(temporary, monkeypatch, bound):
    monkeypatch.setenv("TILEWRIGHT_CACHE_GB", bound)
    with pytest.raises(ConfigError, match=f"must be a number of gigabytes above 0, or inf, got '{bound}'"):
        cache.store("0" * 32, ".cubin", b"code")
    assert not (temporary / "cache").exists()


def test_clear_removes_entries_and_nothing_else(temporary):
    entry = cache.store("0" * 32, ".cubin", b"code")
    other = entry.parent / "mine.txt"
    other.write_text("kept")
    assert cache.clear() == (1, 4)
    assert not entry.exists()
    assert other.read_text() == "kept"
    assert cache.clear() == (0, 0)
