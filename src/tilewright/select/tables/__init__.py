"""Tuned tables: which kernel and config were measured to be fast, by GPU and problem."""
