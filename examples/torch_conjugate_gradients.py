"""Conjugate gradients for many right-hand sides, whose products are tilewright's, next to the same by PyTorch's."""

import argparse
import time

import torch

import tilewright


def solve(
    a: torch.Tensor, b: torch.Tensor, product, tolerance: float = 1e-6, most: int = 500
) -> tuple[torch.Tensor, int]:
    """x with a @ x = b, of a symmetric positive definite matrix; and how many steps it took."""
    x = torch.zeros_like(b)
    residual, direction = b.clone(), b.clone()
    squares = (residual * residual).sum(0)
    wanted = tolerance**2 * squares
    steps = 0
    while steps < most and bool((squares > wanted).any()):
        steps += 1
        image = product(a, direction)  # nearly all of the work
        length = squares / (direction * image).sum(0)
        x += length * direction
        residual -= length * image
        before, squares = squares, (residual * residual).sum(0)
        direction = residual + squares / before * direction
    return x, steps


def report(name: str, a: torch.Tensor, b: torch.Tensor, product) -> None:
    """Print seconds, steps, and |a @ x - b| over |b|, in float64."""
    product(a, b)  # compiles
    wait()
    start = time.perf_counter()
    x, steps = solve(a, b, product)
    wait()
    seconds = time.perf_counter() - start
    residual = (a.double() @ x.double() - b.double()).norm() / b.double().norm()
    print(f"{name:12} {seconds:8.3f} s  {steps} steps  residual {residual:.2e}")


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", nargs="?", type=int, default=512, help="rows of the matrix")
    parser.add_argument("sides", nargs="?", type=int, default=64, help="right-hand sides")
    parser.add_argument("--precision", default="float32", help="what tilewright's products promise")
    given = parser.parse_args()
    size, sides, precision = given.size, given.sides, given.precision

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    factor = torch.randn(size, size, device=device)
    a = factor @ factor.T / size + 0.1 * torch.eye(size, device=device)
    b = torch.randn(size, sides, device=device)
    plan = tilewright.plan(a, b, precision=precision)
    print("tilewright:", plan.describe().splitlines()[0])
    if plan.problem is None:
        print("Without a GPU no kernel runs: the times compare NumPy's products with PyTorch's on this CPU.")
    report("PyTorch", a, b, torch.matmul)
    report("tilewright", a, b, lambda x, y: tilewright.matmul(x, y, precision=precision))


if __name__ == "__main__":
    main()
