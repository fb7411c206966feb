"""Several GPUs, and less memory than a product needs. What takes two GPUs is skipped where there is one."""

import importlib
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.core.errors import ArrayError, EngineUnavailableError

TIMEOUT_S = 180
SHORT_S = 38
"""Seconds for a check that waits for a timeout itself."""
RANKS = Path(__file__).with_name("ranks_on_gpus.py")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def two_gpus(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")


def on_two_ranks(check, folder, timeout=TIMEOUT_S):
    """Output of the ranks; they are ended after a time that both share."""
    command = [sys.executable, str(RANKS), check]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    processes = [subprocess.Popen([*command, str(rank), str(folder / "store")], **options) for rank in (0, 1)]
    deadline = time.monotonic() + timeout
    said = []
    try:
        for process in processes:
            said.append(process.communicate(timeout=max(deadline - time.monotonic(), 0.1))[0])
    except subprocess.TimeoutExpired:
        for process in processes:
            process.kill()
        rest = [process.communicate()[0] for process in processes[len(said) :]]
        pytest.fail(f"{check} did not end within {timeout} s: " + "\n".join(one[-3000:] for one in (*said, *rest)))
    finally:
        for process in processes:
            process.kill()
    return said


CHECKS = (
    "products_while_shards_move",
    "calls_are_started_by_the_compiled_launcher_and_from_python",
    "calls_follow_each_other_without_waiting",
    "batches_and_gradients",
    "a_graph_captures_the_collectives",
)


@pytest.mark.parametrize("check", CHECKS)
def test_two_ranks(two_gpus, check, tmp_path):
    for said in on_two_ranks(check, tmp_path):
        assert said.rstrip().endswith("right"), said[-3000:]


def test_a_rank_that_dies_ends_the_others(two_gpus, tmp_path):
    said, _ = on_two_ranks("a_rank_that_dies_ends_the_others", tmp_path, SHORT_S)
    assert "an error after" in said and "no error" not in said, said[-3000:]
    words = "did not end within 8 s, the timeout of its group: it waits for rank 1 of the group"
    assert words in said
    for purpose in ("all_gather_matmul", "matmul_reduce_scatter"):
        assert re.search(f"the next {purpose}: .*{words}", said), said[-3000:]


def normal(torch, *shape, dtype, seed=0):
    generator = torch.Generator("cuda:0").manual_seed(seed)
    return torch.empty(shape, dtype=dtype, device="cuda:0").normal_(generator=generator)


def close(found, expected, allowed):
    found, expected = (one.double() for one in (found, expected))
    assert float((found - expected).norm() / expected.norm()) < allowed


@pytest.fixture
def divided(monkeypatch):
    """Shares as with a link and steps that take no time, which would leave small products to one GPU."""
    split = importlib.import_module("tilewright.frameworks.torch.multi_gpu")
    monkeypatch.setattr(split, "LINK_BYTES_US", 1e12)
    monkeypatch.setattr(importlib.import_module("tilewright.frameworks.dividing"), "STEP_US", 0.0)
    split._division.cache_clear()
    yield
    split._division.cache_clear()


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(4096, 4096, 2048), (9000, 7000, 264), (5000, 3000, 777), (300, 9000, 128), (1, 1, 1)]
)
def test_one_product_on_two_gpus(torch, two_gpus, divided, m, n, k, dtype):
    kind, allowed = getattr(torch, dtype), 1e-2 if dtype == "bfloat16" else 1e-5
    a, b, c = (normal(torch, *shape, dtype=kind, seed=i) for i, shape in enumerate(((m, k), (k, n), (m, n))))
    expected = tilewright.matmul(a, b)
    found = tilewright.matmul(a, b, devices="all")
    close(found, expected, allowed)
    again = torch.empty_like(found)
    assert tilewright.matmul(a, b, out=again, devices=[0, 1]) is again
    assert again.equal(found)
    for bias in (c[0].clone(), c[:, :1].clone()):
        options = {"c": c, "beta": 0.5, "alpha": 2.0, "bias": bias, "activation": "relu"}
        close(tilewright.matmul(a, b, devices="all", **options), tilewright.matmul(a, b, **options), allowed)
    columns = a.T.contiguous().T, b.T.contiguous().T
    close(tilewright.matmul(*columns, devices="all"), expected, allowed)
    tall = torch.empty(n, m, dtype=kind, device="cuda:0").T
    close(tilewright.matmul(a, b, out=tall, c=c, beta=1.0, devices="all"), expected + c, 2 * allowed)


def test_a_division_follows_the_current_stream(torch, two_gpus, divided):
    a, b = (normal(torch, 4096, 4096, dtype=torch.float32, seed=i) for i in (0, 1))
    expected = tilewright.matmul(a, b)
    found, stream = [], torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(4):
            scaled = a * (i + 1)
            found.append(tilewright.matmul(scaled, b, devices="all"))
            scaled.fill_(float("nan"))
    torch.cuda.synchronize()
    for i, one in enumerate(found):
        close(one, expected * (i + 1), 1e-5)


def test_gpus_that_are_not_there_are_named(torch):
    a = torch.ones(64, 64, device="cuda")
    with pytest.raises(
        EngineUnavailableError, match=r"GPU 99 of devices=\[0, 99\] cannot be reached: there is no GPU 99"
    ):
        tilewright.matmul(a, a, devices=[0, 99])
    with pytest.raises(ArrayError, match="devices divides a product of two matrices"):
        tilewright.matmul(a[None], a[None], devices=[0])
    with pytest.raises(ArrayError, match="memory_limit is for arrays on the host"):
        tilewright.matmul(a, a, memory_limit=10**9)
    assert tilewright.matmul(a, a, devices=[0]).equal(tilewright.matmul(a, a))


def host(torch, *shape, dtype, pinned, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = torch.empty(shape, dtype=dtype, pin_memory=pinned)
    return made.copy_(torch.randn(shape, generator=generator))


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("m", "n", "k"), [(5000, 4000, 3000), (1024, 1000, 100_000), (20_000, 300, 700)])
def test_products_that_the_memory_does_not_hold(torch, pinned, dtype, m, n, k):
    kind, allowed = getattr(torch, dtype), 1e-2 if dtype == "bfloat16" else 2e-5
    a, b, c = (
        host(torch, *shape, dtype=kind, pinned=pinned, seed=i) for i, shape in enumerate(((m, k), (k, n), (m, n)))
    )
    expected = torch.addmm(c.cuda().double(), a.cuda().double(), b.cuda().double(), beta=0.5).cpu()
    limit = 60 * 10**6
    found = tilewright.matmul(a, b, c=c, beta=0.5, memory_limit=limit)
    close(found, expected, allowed)
    out = torch.empty(m, n, dtype=kind, pin_memory=pinned)
    assert tilewright.matmul(a, b, c=c, beta=0.5, out=out, memory_limit=limit) is out
    assert out.equal(found)


def test_memory_is_given_back(torch):
    a, b = (host(torch, 6000, 6000, dtype=torch.float32, pinned=True, seed=i) for i in (0, 1))
    tilewright.matmul(a, b, memory_limit=10**8)
    torch.cuda.synchronize()
    before, _ = torch.cuda.mem_get_info()
    for _ in range(3):
        tilewright.matmul(a, b, memory_limit=10**8)
    after, _ = torch.cuda.mem_get_info()
    assert before - after < 2**24


def test_arrays_of_the_host_on_two_gpus(torch, two_gpus):
    a, b = (np.random.default_rng(i).standard_normal((5000, 5000), np.float32) for i in (0, 1))
    found = tilewright.matmul(a, b, devices="all", memory_limit=10**8)
    assert np.array_equal(found, tilewright.matmul(a, b, devices=[0, 1], memory_limit=10**8))
    expected = (torch.from_numpy(a).cuda().double() @ torch.from_numpy(b).cuda().double()).cpu()
    close(torch.from_numpy(found), expected, 1e-5)
