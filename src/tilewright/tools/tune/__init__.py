"""The autotuner: searches the configs of kernels for the fastest on a problem, and adds what it finds to the tables."""
