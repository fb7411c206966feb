"""Products of several GPUs next to the product alone and to PyTorch's: `python -m studies.scaling.several_gpus`."""
