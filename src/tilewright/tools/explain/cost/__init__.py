"""How long a kernel with a config will take on a GPU: a model for each family of kernels, see prediction.py."""
