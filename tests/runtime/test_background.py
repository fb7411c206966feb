"""Jobs of background threads: once a key, their errors, and what happens to them at exit and in a forked process."""

import os
import subprocess
import sys
import threading
import time

import pytest

from tilewright.runtime.background import Background


def test_a_job_runs_once_a_key_and_keeps_its_error():
    background, ran = Background(), []

    def fails():
        ran.append(threading.current_thread())
        raise ValueError("no")

    jobs = [background.start("one", fails) for _ in range(3)]
    background.wait()
    assert jobs[0] is jobs[1] is jobs[2]
    assert jobs[0].ended
    assert str(jobs[0].error) == "no"
    (thread,) = ran
    assert thread.daemon
    assert background.start("two", lambda: None).wait(5)


def test_who_starts_a_job_does_not_wait():
    background, go = Background(), threading.Event()
    job = background.start("one", go.wait)
    assert not job.wait(0.01)
    assert not job.ended
    go.set()
    assert job.wait(5)
    assert job.error is None


AT_EXIT = """
import os, sys, time
from tilewright.runtime import background as module
os.sched_getaffinity = lambda of: range(4)  # two threads
def works(name, seconds):
    def work():
        print(name, "begins", flush=True)
        time.sleep(seconds)
        print(name, "ends", flush=True)
    return work
started = module.background.start("program", works("program", 60), in_process=False)
module.background.start("library", works("library", 1))
module.background.start("third", works("third", 60))
time.sleep(0.3)
"""


def test_exit_waits_for_libraries_alone_and_begins_nothing():
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=50, check=True)
    assert sorted(done.stdout.split("\n")[:-1]) == ["library begins", "library ends", "program begins"]
    assert not done.stderr
    assert time.monotonic() - began < 40


FORKED = """
import os
from tilewright.runtime.background import background
background.start("one", lambda: None).wait()
if os.fork():
    print(os.waitstatus_to_exitcode(os.wait()[1]))
else:
    os._exit(0 if background.start("one", lambda: None).wait(20) else 3)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_has_threads_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "0\n"
