"""Footprints of blocks, a module for each family of kernels (`kernels/cost_family.py`).

The constants of staging kernels were fitted to rungs 2 to 10 on an H200; those of copying and streaming kernels to
10,000 measurements of rungs 12 and 15 to 18 on one, of 187 problems. Warpgroup kernels' are in `warpgroups`.
"""
