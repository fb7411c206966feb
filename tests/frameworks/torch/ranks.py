"""Checks that two processes make together, joined by gloo; run by test_distributed.py, once for all of them."""

import importlib
import traceback
from importlib import import_module

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import tilewright
from tilewright.distributed import all_gather_matmul, matmul_reduce_scatter

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def group():
    return dist.group.WORLD.group_name


def of(a_shape, b_shape, a, b, result, **keywords):
    """A product of sharded factors: its result, sharding and gradients."""
    mesh = keywords.pop("mesh")
    whole = [torch.randn(a_shape), torch.randn(b_shape)]
    placed = [
        distribute_tensor(one, mesh, [location]).requires_grad_() for one, location in zip(whole, (a, b), strict=True)
    ]
    plain = [one.clone().requires_grad_() for one in whole]
    found, expected = tilewright.matmul(*placed, **keywords), torch.matmul(*plain)
    if keywords.get("activation"):
        expected = torch.relu(expected)
    assert found.placements == (result,), found.placements
    same(found.full_tensor(), expected)
    for one, other in zip(
        torch.autograd.grad(found.full_tensor().square().sum(), placed),
        torch.autograd.grad(expected.square().sum(), plain),
        strict=True,
    ):
        same(one.full_tensor(), other)


@check
def rules_of_matrices(mesh):
    of((6, 8), (8, 4), Shard(0), Replicate(), Shard(0), mesh=mesh)
    of((6, 8), (8, 4), Replicate(), Shard(1), Shard(1), mesh=mesh)
    of((6, 8), (8, 4), Shard(1), Shard(0), Partial(), mesh=mesh)
    of((6, 8), (8, 4), Replicate(), Replicate(), Replicate(), mesh=mesh)
    of((5, 8), (8, 4), Shard(0), Replicate(), Shard(0), mesh=mesh)  # 3 rows and 2


@check
def rules_of_batches_and_vectors(mesh):
    of((4, 3, 8), (4, 8, 6), Shard(0), Shard(0), Shard(0), mesh=mesh)
    of((4, 3, 8), (8, 6), Shard(0), Replicate(), Shard(0), mesh=mesh)
    of((4, 3, 8), (8, 6), Shard(1), Replicate(), Shard(1), mesh=mesh)
    of((2, 4, 8), (8, 6), Replicate(), Shard(1), Shard(2), mesh=mesh)
    of((8,), (8, 6), Replicate(), Shard(1), Shard(0), mesh=mesh)
    of((4, 8), (8,), Shard(1), Shard(0), Partial(), mesh=mesh)


@check
def what_no_rule_has_is_redistributed(mesh):
    a, b = torch.randn(6, 8), torch.randn(8, 4)
    placed = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(b, mesh, [Shard(0)])
    same(tilewright.matmul(*placed).full_tensor(), a @ b)
    one, other = distribute_tensor(a, mesh, [Shard(1)]), distribute_tensor(b, mesh, [Shard(0)])
    found = tilewright.matmul(one, other, activation="relu")  # the same shardings gave a partial sum before
    same(found.full_tensor(), torch.relu(a @ b))
    assert not any(isinstance(location, Partial) for location in found.placements)


@check
def a_bias_and_c_follow_the_result(mesh):
    a, b, bias, c = torch.randn(6, 8), torch.randn(8, 4), torch.randn(4), torch.randn(6, 4)
    for of_a, of_b, of_bias, of_c in (
        (Shard(0), Replicate(), Replicate(), Shard(0)),
        (Replicate(), Shard(1), Shard(0), Shard(1)),
        (Shard(1), Shard(0), Replicate(), Replicate()),
    ):
        places = zip((a, b, bias, c), (of_a, of_b, of_bias, of_c), strict=True)
        placed_a, placed_b, placed_bias, placed_c = (
            distribute_tensor(one, mesh, [location]) for one, location in places
        )
        found = tilewright.matmul(placed_a, placed_b, bias=placed_bias, c=placed_c, beta=0.5)
        same(found.full_tensor(), a @ b + bias + 0.5 * c)
    tall = distribute_tensor(torch.arange(6.0).reshape(6, 1), mesh, [Shard(0)])
    found = tilewright.matmul(
        distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(b, mesh, [Replicate()]), bias=tall
    )
    same(found.full_tensor(), a @ b + tall.full_tensor())


class Linear(torch.nn.Linear):
    """A linear layer by one call of matmul."""

    def forward(self, x):
        return tilewright.matmul(x, self.weight.T, bias=self.bias)


def block(kind):
    torch.manual_seed(1)
    return torch.nn.Sequential(kind(8, 16), torch.nn.GELU(), kind(16, 8))


@check
def modules_are_parallel_unchanged(mesh):
    alone, parallel = block(torch.nn.Linear), block(Linear)
    parallelize_module(parallel, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(4, 8)
    found, expected = parallel(x), alone(x)
    same(found, expected)
    found.square().sum().backward()
    expected.square().sum().backward()
    for one, other in zip(parallel.parameters(), alone.parameters(), strict=True):
        assert isinstance(one.grad, DTensor)
        same(one.grad.full_tensor(), other.grad)


@check
def modules_are_rerouted(mesh):
    routing = importlib.import_module("tilewright.frameworks.torch.enable.routing")
    speedup = importlib.import_module("tilewright.select.speedup").Speedup(1.1, 1.0)
    routes = routing.Routes("CPU", lambda problem, device: speedup, None)
    alone, parallel = block(torch.nn.Linear), block(torch.nn.Linear)
    parallelize_module(parallel, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(4, 8)
    expected = alone(x)
    routes.install()
    try:
        found = parallel(x)
    finally:
        routes.remove()
    same(found, expected)
    routes.count()
    assert sum(one.calls for kinds in routes.decisions.values() for one in kinds.values()) >= 2


@check
def shards_are_gathered(mesh):
    for shape, dim in (((6, 8), 0), ((6, 8), 1), ((2, 4, 8), 1), ((2, 4, 8), -3)):
        whole = torch.randn(shape)
        part = whole.chunk(2, dim)[dist.get_rank()].contiguous().requires_grad_()
        Bs = [torch.randn(8, n).requires_grad_() for n in (4, 3)]
        A, found = all_gather_matmul(part, Bs, dim, group())
        same(A, whole)
        for one, B in zip(found, Bs, strict=True):
            same(one, whole @ B)
        assert all_gather_matmul(part, Bs, dim, group(), return_A=False)[0] is None
        wanted = torch.autograd.grad(sum((one * (dist.get_rank() + 1)).sum() for one in found), [part, *Bs])
        plain = [whole.requires_grad_(), *(B.detach().requires_grad_() for B in Bs)]
        sums = [sum((plain[0] @ B * weight).sum() for B in plain[1:]) for weight in (1, 2)]
        same(
            wanted[0],
            torch.autograd.grad(sums[0] + sums[1], plain[0], retain_graph=True)[0].chunk(2, dim)[dist.get_rank()],
        )
        for one, other in zip(wanted[1:], torch.autograd.grad(sums[dist.get_rank()], plain[1:]), strict=True):
            same(one, other)


@check
def sums_are_scattered(mesh):
    for shape, dim, op in (((6, 8), 0, "sum"), ((6, 8), 1, "sum"), ((2, 4, 8), 1, "avg")):
        As, Bs = [torch.randn(shape) for _ in "01"], [torch.randn(8, 4) for _ in "01"]
        mine = dist.get_rank()
        A, B = (one[mine].clone().requires_grad_() for one in (As, Bs))
        total = sum(a @ b for a, b in zip(As, Bs, strict=True)) / (2 if op == "avg" else 1)
        found = matmul_reduce_scatter(A, B, op, dim, group())
        same(found, total.chunk(2, dim)[mine])
        weights = [1.0, 2.0]
        found_grads = torch.autograd.grad((found * weights[mine]).sum(), [A, B])
        a, b = (one[mine].clone().requires_grad_() for one in (As, Bs))
        parts = (a @ b / (2 if op == "avg" else 1)).chunk(2, dim)
        expected = torch.autograd.grad(sum((p * w).sum() for p, w in zip(parts, weights, strict=True)), [a, b])
        for one, other in zip(found_grads, expected, strict=True):
            same(one, other)


def main(rank, path, results):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    calls = import_module("tilewright.api.call")
    calls.cuda_unavailable = lambda: "a test says so"
    mesh = init_device_mesh("cpu", (2,))
    for name, function in CHECKS.items():
        torch.manual_seed(0)
        try:
            function(mesh)
            results.put((rank, name, ""))
        except Exception:
            results.put((rank, name, traceback.format_exc()))
            break  # the other rank may wait for this one
    dist.destroy_process_group()
