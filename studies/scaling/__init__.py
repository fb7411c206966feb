"""docs/scaling.md: products of several GPUs, and of arrays that a GPU does not hold."""
