"""Compilers in the background: what the end of a process waits for, and a process that was forked."""

import subprocess
import sys
import time

from tilewright.runtime import background


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert not done.stderr
    return sorted(done.stdout.split("\n")[:-1])


AT_EXIT = """
import os, time
from tilewright.runtime import background
os.sched_getaffinity = lambda of: range(3)  # two threads
def works(name, seconds):
    def work():
        os.write(1, f"{name} begins\\n".encode())
        time.sleep(seconds)
        os.write(1, f"{name} ends\\n".encode())
    return work
background.start("program", works("program", 60), within=False)
background.start("library", works("library", 1))
background.start("third", works("third", 60))
time.sleep(0.3)
"""


def test_the_end_waits_for_compilers_within_the_process_alone_and_begins_nothing():
    began = time.monotonic()
    assert run(AT_EXIT) == ["library begins", "library ends", "program begins"]
    assert time.monotonic() - began < 40


FORKED = """
import os, time
from tilewright.runtime import background
background.start("slow", lambda: time.sleep(0.5))
if os.fork():
    print(os.waitstatus_to_exitcode(os.wait()[1]))
else:
    unknown = background.begun("slow") is None
    os._exit(0 if unknown and background.start("slow", lambda: 7).result(20) == 7 else 3)
"""


def test_a_forked_process_has_threads_of_its_own_and_waits_for_none_of_its_parent():
    assert run(FORKED) == ["0"]


def test_work_is_done_once_a_name_and_an_error_is_kept_for_who_asks():
    done = []

    def fails():
        done.append(1)
        raise ValueError("no")

    first, second = (background.start("fails", fails) for _ in range(2))
    assert first is second
    assert str(first.exception(20)) == "no"
    assert done == [1]
    assert not background.finish()
