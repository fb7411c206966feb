"""What Nsight Compute counts of every rung, of what matmul picks, and of cuBLAS."""
