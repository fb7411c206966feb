"""PyTorch: arrays.py how tensors are read, op.py the operator, enable/ models whose products run here, multi_gpu.py one
product on several GPUs, distributed/ products of several processes."""
