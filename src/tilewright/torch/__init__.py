"""PyTorch: the operator that `tilewright.matmul` is where PyTorch records it (op.py)."""
