"""Users' kernels: what a source file says of its kernel, and what compilers get of it."""
