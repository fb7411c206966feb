"""docs/counters.md: explained counters next to those of Nsight Compute, predicted times next to measured ones."""
