"""(problem, GPU) -> (kernel, config)."""
