"""Faults that are planted to see what the tests guard (`python -m tests.mutation --host`), and what plants them."""

import ast
import json
import subprocess
from pathlib import Path

import pytest

from mutation import host
from mutation.drawing import draw, sites_of
from mutation.faults import AREAS, DRAWN, DRAWN_PATH, Fault
from mutation.guarding import SelectionError
from mutation.planting import PlantingError, Sources

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def sources():
    return Sources(CHECKOUT)


def test_every_fault_is_of_a_text_that_is_there_once(sources):
    faults = [fault for some in AREAS.values() for fault in some]
    for fault in faults:
        path, planted = sources.file_of(fault), sources.planted(fault)
        assert fault.text != fault.instead
        if path.suffix == ".py":
            ast.parse(planted, path)  # what does not compile is no bug that a user meets
    assert {area: len(some) for area, some in AREAS.items() if area != DRAWN} == dict.fromkeys(list(AREAS)[:-1], 10)
    assert len(AREAS[DRAWN]) == 20
    assert len({fault.name for fault in faults}) == len(faults)
    assert all(fault.meets for area, some in AREAS.items() if area != DRAWN for fault in some)


def test_a_text_that_is_there_twice_or_not_at_all_is_no_fault(sources):
    for text, count in (("import numpy as np\n", "[1-9][0-9]+"), ("no such text in there", "0")):
        with pytest.raises(PlantingError, match=f"'one': its text must be in the sources once, and is {count} times"):
            sources.file_of(Fault("one", text, "", ""))


def test_operators_of_host_code_change_one_place():
    text = """def kept_key(a, b, c):
    if a < b:
        return find(a, b, c=c)
    try:
        return a, b
    finally:
        a.close()
    found = {}
    found.setdefault((a, b), []).append(c)
    return a, c
"""
    changed = {}
    for site in sites_of(text):
        whole = text[: site.begin] + site.instead + text[site.end :]
        ast.parse(whole)
        changed.setdefault(site.operator, []).extend(
            line.strip() for line, before in zip(whole.split("\n"), text.split("\n"), strict=True) if line != before
        )
    assert changed == {
        "comparison": ["if a <= b:"],
        "branch": ["if False:"],
        "argument": ["return find(a, b)", "return find(b, a, c=c)"],
        "key": ["return a", "found.setdefault((a), []).append(c)"],
        "cleanup": ["pass", "pass"],  # what is in `finally`, and what closes
    }


def test_what_has_no_effect_is_drawn_again_next_to_another(tmp_path):
    sources = "\n".join(f"def f{i}(x):\n    return {i} if x < {i} else 0\n" for i in range(9))
    package = tmp_path / "src" / "tilewright"
    package.mkdir(parents=True)
    (package / "some.py").write_text(sources)
    path = tmp_path / "drawn.json"
    draw(tmp_path, 7, path)
    first = json.loads(path.read_text())
    assert [one["name"] for one in first["faults"]] == [
        f"{of} {i}" for of in ("comparison", "branch") for i in range(1, 5)
    ]
    first["faults"][1]["no_effect"] = "a reason"
    path.write_text(json.dumps(first))
    draw(tmp_path, 7, path)
    again = json.loads(path.read_text())
    assert [one["name"] for one in again["faults"]][:5] == [f"comparison {i}" for i in range(1, 6)]
    assert again["faults"][:4] == first["faults"][:4]
    draw(tmp_path, 8, path)
    assert json.loads(path.read_text()) != again


def test_the_drawn_faults_say_their_seed():
    assert isinstance(json.loads(DRAWN_PATH.read_text())["seed"], int)


@pytest.fixture
def small(tmp_path):
    """A checkout with one function and one test of it."""
    checkout = tmp_path / "checkout"
    (checkout / "src" / "tilewright").mkdir(parents=True)
    (checkout / "src" / "tilewright" / "__init__.py").write_text("def sign(x):\n    return -1 if x < 0 else 1\n")
    (checkout / "tests").mkdir()
    (checkout / "tests" / "test_it.py").write_text(
        "import pytest\n\nfrom tilewright import sign\n\n"
        "@pytest.mark.parametrize('x', [3], ids=['3 - 0'])\ndef test_sign(x):\n    assert sign(x) == 1\n\n"
        "def test_wrong():\n    assert sign(-1) == 1\n"
    )
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    return checkout


SIGN = Fault("no minus", "return -1 if x < 0 else 1", "return -1", "")


@pytest.mark.further
def test_the_test_that_finds_a_fault_is_recorded_and_the_checkout_stays(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    before = {path: path.read_bytes() for path in small.rglob("*") if path.is_file()}
    record, path = {}, tmp_path / "found.json"
    unseen = SIGN._replace(name="other minus", instead="return -2 if x < 0 else 1")
    host.run([SIGN, unseen], "-k 'not wrong'", "0", 60, record, path, small)
    found = host.read(path)["-k 'not wrong'"]
    assert {name: one["found_by"] for name, one in found.items()} == {
        "no minus": "tests/test_it.py::test_sign[3 - 0]",
        "other minus": None,
    }
    assert {path: path.read_bytes() for path in small.rglob("*") if path.is_file()} == before
    assert "2/2 other minus: not found in" in capsys.readouterr().out
    assert not list(tmp_path.glob("tilewright-faults-*"))


@pytest.mark.further
def test_tests_that_fail_without_the_fault_find_nothing(small, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(SelectionError, match="test_wrong fails without 'no minus' too"):
        host.run([SIGN], "-k wrong", "0", 60, {}, tmp_path / "found.json", small)


def test_a_part_of_a_name_chooses_faults(capsys):
    host.main(["--list", "--only", "relu"])
    assert capsys.readouterr().out == "NumPy's path         relu drops NaN: NaN becomes 0 where PyTorch keeps it\n"
