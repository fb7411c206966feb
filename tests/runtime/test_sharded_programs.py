"""Programs of JAX on several devices, in a process that has four on the host: see sharded_programs.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

TIMEOUT_S = 600


@pytest.mark.further
def test_programs_on_four_devices():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    programs = Path(__file__).with_name("sharded_programs.py")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(programs)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ran.returncode == 0, ran.stdout[-8000:]
    assert " passed" in ran.stdout
