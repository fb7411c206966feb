"""What the commands do, and the command line above that."""
