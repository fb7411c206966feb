"""Counters of Nsight Compute for every rung, for the picks of matmul, and for cuBLAS."""
