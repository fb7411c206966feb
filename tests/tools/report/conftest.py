"""Runs and journals that reports are made of, and the browser that shows them.

Tests in a browser are deselected on a machine that has none; in CI they fail there.
"""

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

from tilewright.tools.bench.records import Baseline, Run, Times
from tilewright.tools.tune.journal import Journal, Trial

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser():
    """Where a browser that the tests can drive is; None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def pytest_collection_modifyitems(config, items):
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    if in_ci or find_browser():
        return
    driven = [item for item in items if item.get_closest_marker("browser")]
    items[:] = [item for item in items if item not in driven]
    config.hook.pytest_deselected(items=driven)


@pytest.fixture(scope="module")
def browser():
    path = find_browser()
    if path is None:
        pytest.fail(f"these tests need a browser, one of {', '.join(BROWSERS)}: apt-get install chromium")
    with sync_playwright() as playwright:
        # Without a sandbox because CI runs as root in a container, which Chromium's own sandbox refuses.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def make_run(make_record):
    """Make a run of two kernels on three squares and another shape; `faster` multiplies their speeds."""

    def make(faster=1.0, kernels=(("naive", 1, 500.0), ("warptiled", 10, 40000.0)), gpu="NVIDIA H200", **changes):
        records = []
        for kernel, rung, speed in kernels:
            for m, n, k in ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (1, 4096, 4096)):
                gflops = faster * speed * (0.5 if m == 1024 else 0.01 if m == 1 else 1)
                time = Times(min=0.9 * 2e-3 * m * n * k / gflops, median=2e-3 * m * n * k / gflops)
                baseline_time = Times(min=2e-3 * m * n * k / 50000, median=2e-3 * m * n * k / 50000)
                baseline = Baseline(name="cuBLASLt", version="13.1.0", time_us=baseline_time, gflops=50000.0)
                fields = {"kernel": kernel, "rung": rung, "m": m, "n": n, "k": k, "config": {"BM": 64, "BN": rung}}
                fields |= {"time_us": time, "gflops": gflops, "baseline": baseline, "ratio": gflops / 50000}
                records.append(make_record(**(fields | changes)))
        facts = {"name": gpu, "compute_capability": "9.0", "sm_clock_mhz": 1980, "memory_clock_mhz": 3201}
        environment = {"date": "2026-11-21T09:47:14+00:00", "revision": "abc1234", "gpu": facts}
        return Run(environment=environment, records=records)

    return make


@pytest.fixture(scope="session")
def write_journal():
    """Write a journal of a search: four timed configs, one stopped and one wrong."""

    def write(path, **changes):
        journal = Journal(path)
        for at, (bm, bn, gflops, outcome) in enumerate(
            ((64, 64, 100.0, "timed"), (64, 128, 150.0, "timed"), (128, 64, 120.0, "timed"), (128, 128, 200.0, "timed"),
             (32, 32, 20.0, "stopped"), (32, 64, None, "wrong")), start=1
        ):  # fmt: skip
            time_us = 2e-3 * 512**3 / gflops if gflops else None
            fields = {"device": "NVIDIA H200", "digest": "d", "kernel": "vectorized", "m": 512, "n": 512, "k": 512}
            fields |= {"config": {"BM": bm, "BN": bn, "BK": 16, "TM": 4, "TN": 8}, "case": "NN float32"}
            fields |= {"outcome": outcome, "at_s": float(at), "time_us": time_us, "registers": 96}
            journal.append(Trial(**(fields | changes)))
        journal.close()
        return path

    return write
