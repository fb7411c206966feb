"""Production kernels, each for a regime of problems, and the relayout that runs before some of them."""
