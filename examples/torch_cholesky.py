"""A blocked Cholesky factorisation whose products are tilewright's: residual and time next to the same by PyTorch's."""

import argparse
import time

import torch

import tilewright


def cholesky(a: torch.Tensor, block: int, product) -> torch.Tensor:
    """The lower triangular L with L @ L.T = a, of a symmetric positive definite matrix."""
    lower = a.clone()
    n = len(a)
    for start in range(0, n, block):
        end = min(start + block, n)
        lower[start:end, start:end] = torch.linalg.cholesky(lower[start:end, start:end])
        if end < n:
            below = torch.linalg.solve_triangular(lower[start:end, start:end], lower[end:, start:end].T, upper=False).T
            lower[end:, start:end] = below
            lower[end:, end:] -= product(below, below.T)  # nearly all of the work
    return lower.tril()


def report(name: str, a: torch.Tensor, block: int, product) -> None:
    """Print seconds, and |L @ L.T - a| over |a|, in float64."""
    cholesky(a, block, product)  # compiles
    wait()
    start = time.perf_counter()
    lower = cholesky(a, block, product)
    wait()
    seconds = time.perf_counter() - start
    exact = a.double()
    residual = (lower.double() @ lower.double().T - exact).norm() / exact.norm()
    print(f"{name:12} {seconds:8.3f} s  residual {residual:.2e}")


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", nargs="?", type=int, default=512, help="rows of the matrix")
    parser.add_argument("block", nargs="?", type=int, default=64, help="columns that are factored at a time")
    parser.add_argument("--precision", default="float32", help="what tilewright's products promise")
    given = parser.parse_args()
    size, block, precision = given.size, given.block, given.precision

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    factor = torch.randn(size, size, device=device)
    a = factor @ factor.T / size + torch.eye(size, device=device)
    panel = a[:, :block]
    plan = tilewright.plan(panel, panel.T, precision=precision)
    print("tilewright:", plan.describe().splitlines()[0])
    if plan.problem is None:
        print("Without a GPU no kernel runs: the times compare NumPy's products with PyTorch's on this CPU.")
    report("PyTorch", a, block, torch.matmul)
    report("tilewright", a, block, lambda x, y: tilewright.matmul(x, y, precision=precision))


if __name__ == "__main__":
    main()
