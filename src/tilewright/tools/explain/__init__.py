"""What can be computed of a kernel without running it."""
