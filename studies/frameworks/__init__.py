"""tilewright in PyTorch, JAX and CuPy, next to these alone: `python -m studies.frameworks measure --out FILE`."""
