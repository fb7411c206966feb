"""`tilewright sass` on a machine with a GPU."""

import sys

from tilewright.core.gpus import limits
from tilewright.tools.cli import main


def test_the_present_gpu_is_what_code_is_made_for(engine, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "argv", ["tilewright", "sass", "coalesced"])
    try:
        main.main()
    except SystemExit as stop:
        assert not stop.code
    assert f" for {limits(engine.capability).arch}: float32" in capsys.readouterr().out
