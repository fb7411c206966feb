"""Sustained speeds of a GPU at its power limit."""
