"""Functions behind the commands, and the command line above them."""
