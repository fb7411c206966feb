"""A commit's subject says what changed in at most 72 characters."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SINCE = "2026-11-28T02:30:00Z"
"""When the rule began to be tested."""
MOST = 72


def test_subjects_of_commits_are_short():
    if not (ROOT / ".git").exists():
        pytest.skip("no history: this is no checkout")
    log = ["git", "-C", str(ROOT), "log", "--no-merges", f"--since={SINCE}", "--format=%h %s"]
    subjects = subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [one for one in subjects if len(one.split(" ", 1)[1]) > MOST] == []
