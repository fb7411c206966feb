"""Occupancy against independent work of a thread: how much of a GPU's arithmetic and bandwidth each uses."""
