"""matmul, plan, prepare, grouped_matmul: from arrays to a plan and its launch."""
