"""Old words: parameters, kernels, options and fields of records that have another name now."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.core.errors import ConfigError
from tilewright.core.old_words import OLD_WORDS, keys_today, today
from tilewright.kernels import KERNELS, find, recorded
from tilewright.tools.bench.records import Timed, Times
from tilewright.tools.cli import main

PARAMETERS = {old: new for old, new in OLD_WORDS.items() if old.isupper()}
OLD_KERNELS = [old for old in OLD_WORDS if old.startswith("thin_")]


def test_an_old_word_is_understood_with_a_warning_that_names_the_new_one():
    with pytest.warns(DeprecationWarning, match="BAND is called GROUP_M now: .* until 0.3") as seen:
        assert today("BAND", {"GROUP_M"}) == "GROUP_M"
    assert len(seen) == 1 and Path(seen[0].filename) == Path(__file__)


@pytest.mark.parametrize(
    ("word", "known"), [("BM", {"BM"}), ("BAND", {"BAND", "GROUP_M"}), ("BAND", {"BM"}), ("band", {"GROUP_M"})]
)
def test_other_words_are_as_they_are(word, known):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert today(word, known) == word


def test_keys_of_a_mapping():
    with pytest.warns(DeprecationWarning):
        assert keys_today({"BAND": 4, "BM": 64}, {"GROUP_M", "BM"}) == {"GROUP_M": 4, "BM": 64}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_every_kernel_takes_its_parameters_by_their_old_names(kernel):
    names = [one.name for one in kernel.parameters]
    assert not set(names) & OLD_WORDS.keys() and kernel.name not in OLD_WORDS
    config = kernel.config()
    old = {next((o for o, new in PARAMETERS.items() if new == name), name): value for name, value in config.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert kernel.config(old) == recorded(kernel.name, old) == config


@pytest.mark.parametrize("name", OLD_KERNELS)
def test_kernels_are_found_by_their_old_names(name):
    with pytest.warns(DeprecationWarning, match=f"{name} is called {OLD_WORDS[name]} now"):
        assert find(name) is find(OLD_WORDS[name])


def test_a_call_takes_old_words_and_warns_its_caller():
    a = np.ones((8, 8), np.float32)
    with pytest.warns(DeprecationWarning, match="SLICES is called K_SLICES now") as seen:
        tilewright.matmul(a, a, kernel="split_k", config={"SLICES": 1}, engine="emulator")
    assert {Path(one.filename) for one in seen} == {Path(__file__)}


def test_a_word_that_is_neither_is_an_error_without_a_warning():
    with warnings.catch_warnings(), pytest.raises(ConfigError, match="has no parameter 'BANDS'"):
        warnings.simplefilter("error")
        find("gemm_sm90").config({"BANDS": 4})


def test_records_with_old_fields_are_read():
    times = {"min": 3.0, "median": 4.0}
    with pytest.warns(DeprecationWarning, match="apart_us is called after_other_work_us now"):
        read = Timed.model_validate({"time_us": times, "apart_us": times})
    assert read.after_other_work_us == Times(**times)


def test_an_old_option_is_understood(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["tilewright", "check", "--vast", "--batch-invariant", "split_k"])
    with warnings.catch_warnings(), pytest.raises(SystemExit):
        main.main()
    printed = " ".join(capsys.readouterr().err.split())
    assert "--vast is called --huge now" in printed and "--huge does not look at rows" in printed
