"""Facts about a kernel that can be computed without running it."""
