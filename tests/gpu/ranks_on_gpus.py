"""Checks that two processes with a GPU each run together; started by test_distributed_gpu.py: CHECK RANK STORE."""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # before PyTorch looks: no multicast over NVLink

import tilewright
from tilewright.distributed import all_gather_matmul, matmul_reduce_scatter
from tilewright.frameworks.torch.distributed import collectives, exchange
from tilewright.runtime import launcher

GROUP_S = 8


def normal(*shape, dtype, seed=0):
    generator = torch.Generator("cuda").manual_seed(1000 * seed + dist.get_rank())
    return torch.empty(shape, dtype=dtype, device="cuda").normal_(generator=generator)


def close(found, expected, dtype):
    difference = float((found.double() - expected.double()).norm() / expected.double().norm())
    assert difference < {torch.bfloat16: 2e-2, torch.float16: 2e-3, torch.float32: 2e-5}[dtype], difference


def group():
    return dist.group.WORLD.group_name


def products_while_shards_move():
    size = dist.get_world_size()
    for dtype in (torch.bfloat16, torch.float32):
        for m, n, k in ((512, 512, 512), (4096, 2048, 1024), (96, 40, 72), (8192, 1024, 512), (256, 1502, 264)):
            shard, B, C = (normal(*shape, dtype=dtype, seed=m) for shape in ((m // size, k), (k, n), (k, n // 2)))
            for _ in range(3):
                A, found = all_gather_matmul(shard, [B, C], 0, group())
            expected, products = collectives.all_gather_matmul(shard, [B, C], 0, dist.group.WORLD, None)
            assert A.equal(expected)
            for one, other in zip(found, products, strict=True):
                close(one, other, dtype)
            again = all_gather_matmul(shard, [B, C], 0, group(), return_A=False)
            assert again[0] is None and all(one.equal(other) for one, other in zip(again[1], found, strict=True))
            part = normal(m, k, dtype=dtype)
            for op in ("sum", "avg"):
                found = [matmul_reduce_scatter(part, B, op, 0, group()) for _ in range(3)]
                close(found[0], collectives.matmul_reduce_scatter(part, B, op, 0, dist.group.WORLD, None), dtype)
                assert all(one.equal(found[0]) for one in found)
    like = torch.empty(1, device="cuda")
    for purpose in ("all_gather", "reduce_scatter"):
        assert exchange.exchange_of(dist.group.WORLD, like, purpose) is not None, "GPUs do not reach each other"


def calls_are_started_by_the_compiled_launcher_and_from_python():
    """Both ways give equal bits; of factors that lie by rows, by columns and with gaps, on every number of parts."""
    size, loaded = dist.get_world_size(), launcher.load
    for dtype, m, n, k in (
        (torch.bfloat16, 2048, 14336, 2048),
        (torch.float32, 512, 768, 640),
        (torch.float16, 256, 300, 64),
    ):
        A, B = normal(m * size, k, dtype=dtype), normal(k, n, dtype=dtype, seed=1)
        wide = normal(m, 2 * k, dtype=dtype, seed=2)
        found = []
        for load in (loaded, lambda: None):
            launcher.load = load
            for _, one in exchange._exchanges.values():
                one.works.clear()
            found.append(
                [
                    matmul_reduce_scatter(A, B.T.contiguous().T, "sum", 0, group()),
                    matmul_reduce_scatter(A[:, : k // 2], B[: k // 2], "avg", 0, group()),
                    *all_gather_matmul(wide[:, ::2], [B, B[:, ::2]], 0, group())[1],
                ]
            )
        launcher.load = loaded
        assert all(one.equal(other) for one, other in zip(*found, strict=True))
        close(found[0][0], collectives.matmul_reduce_scatter(A, B, "sum", 0, dist.group.WORLD, None), dtype)


def calls_follow_each_other_without_waiting():
    """Results of many calls, in two streams, whose operands change in between."""
    shard = normal(1024, 512, dtype=torch.float32)
    B = normal(512, 768, dtype=torch.float32)
    expected = [collectives.all_gather_matmul(shard * (i + 1), [B], 0, dist.group.WORLD, None)[1][0] for i in range(6)]
    torch.cuda.synchronize()
    side, found = torch.cuda.Stream(), []
    for i in range(6):
        stream = side if i % 2 else torch.cuda.current_stream()
        with torch.cuda.stream(stream):
            moved = shard * (i + 1)
            found.append(all_gather_matmul(moved, [B], 0, group(), return_A=False)[1][0])
            moved.fill_(float("nan"))
    torch.cuda.synchronize()
    for one, other in zip(found, expected, strict=True):
        close(one, other, torch.float32)


def batches_and_gradients():
    size, rank = dist.get_world_size(), dist.get_rank()
    x = normal(2, 256, 512, dtype=torch.float32).requires_grad_()
    w = normal(512, 384, dtype=torch.float32, seed=1).requires_grad_()
    _, (y,) = all_gather_matmul(x, [w], 1, group())
    assert y.shape == (2, 256 * size, 384)
    z = matmul_reduce_scatter(y.relu(), w.T, "sum", 1, group())
    found = torch.autograd.grad(z.square().sum(), [x, w])
    xs = [torch.empty_like(x) for _ in range(size)]
    ws = [torch.empty_like(w) for _ in range(size)]
    dist.all_gather(xs, x.detach().contiguous())
    dist.all_gather(ws, w.detach().contiguous())
    xs, ws = ([one.double().requires_grad_() for one in several] for several in (xs, ws))
    whole = torch.cat(xs, 1)
    sums = sum((whole @ one).relu() @ one.T for one in ws)
    expected = torch.autograd.grad(sums.square().sum(), [xs[rank], ws[rank]])
    for one, other in zip(found, expected, strict=True):
        close(one, other, torch.float32)


def a_graph_captures_the_collectives():
    shard, B = normal(256, 512, dtype=torch.bfloat16), normal(512, 256, dtype=torch.bfloat16, seed=1)
    expected = all_gather_matmul(shard, [B], 0, group())[1][0]
    collectives.all_gather_matmul(shard, [B], 0, dist.group.WORLD, None)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _, (found,) = all_gather_matmul(shard, [B], 0, group())
    graph.replay()
    close(found, expected, torch.bfloat16)


def a_rank_that_dies_ends_the_others():
    shard, B = normal(256, 512, dtype=torch.bfloat16), normal(512, 256, dtype=torch.bfloat16, seed=1)
    all_gather_matmul(shard, [B], 0, group())
    torch.cuda.synchronize()
    dist.barrier()
    if dist.get_rank() == 1:
        os._exit(0)
    start = time.monotonic()
    try:
        all_gather_matmul(shard, [B], 0, group())
        torch.cuda.synchronize()
    except RuntimeError as error:
        print(f"an error after {time.monotonic() - start:.1f} s: {error}", flush=True)
    else:
        print("no error", flush=True)
    try:
        all_gather_matmul(shard, [B], 0, group())
    except tilewright.LaunchError as error:
        print(f"the next all_gather_matmul: {error}", flush=True)
    try:
        matmul_reduce_scatter(shard, B, "sum", 0, group())
    except tilewright.LaunchError as error:
        print(f"the next matmul_reduce_scatter: {error}", flush=True)
    os._exit(0)


def main(check, rank, store):
    torch.cuda.set_device(int(rank))
    timeout = datetime.timedelta(seconds=GROUP_S if "dies" in check else 60)
    options = {"backend": "nccl", "init_method": f"file://{store}", "rank": int(rank), "world_size": 2}
    dist.init_process_group(**options, timeout=timeout)
    globals()[check]()
    torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()
    print("right", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
