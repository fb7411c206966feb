"""tilewright in PyTorch, JAX and CuPy, next to these alone: `python -m tilewright.bench.frameworks`."""
