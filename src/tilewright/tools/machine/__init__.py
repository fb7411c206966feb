"""This machine's GPU, measured by small kernels: latencies and bandwidths of its arithmetic and of each memory."""
